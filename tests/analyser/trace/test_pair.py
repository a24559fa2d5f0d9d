"""Two traces on one axis, against places computed on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.diff import TracePair, trace_axis
from tilescope.analyser.errors import BadQuestion
from tilescope.reports import Report

from .conftest import loop, sequence

Make = Callable[..., Report]
#: The exchange is longer, the product is gone, and an exchange comes before the end.
CHANGED = (
    ("OnTileExecute", "net/conv1/convolve", 40),
    ("DoExchange", "net/conv1/convolve", 18),
    ("Sync", "net/conv1", 5),
    ("DoExchange", "net/sum", 30),
    ("StreamCopyMid", "out", 12),
    ("Sync", "out", 7),
)


@pytest.fixture
def reports(make: Make) -> tuple[Report, Report]:
    """Return a baseline that begins at 10 and its changed candidate that begins at 1,000."""
    changed = sequence(1000, table=CHANGED)
    return make([(0, 0, 0, sequence(10))]), make([(0, 0, 0, changed)], steps=CHANGED)


def starts(pair: TracePair, side: int) -> list[tuple[int, int]]:
    """Return start and end of every bar of the flat lane."""
    axis = pair.axis
    window = pair.window(side, axis.start, axis.end, 1000, trace.Lanes(view="flat"))
    mine = [index for index, lane in enumerate(window.lanes) if lane.level == 0]
    keep = np.isin(window.lane, mine)
    return list(
        zip(
            window.bars.start_cycle[keep].tolist(),
            window.bars.end_cycle[keep].tolist(),
            strict=True,
        )
    )


def test_by_step_pairs_begin_at_one_place(reports: tuple[Report, Report]) -> None:
    pair = TracePair(*reports, "step")
    # Convolve, exchange (10 and 18), sync, the baseline's product, the candidate's sum, the end.
    assert starts(pair, 0) == [(10, 50), (50, 60), (68, 73), (73, 98), (128, 140), (140, 147)]
    assert starts(pair, 1) == [(10, 50), (50, 68), (68, 73), (98, 128), (128, 140), (140, 147)]
    assert (pair.axis.start, pair.axis.end, pair.axis.n_paired) == (10, 147, 5)


def test_by_cycle_both_begin_together(reports: tuple[Report, Report]) -> None:
    pair = TracePair(*reports, "cycle")
    assert [start for start, _ in starts(pair, 1)] == [10, 50, 68, 73, 103, 115]
    assert (pair.axis.start, pair.axis.end) == (10, 122)
    assert pair.cycles(1, 50, 68) == (1040, 1058)


def test_by_time_clocks_count(make: Make) -> None:
    first = make([(0, 0, 0, sequence(0))])
    second = make([(0, 0, 0, sequence(0))], clock_hz=2.66e9)
    pair = TracePair(first, second, "time")
    assert [end for _, end in starts(pair, 1)] == [20, 25, 28, 40, 46, 50]
    assert pair.axis.end == 99
    assert pair.cycles(1, 0, 20) == (0, 40)


def test_places_and_cycles_are_inverse(reports: tuple[Report, Report]) -> None:
    for how in ("step", "cycle", "time"):
        axis = trace_axis(*reports, how)
        for side, start, end in ((0, 10, 109), (1, 1000, 1112)):
            for cycle in range(start, end):
                assert axis.cycle(side, axis.place(side, cycle)) == cycle
            positions = axis.places(side, np.arange(start, end))
            assert (np.diff(positions) > 0).all()


def test_figures_of_a_range_are_of_the_same_steps(reports: tuple[Report, Report]) -> None:
    pair = TracePair(*reports, "step")
    results = [pair.summary(side, 50, 73) for side in range(2)]
    assert [item and item.cycles for item in results] == [15, 23]
    assert pair.summary(0, 98, 128) is None
    rows = [
        (row.name, row.kind, row.baseline_cycles, row.candidate_cycles, row.delta_cycles)
        for row in pair.contributors()
    ]
    assert rows == [
        ("net/sum", "exchange", 0, 30, 30),
        ("net/fc/matmul", "compute", 25, 0, -25),
        ("net/conv1/convolve", "exchange", 10, 18, 8),
        ("net/conv1/convolve", "compute", 40, 40, 0),
        ("out", "stream_copy", 12, 12, 0),
        ("out", "external_sync", 7, 7, 0),
        ("net/conv1", "sync", 5, 5, 0),
    ]
    assert [pair.partner(0, step) for step in range(6)] == [0, 1, 2, None, 4, 5]


def test_a_slice_at_a_place_is_in_cycles_of_its_side(reports: tuple[Report, Report]) -> None:
    pair = TracePair(*reports, "step")
    actual = pair.slice_at(1, 0, 0, 0, 100, "flat")
    assert actual is not None
    assert (actual.name, actual.start_cycle, actual.end_cycle) == ("net/sum", 1063, 1093)


@pytest.mark.parametrize("how", ["step", "cycle", "time"])
def test_matches_of_both_sides_are_numbered_by_place(make: Make, how: str) -> None:
    first = make([(0, 0, 0, [*sequence(10), *loop(300, 3000, (0, 1))])])
    second = make(
        [(0, 0, 0, [*sequence(1000, (0, 1)), *loop(1400, 3000, (1, 0))])], clock_hz=2.66e9
    )
    pair = TracePair(first, second, how)
    every = sorted(
        (pair.axis.place(side, row.start_cycle), side, row.start_cycle)
        for side, report in enumerate((first, second))
        for row in trace.executions(report, limit=1 << 30).rows
        if "convolve" in row.name
    )
    for number in (1, 2, 3, 4, 5, 6, 4000, len(every) - 1, len(every)):
        side, actual = pair.match("convolve", number=number)
        assert actual.occurrence is not None
        assert actual.n_matches == len(every)
        start = actual.occurrence.start_cycle
        assert (pair.axis.place(side, start), side, start) == every[number - 1]
    position, side, start = every[3]
    after = sum(row[0] <= position for row in every) + 1
    assert pair.match("convolve", position=position)[1].number == after
    assert pair.match("convolve", position=pair.axis.end)[1].number == 1
    assert pair.match("convolve", number=1, ipus=[0, 7])[1].n_matches == len(every)
    assert pair.match("nothing")[1].occurrence is None


def test_occurrences_of_loops_and_runs_are_paired_in_order(make: Make) -> None:
    first = make([(0, 0, 0, loop(0, 3, (0, 1))), (1, 0, 0, loop(500, 2, (0, 1)))])
    second = make([(0, 0, 0, loop(0, 2, (0, 1))), (1, 0, 0, loop(900, 2, (0, 1)))])
    axis = trace_axis(first, second, "step")
    assert axis.n_paired == 8
    assert axis.place(0, 500) == axis.place(1, 900)
    assert axis.place(0, 50) == axis.place(1, 50) == 50


def test_reports_without_common_steps_follow_each_other(make: Make) -> None:
    steps = tuple(("StreamCopyMid", f"new/{number}", 11 * number + 3) for number in range(6))
    first, second = make([(0, 0, 0, sequence(0))]), make([(0, 0, 0, sequence(0, table=steps))],
                                                      steps=steps)  # fmt: skip
    axis = trace_axis(first, second, "step")
    assert axis.end >= 99


def test_bad_questions(reports: tuple[Report, Report]) -> None:
    with pytest.raises(BadQuestion, match="unknown alignment 'name'"):
        trace_axis(*reports, "name")
    with pytest.raises(BadQuestion, match="empty"):
        TracePair(*reports, "cycle").window(0, 5, 5, 100)


def test_a_report_without_a_run_has_no_bars(make: Make) -> None:
    pair = TracePair(make([(0, 0, 0, sequence(0))]), make([]), "step")
    assert pair.window(1, 0, 99, 100).lanes == []
    assert len(starts(pair, 0)) == 6


@pytest.mark.parametrize("how", ["step", "cycle", "time"])
def test_every_slice_of_two_ipus_is_in_a_bar(tmp_path: Path, how: str) -> None:
    paths = [
        generate_report(tmp_path / str(seed), n_tiles=16, n_ipus=2, n_steps=200, seed=seed)
        for seed in (1, 2)
    ]
    with analyser.open(paths[0]) as first, analyser.open(paths[1]) as second:
        pair = TracePair(first, second, how)
        for side, report in enumerate((first, second)):
            local = analyser.trace.extent(report)
            own_window = analyser.trace.window(report, local.start_cycle, local.end_cycle, 20_000)
            window = pair.window(side, pair.axis.start, pair.axis.end, 20_000)
            assert window.n_slices == own_window.n_slices
            assert (window.bars.end_cycle >= window.bars.start_cycle).all()
            assert window.bars.end_cycle.max() <= pair.axis.end
