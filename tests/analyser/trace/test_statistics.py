"""Statistics by name, beside a count over all executions."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from pathlib import Path

import pytest

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.trace import statistics
from tilescope.reports import Report

from .conftest import executions, loop, sequence

Make = Callable[..., Report]


def expected(report: Report, low: int | None, high: int | None) -> dict[tuple[str, str], list[int]]:
    """Return the figures of every name and kind from the list of executions."""
    listed = trace.executions(report, low, high, limit=1_000_000)
    answer: dict[tuple[str, str], list[int]] = {}
    times: dict[tuple[str, str], list[int]] = {}
    cycles: dict[tuple[str, str], int] = {}
    for row in listed.rows:
        key = row.name, row.kind
        times.setdefault(key, []).append(row.end_cycle - row.start_cycle)
        inside = min(row.end_cycle, listed.end_cycle) - max(row.start_cycle, listed.start_cycle)
        cycles[key] = cycles.get(key, 0) + inside
    for key, values in times.items():
        values.sort()
        ranks = [values[max(1, ceil(part * len(values))) - 1] for part in (0.5, 0.99)]
        answer[key] = [len(values), cycles[key], sum(values), values[0], *ranks, values[-1]]
    return answer


def figures(found: trace.RangeStatistics) -> dict[tuple[str, str], list[int]]:
    return {
        (row.name, row.kind): [
            row.count,
            row.cycles,
            round(row.mean_cycles * row.count),
            row.min_cycles,
            row.median_cycles,
            row.p99_cycles,
            row.max_cycles,
        ]
        for row in found.rows
    }


@pytest.mark.parametrize("count", [3, 6_000])
def test_statistics_are_those_of_the_executions(make: Make, count: int) -> None:
    # One execution of step 5 takes longer than the others.
    entries = [*sequence(5), (5, 104, 150, 0, 1), *loop(300, count, (0, 1, 3))]
    report = make([(0, 0, 0, entries)])
    end = max(high for _, high, _ in executions(entries))
    for low, high in ((None, None), (20, 110), (0, 400), (320, end - 30)):
        found = trace.name_statistics(report, low, high)
        assert figures(found) == expected(report, low, high)
        assert sum(row.share for row in found.rows) == pytest.approx(1)
        cycles = [row.cycles for row in found.rows]
        assert cycles == sorted(cycles, reverse=True)
    (slow,) = (row for row in trace.name_statistics(report).rows if row.kind == "external_sync")
    assert (slow.start_cycle, slow.end_cycle, slow.max_cycles) == (104, 150, 46)


@pytest.mark.parametrize("name", ["train", "run"])
def test_statistics_of_a_pipeline(pipelines: Path, name: str) -> None:
    with analyser.open(pipelines / name) as report:
        found = trace.name_statistics(report)
        assert figures(found) == expected(report, None, None)
        summary = trace.range_summary(report, top=1_000)
        contributors = {
            (row.name, row.kind): (row.count, row.cycles) for row in summary.contributors
        }
        assert {(row.name, row.kind): (row.count, row.cycles) for row in found.rows} == contributors
        for row in found.rows:
            longest = row.end_cycle - row.start_cycle
            assert longest == row.max_cycles


def test_too_many_executions_are_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST_EXECUTIONS", 5)
    report = make([(0, 0, 0, sequence(0))])
    with pytest.raises(BadQuestion, match="too many for statistics by name"):
        trace.name_statistics(report)
    assert trace.name_statistics(report, 0, 50).rows


def test_an_empty_part_has_no_rows(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0)), (1, 0, 0, sequence(500))])
    assert trace.name_statistics(report, 200, 300).rows == ()
