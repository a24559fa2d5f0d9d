"""Notices above a summary."""

from __future__ import annotations

import json

from tilescope.webapp.components.histogram import tile_histogram
from tilescope.webapp.components.markup import Markup, as_html, frozen
from tilescope.webapp.components.panels import notice_bar

_MESSAGE = """Out of memory: 2 of 64 tiles do not fit. Those that lack most:
  tile 1: 815,360 bytes
      174,304 bytes  weights
Use more tiles."""


def test_the_particulars_of_a_notice_keep_their_lines_and_open_on_a_click() -> None:
    bar = frozen(notice_bar("error", _MESSAGE))
    assert isinstance(bar, Markup)
    severity, body = bar.tree["c"]
    assert severity["c"] == ["Error"]
    kinds = [part["t"] for part in body["c"]]
    assert kinds == ["p", "details", "p"]
    assert body["c"][2]["c"] == ["Use more tiles."]
    assert "174,304 bytes  weights" in json.dumps(body["c"][1])
    assert body["c"][1]["c"][1]["c"][0].count("\n") == 1


def test_a_notice_of_one_line_has_no_particulars() -> None:
    bar = frozen(notice_bar("info", "All is well."))
    assert isinstance(bar, Markup)
    assert [part["t"] for part in bar.tree["c"][1]["c"]] == ["p"]


def test_a_histogram_has_both_axes() -> None:
    built = frozen(
        tile_histogram([0, 10, 21], [3, 1], lambda size: f"{size} B", holds=("holds", "hold"))
    )
    assert isinstance(built, Markup)
    text = json.dumps(built.tree)
    for words in ("3 tiles", '"0"', '"0 B"', '"10 B"', '"21 B"', "1 holds 10 B to 21 B"):
        assert words in text
    assert "4 hold 0 B to 21 B" in text


def test_tiles_that_are_alike_are_a_sentence() -> None:
    holds = "tile takes", "tiles take"
    built = as_html(tile_histogram([4214, 4214], [448], lambda n: f"{n:,} cycles", holds=holds))
    assert built == "<div>448 tiles take 4,214 cycles</div>"
    built = as_html(tile_histogram([0, 9, 20], [0, 1], lambda n: f"{n} cycles", holds=holds))
    assert built == "<div>1 tile takes 9 cycles to 20 cycles</div>"
    # Labels of the axis that would say the same stand there once.
    built = as_html(tile_histogram([7, 8, 9], [1, 2], lambda n: f"{n // 4} KiB", holds=holds))
    assert built.count("<span>1 KiB</span>") == 1
