"""Bars beside the parts of an operation."""

from __future__ import annotations

from tilescope.analyser.program.plan_text import PartRow
from tilescope.webapp.figures.stage_bars import PartBars, part_bars

ROWS = (
    PartRow("preArrange_exchange", None, 100, False, True),
    PartRow("exchange", 50, 50, False, True),
    PartRow("compute", 400, 300, False),
    PartRow("cast", 20, None, False),
    PartRow("What was predicted", 470, 350, True),
)


def test_bars_are_as_long_as_their_cycles_and_a_sum_has_none() -> None:
    assert part_bars(ROWS) == (
        PartBars(None, 0.25, True),
        PartBars(0.125, 0.125, True),
        PartBars(1.0, 0.75, False),
        PartBars(0.05, None, False),
        None,
    )


def test_parts_that_take_no_time_have_bars_of_no_length() -> None:
    assert part_bars((PartRow("compute", 0, 0, False),)) == (PartBars(0.0, 0.0, False),)
    assert part_bars(()) == ()


def test_texts_say_how_compiled_differs() -> None:
    assert ROWS[0].texts == ("–", "100", "")
    assert ROWS[1].texts == ("50", "50", "equal")
    assert ROWS[2].texts == ("400", "300", "-25.0%")
