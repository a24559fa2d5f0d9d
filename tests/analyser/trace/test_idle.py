"""Idle tiles of steps, beside the busy cycles of every tile."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import costs
from tilescope.analyser.trace.idle import number_ranges
from tilescope.reports import Report

from .conftest import sequence

Make = Callable[..., Report]


def test_idle_tiles_are_numbered_over_all_ipus(make: Make) -> None:
    report = make([(0, ipu, 0, sequence(0)) for ipu in range(2)], 2)
    rows = trace.idle_tiles(report, 0)
    assert [(row.ipu_id, row.n_idle, row.ranges) for row in rows] == [
        (0, 2, ((2, 4),)),
        (1, 2, ((6, 8),)),
    ]
    assert [row.idle_tile_cycles for row in rows] == [80, 80]
    assert trace.idle_tiles(report, 2)[0].ranges == ((0, 4),)


def test_steps_are_found_by_number_and_by_words(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0))])
    assert trace.idle_tiles_of(report, " 3 ") == trace.idle_tiles(report, 3)
    # The exchange and the syncs have no work of tiles.
    rows = trace.idle_tiles_of(report, "net")
    assert [(row.step_id, row.kind) for row in rows] == [(0, "compute"), (3, "compute")]
    for text, said in (("nothing", "no step"), ("9", "step 9 does not exist"), (" ", "empty")):
        with pytest.raises(BadQuestion, match=said):
            trace.idle_tiles_of(report, text)


def test_idle_and_active_tiles_are_all_tiles(pipelines: Path) -> None:
    with analyser.open(pipelines / "train") as report:
        column = costs(report).column
        keys = zip(column["step_id"].tolist(), column["ipu_id"].tolist(), strict=True)
        active = dict(zip(keys, column["n_active_tiles"].tolist(), strict=True))
        for step_id in np.unique(column["step_id"]).tolist():
            for row in trace.idle_tiles(report, step_id):
                assert row.n_idle + active[step_id, row.ipu_id] == row.n_tiles
                assert sum(high - low for low, high in row.ranges) == row.n_idle


@pytest.mark.parametrize("seed", range(5))
def test_ranges_hold_the_numbers(seed: int) -> None:
    tiles = np.flatnonzero(np.random.default_rng(seed).random(40) < 0.6)
    ranges = number_ranges(tiles)
    assert [tile for low, high in ranges for tile in range(low, high)] == tiles.tolist()
    assert all(high < low for (_, high), (low, _) in pairwise(ranges))
    assert number_ranges([]) == ()


def test_ranges_as_text() -> None:
    assert trace.format_ranges(((0, 4), (7, 8))) == "0-3, 7"
    assert trace.format_ranges([(n, n + 1) for n in range(0, 20, 2)]) == (
        "0, 2, 4, 6, 8, 10 and 4 more ranges"
    )
