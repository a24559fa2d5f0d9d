"""Variables of the small report by name."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.lowered_variables import variable_memory
from tilescope.analyser.variables import named_variables
from tilescope.reports import Report


def test_a_name_means_the_variables_of_that_name(small: Report) -> None:
    found = named_variables(small, " weights ")
    assert (found.names, found.n_variables) == (("weights",), 1)
    assert found.tile_bytes.tolist() == [40] * 8


def test_else_all_that_contain_the_text_are_added_up(small: Report) -> None:
    found = named_variables(small, "EX")
    assert found.names == ("layer1/conv/exchange",)
    several = named_variables(small, "i")
    assert len(several.names) > 1
    ids = [
        place
        for place, name in enumerate(("in", "weights", "act", "layer1/conv/exchange"))
        if "i" in name
    ]
    assert several.tile_bytes.tolist() == variable_memory(small, *ids).tolist()
    apart = [variable_memory(small, number) for number in ids]
    assert several.tile_bytes.tolist() == np.sum(apart, axis=0).tolist()


@pytest.mark.parametrize("text", ["nothing of the kind", "", "  ", "%", "x" * 10_000])
def test_an_unknown_name_is_reported(small: Report, text: str) -> None:
    with pytest.raises(BadQuestion, match="this report has 4 variables"):
        named_variables(small, text)
