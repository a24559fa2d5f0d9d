"""A typed text finds what has all its words, in any order, wherever one can search."""

from __future__ import annotations

import pytest

from tilescope.analyser.memory.liveness import curve
from tilescope.analyser.memory.placement import codelet_placements, compute_set_placements
from tilescope.analyser.memory.variable_list import VariableFilter, list_variables
from tilescope.analyser.memory.variables import named_variables
from tilescope.analyser.program.exchanges import exchanges
from tilescope.analyser.program.programs import search
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.summary.lookup import look_up
from tilescope.reports import Report


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Conv  LAYER1", ("conv", "layer1")),
        ("Sync (hand over)", ("sync", "hand", "over")),
        ("a → b", ("a", "b")),
        ("conv(1)", ("conv(1",)),
        ("→", ("→",)),
        ("100 %", ("100", "%")),
        ("", ()),
    ],
)
def test_a_text_is_its_words(text: str, words: tuple[str, ...]) -> None:
    assert search_words(text) == words


def test_words_fit_in_any_order_over_labels() -> None:
    assert words_fit(("conv", "sync"), "Sync", "layer/conv")
    assert not words_fit(("conv", "sync"), "Sync", "layer")
    assert words_fit((), "anything")


def test_everything_that_searches_takes_words_in_any_order(small: Report) -> None:
    expected = ["layer1/conv/exchange"]
    for text in ("exchange conv", "CONV (exchange)", "layer1 exchange"):
        assert [row.name for row in list_variables(small, VariableFilter(text)).rows] == expected
        assert list(named_variables(small, text).names) == expected
        assert search(small, text).n_matches > 0
        assert expected[0] in {match.label for match in look_up(small, text)}
    kind = "conv onTileExecute"
    names = [curve(small).name[position] for position in curve(small).matching(kind)]
    assert names
    assert all("conv" in name for name in names)
    (label,) = {match.node.label for match in search(small, kind).matches}
    assert search(small, label).n_matches == 1, "what is drawn can be searched for"
    assert compute_set_placements(small, text="conv layer1")
    (codelet, *_) = codelet_placements(small)
    assert codelet_placements(small, text=" ".join(reversed(codelet.vertex_type.split("<"))))
    assert exchanges(small, "doexchange conv").exchanges
