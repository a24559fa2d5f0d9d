"""The executions of a range, beside those that the columns mean; and slices of merged phases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilescope.analyser import trace
from tilescope.reports import Report

from .conftest import STEPS, executions, loop, sequence

Make = Callable[..., Report]


@pytest.mark.parametrize("count", [3, 6_000])
def test_executions_of_a_range_are_in_order_of_time(make: Make, count: int) -> None:
    entries = [*sequence(5), *loop(300, count, (0, 1, 3))]
    report = make([(0, 0, 0, entries)])
    every = executions(entries)
    end = max(high for _, high, _ in every)
    for low, high in ((5, end), (60, 400), (end - 300, end + 50), (45, 46)):
        expected = [item for item in every if item[1] > low and item[0] < high]
        actual = trace.executions(report, low, high, limit=40)
        assert actual.n_executions == len(expected)
        rows = [(row.start_cycle, row.end_cycle, row.step_id) for row in actual.rows]
        assert rows == expected[:40]
    assert [row.name for row in trace.executions(report, limit=1).rows] == [STEPS[0][1]]


def test_tracks_of_two_ipus_are_merged_by_time(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0)), (0, 1, 0, sequence(3))], 2)
    actual = trace.executions(report, limit=3)
    assert [(row.start_cycle, row.ipu_id) for row in actual.rows] == [(0, 0), (3, 1), (40, 0)]
    assert actual.n_executions == 12
    assert trace.executions(report, ipus=[1]).n_executions == 6


@pytest.mark.parametrize("count", [3, 6_000])
def test_hidden_kinds_are_left_out(make: Make, count: int) -> None:
    entries = [*sequence(5), *loop(300, count, (0, 1, 3))]
    report = make([(0, 0, 0, entries)])
    expected = [execution for execution in executions(entries) if execution[2] != 1]
    actual = trace.executions(report, hidden=["exchange"], limit=5)
    assert actual.n_executions == len(expected)
    assert [(row.start_cycle, row.end_cycle, row.step_id) for row in actual.rows] == expected[:5]


def test_phases_of_a_name_are_merged_on_request(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0))])
    window = trace.window(report, 0, 99, 99, trace.Lanes(view="calls"))
    labels = trace.names(report).labels
    bars = [
        (window.lanes[lane].level, labels[name], start, end, trace.KINDS[kind].name)
        for lane, name, start, end, kind in zip(
            window.lane.tolist(),
            window.bars.name.tolist(),
            window.bars.start_cycle.tolist(),
            window.bars.end_cycle.tolist(),
            window.bars.kind.tolist(),
            strict=True,
        )
    ]
    assert bars == [
        (-1, "Engine::run #0", 0, 99, "run"),
        (0, "net", 0, 80, "group"),
        (0, "out", 80, 99, "group"),
        (1, "conv1", 0, 55, "group"),
        (1, "fc", 55, 80, "group"),
        (2, "convolve", 0, 50, "group"),
        (2, "matmul", 55, 80, "compute"),
    ]
    slice_ = trace.slice_at(report, 0, 0, 2, 20, "calls")
    assert slice_ is not None
    assert (slice_.n_steps, slice_.step_id, slice_.end_cycle) == (2, None, 50)
