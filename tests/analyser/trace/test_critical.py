"""Where the critical path lies: on paper, and its length a second way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyser.pipelined import write_pipelines

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import execution
from tilescope.reports import Report

from .conftest import sequence, write_report
from .test_waits import arriving

Make = Callable[..., Report]


def brief(report: Report, run_id: int = 0) -> list[tuple[int, int, int]]:
    """Return IPU, start and end of every span."""
    return [
        (span.ipu_id, span.start_cycle, span.end_cycle)
        for span in trace.critical_spans(report, run_id)
    ]


def by_ipu(report: Report) -> Counter[int]:
    """Return the length of the spans of all runs on every IPU."""
    sums: Counter[int] = Counter()
    for run in trace.extent(report).runs:
        for span in trace.critical_spans(report, run.run_id):
            sums[span.ipu_id] += span.cycles
    return sums


def test_the_path_goes_from_the_last_to_arrive_to_the_last_to_end(make: Make) -> None:
    first = arriving(40, 25)
    second = arriving(10, 30, start=47)
    report = make([(0, ipu, 0, first[ipu] + second[ipu]) for ipu in range(2)], 2)
    # IPU 0 arrives at 40, IPU 1 at 77; both syncs take 7, and the runs end together on IPU 0.
    assert brief(report) == [(0, 0, 40), (1, 40, 77), (0, 77, 84)]
    assert [span.step for span in trace.critical_spans(report, 0)][:2] == [
        "net/conv1/convolve",
        "net/conv1/convolve",
    ]


def test_on_one_ipu_it_is_the_run(make: Make) -> None:
    report = make([(0, 0, 0, sequence(100)), (1, 0, 0, sequence(300))])
    ends = [(run.start_cycle, run.end_cycle) for run in trace.extent(report).runs]
    assert [brief(report, run_id) for run_id in range(2)] == [[(0, *end)] for end in ends]


def test_an_unknown_run_is_refused(make: Make) -> None:
    with pytest.raises(BadQuestion, match="run 7 is not in this report; there is 0 to 0"):
        trace.critical_spans(make([(0, 0, 0, sequence(100))]), 7)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 60), min_size=3, max_size=3), min_size=1, max_size=6))
def test_its_parts_are_what_execution_counts_as_critical(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[int]]
) -> None:
    entries: list[list[tuple[int, int, int, int, int]]] = [[], [], []]
    start = 0
    for cycles in rounds:
        for mine, added in zip(entries, arriving(*cycles, start=start), strict=True):
            mine.extend(added)
        start = entries[0][-1][2]
    path = write_report(
        tmp_path_factory.mktemp("critical"),
        [(0, ipu, 0, mine) for ipu, mine in enumerate(entries)],
        3,
    )
    with analyser.open(path) as report:
        expected = execution(report).critical_cycles.sum(axis=1)
        assert [by_ipu(report)[ipu] for ipu in range(3)] == expected.tolist()


def test_the_same_for_pipelines(tmp_path: Path) -> None:
    write_pipelines(tmp_path)
    reports = sorted(tmp_path.rglob("profile.pop"))
    assert reports
    for path in reports:
        with analyser.open(path) as report:
            expected = execution(report).critical_cycles.sum(axis=1).tolist()
            sums = by_ipu(report)
            assert [sums[ipu] for ipu in range(len(expected))] == expected, path


def test_cycles_of_a_range_on_the_path_are_those_of_its_spans(make: Make) -> None:
    first = arriving(40, 25)
    second = arriving(10, 30, start=47)
    report = make([(0, ipu, 0, first[ipu] + second[ipu]) for ipu in range(2)], 2)
    assert trace.critical_cycles(report, None, None) == {0: 47, 1: 37}
    assert trace.critical_cycles(report, 30, 50) == {0: 10, 1: 10}
    alone = make([(0, 0, 0, sequence(100))])
    assert trace.critical_cycles(alone, None, None) is None
