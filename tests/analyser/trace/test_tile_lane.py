"""Lanes of single tiles, against the busy cycles of the report on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.reports import Report

from .conftest import loop, sequence

Make = Callable[..., Report]


def slices(report: Report, tile: int, end: int = 99) -> list[tuple[int, int]]:
    """Return start and end of the slices of a tile's lane."""
    window = trace.window(report, 0, end, end, trace.Lanes(tiles=[tile]))
    level = trace.FIRST_TILE_LEVEL + tile
    (index,) = (i for i, lane in enumerate(window.lanes) if lane.level == level)
    bars = window.bars.at(window.lane == index)
    return list(zip(bars.start_cycle.tolist(), bars.end_cycle.tolist(), strict=True))


def test_a_tile_is_busy_from_the_start_of_a_step(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0)), (0, 1, 0, sequence(0))], 2)
    assert slices(report, 0) == [(0, 40), (55, 80)]
    assert slices(report, 1) == [(0, 20), (55, 67)]
    assert slices(report, 3) == []
    assert slices(report, 5) == [(0, 20), (55, 67)]


@pytest.mark.parametrize("count", [2, 5_000])
def test_loops_repeat(make: Make, count: int) -> None:
    report = make([(0, 0, 0, loop(0, count, (0, 1)))])
    assert slices(report, 1, 100) == [(0, 20), (50, 70)]


def test_a_slice_of_a_tile_is_that_of_its_step(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0))])
    actual = trace.slice_at(report, 0, 0, trace.FIRST_TILE_LEVEL + 1, 60)
    assert actual is not None
    assert (actual.step_id, actual.start_cycle, actual.end_cycle) == (3, 55, 67)
    assert trace.slice_at(report, 0, 0, trace.FIRST_TILE_LEVEL + 1, 30) is None


def test_tiles_that_do_not_exist_are_refused(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0))])
    with pytest.raises(BadQuestion, match="tile 4 has no trace"):
        trace.slice_at(report, 0, 0, trace.FIRST_TILE_LEVEL + 4, 0)
    with pytest.raises(BadQuestion, match="at most 16"):
        trace.window(report, 0, 9, 9, trace.Lanes(tiles=range(17)))
