"""Regions of two reports, against the regions of each and the lengths of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.breakdown import BREAKDOWNS, change_tables
from tilescope.analyser.diff import compare, compare_regions
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import track_rows
from tilescope.reports import Report

from .conftest import sequence

Make = Callable[..., Report]


@pytest.fixture
def pair(pipelines: Path) -> Iterator[tuple[Report, Report]]:
    with analyser.open(pipelines / "train") as one, analyser.open(pipelines / "moved") as other:
        yield one, other


def test_regions_of_one_name_are_compared_per_run(make: Make) -> None:
    # Two runs of 80 and 40 cycles in the layer; then one of 75 without the host.
    baseline = make([(0, 0, 0, sequence(0)), (1, 0, 0, sequence(99, (0,)))])
    candidate = make([(0, 0, 0, sequence(0, (0, 1, 3)))])
    out, net = sorted(compare_regions(baseline, candidate, "layer"), key=lambda row: row.name)[::-1]
    assert (out.name, out.baseline_cycles, out.candidate_cycles) == ("out", 19 / 2, None)
    assert out.candidate is None
    assert (net.name, net.baseline_cycles, net.candidate_cycles) == ("net", 60, 75)
    assert (net.delta_cycles, net.percent_of_baseline) == (15, 25)
    assert net.baseline is not None
    assert net.baseline.count == 2


@pytest.mark.parametrize("by", ["layer", "phase", "micro-batch", "run"])
def test_changes_add_up_to_that_of_the_runs(pair: tuple[Report, Report], by: str) -> None:
    changes = compare_regions(*pair, by)
    lengths = [
        sum(row.end_cycle - row.start_cycle for row in track_rows(report) if row.track == 0)
        for report in pair
    ]
    between = [trace.regions(report, by).between_cycles for report in pair]
    n_runs = 1 if by == "run" else 2
    expected = (lengths[1] - between[1] - lengths[0] + between[0]) / n_runs
    assert expected != 0
    assert sum(change.delta_cycles for change in changes) == pytest.approx(expected)
    reverse = {change.name: change.delta_cycles for change in compare_regions(*pair[::-1], by)}
    assert {change.name: -change.delta_cycles for change in changes} == reverse
    assert not any(change.delta_cycles for change in compare_regions(pair[0], pair[0], by))
    sizes = [abs(change.delta_cycles) for change in changes]
    assert sizes == sorted(sizes, reverse=True)


def test_a_difference_lists_regions(pair: tuple[Report, Report]) -> None:
    difference = compare(*pair)
    assert {"phase", "micro-batch", "batch", "run"} < set(BREAKDOWNS)
    (table,) = change_tables("phase", difference, *pair)
    expected = {
        change.name: (change.baseline_cycles, change.candidate_cycles)
        for change in compare_regions(*pair, "phase")
        if change.delta_cycles
    }
    assert {row.name: (row.baseline, row.candidate) for row in table.rows} == expected
    (outside,) = (row for row in table.rows if row.name == "(outside phases)")
    counts = [
        next(row.count for row in trace.regions(side, "phase").rows if row.name == outside.name)
        for side in pair
    ]
    assert outside.detail == f"{counts[0]} → {counts[1]}"
    with pytest.raises(BadQuestion, match="list its regions by micro-batch"):
        change_tables("batch", difference, *pair)


def test_a_side_without_runs_is_refused(make: Make) -> None:
    with pytest.raises(BadQuestion, match="has no recorded run, so it has no regions to compare"):
        compare_regions(make([(0, 0, 0, sequence(0))]), make([]), "layer")
