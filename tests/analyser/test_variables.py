"""Variables of the small report by name."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser.diff import mapped_change
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.memory.lowered_variables import variable_memory
from tilescope.analyser.memory.variables import mapped_memory, named_variables
from tilescope.reports import Report


def test_a_name_means_the_variables_of_that_name(small: Report) -> None:
    actual = named_variables(small, " weights ")
    assert (actual.names, actual.n_variables) == (("weights",), 1)
    assert actual.tile_bytes.tolist() == [40] * 8


def test_else_all_that_contain_the_text_are_added_up(small: Report) -> None:
    actual = named_variables(small, "EX")
    assert actual.names == ("layer1/conv/exchange",)
    several = named_variables(small, "i")
    assert len(several.names) > 1
    ids = [
        index
        for index, name in enumerate(("in", "weights", "act", "layer1/conv/exchange"))
        if "i" in name
    ]
    assert several.tile_bytes.tolist() == variable_memory(small, *ids).tolist()
    apart = [variable_memory(small, number) for number in ids]
    assert several.tile_bytes.tolist() == np.sum(apart, axis=0).tolist()


@pytest.mark.parametrize("text", ["nothing of the kind", "", "  ", "%", "x" * 10_000])
def test_an_unknown_name_is_reported(small: Report, text: str) -> None:
    with pytest.raises(BadQuestion, match="this report has 4 variables"):
        named_variables(small, text)


def test_a_map_of_two_reports_is_candidate_minus_baseline(small: Report, variation) -> None:
    planted = variation(Shape(planted_bytes=24))
    for subject in ("variable:weights", "total"):
        assert mapped_change(small, planted, subject).tile_bytes.tolist() == [24, *[0] * 7]
        assert mapped_change(planted, small, subject).tile_bytes.tolist() == [-24, *[0] * 7]
    with_bias = variation(Shape(has_bias=True))
    bias = mapped_memory(with_bias, "variable:bias").tile_bytes
    assert bias.any()
    assert mapped_change(small, with_bias, "variable:bias").tile_bytes.tolist() == bias.tolist()
    assert mapped_change(with_bias, small, "variable:bias").tile_bytes.tolist() == (-bias).tolist()
    with pytest.raises(BadQuestion, match="this report has 4 variables"):
        mapped_change(small, planted, "variable:nowhere")
