"""Who waits for whom: against the critical path's waiting cycles, and on paper."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import execution
from tilescope.analyser.trace import index, wait
from tilescope.analyser.trace.sections import Limits
from tilescope.reports import Report

from .conftest import Entry, sequence, write_report

Make = Callable[..., Report]
SYNC = 5  # external, of seven cycles


def arriving(*cycles: int, start: int = 0) -> list[list[Entry]]:
    """Return what IPUs do that arrive after some cycles and go on together: a step, a sync."""
    end = start + max(cycles) + 7
    return [[(0, start, start + n, 0, 1), (SYNC, start + n, end, 0, 1)] for n in cycles]


def brief(waits: trace.WaitList) -> list[tuple[int, int, int, int, int | None]]:
    """Return IPU, start, end, late IPU and what that did before."""
    return [
        (row.ipu_id, row.start_cycle, row.end_cycle, row.late_ipu_id, row.late_step_id)
        for row in waits.rows
    ]


def of_ipus(make: Make, entries: list[list[Entry]]) -> Report:
    """Return a report of one run."""
    return make([(0, ipu, 0, mine) for ipu, mine in enumerate(entries)], len(entries))


def test_the_last_of_two_ipus_is_waited_for(make: Make) -> None:
    report = of_ipus(make, arriving(40, 25))
    waits = trace.waits(report)
    assert brief(waits) == [(1, 25, 40, 0, 0)]
    assert (waits.n_waits, waits.cycles) == (1, 15)
    (row,) = waits.rows
    assert (row.step_id, row.late_cycle, row.late_step) == (SYNC, 40, "net/conv1/convolve")


def test_all_but_the_last_of_three_wait_for_it(make: Make) -> None:
    assert brief(trace.waits(of_ipus(make, arriving(40, 60, 25)))) == [
        (2, 25, 60, 1, 0),
        (0, 40, 60, 1, 0),
    ]


def test_of_two_that_arrive_last_the_first_is_named_and_neither_waits(make: Make) -> None:
    assert brief(trace.waits(of_ipus(make, arriving(25, 60, 60)))) == [(0, 25, 60, 1, 0)]


def test_nobody_waits_where_all_arrive_together_nor_on_one_ipu(make: Make) -> None:
    for entries in (arriving(40, 40), arriving(40), [sequence(0, (0, 1))] * 2):
        waits = trace.waits(of_ipus(make, entries))
        assert (waits.n_waits, waits.cycles, waits.rows) == (0, 0, ())


def test_a_sync_that_is_recorded_when_the_wait_is_over_has_the_same_wait(make: Make) -> None:
    late, early = arriving(40, 25)
    early[1] = (SYNC, 40, 47, 0, 1)
    assert brief(trace.waits(of_ipus(make, [late, early]))) == [(1, 25, 40, 0, 0)]


def test_a_run_that_begins_with_a_sync_has_nothing_before_it(make: Make) -> None:
    first = [(0, ipu, 0, mine) for ipu, mine in enumerate(arriving(9, 9))]
    late = [(0, 100, 123, 0, 1), (SYNC, 123, 130, 0, 1)]
    report = make([*first, (1, 0, 0, [(SYNC, 100, 130, 0, 1)]), (1, 1, 0, late)], 2)
    assert brief(trace.waits(report)) == [(0, 100, 123, 1, 0)]


def test_ipus_that_count_other_cycles_meet_by_those_since_the_begin_of_the_run(make: Make) -> None:
    late, early = arriving(40, 25)[0], arriving(40, 25, start=1_000)[1]
    report = of_ipus(make, [late, early])
    waits = trace.waits(report)
    assert brief(waits) == [(1, 1_025, 1_040, 0, 0)]
    assert waits.rows[0].late_cycle == 40


@pytest.mark.parametrize(
    ("cycles", "n"), [((0, 25), 0), ((0, 26), 1), ((39, 40), 1), ((40, 99), 0), ((0, 99), 1)]
)
def test_a_wait_is_of_the_ranges_that_it_touches(
    make: Make, cycles: tuple[int, int], n: int
) -> None:
    report = of_ipus(make, arriving(40, 25))
    assert trace.waits(report, *cycles).n_waits == n
    assert trace.waits(report, *cycles, ipus=[0]).n_waits == 0


@pytest.mark.parametrize("count", [2, 5_000])
def test_rounds_of_loops_wait_one_by_one(make: Make, count: int) -> None:
    late, early = (
        [(step, low, high, 47, count) for step, low, high, _, _ in mine]
        for mine in arriving(40, 25)
    )
    report = of_ipus(make, [late, early])
    waits = trace.waits(report)
    assert (waits.n_waits, waits.cycles) == (count, 15 * count)
    assert waits.cycles == execution(report).waiting_cycles.sum()
    assert len(waits.rows) == min(count, 200)
    assert brief(trace.waits(report, 47 + 30, 47 + 31)) == [(1, 47 + 25, 47 + 40, 0, 0)]


plans = st.lists(
    st.lists(st.sampled_from([9, 9, 10, 25, 60]), min_size=3, max_size=3), min_size=1, max_size=8
)


@settings(max_examples=25)
@given(plans, st.sampled_from([1, 3]), st.integers(0, 400), st.integers(1, 200))
def test_waits_of_random_meetings(
    plan: list[list[int]], n_runs: int, start: int, length: int
) -> None:
    """Compare with the waits on paper, over ranges and all."""
    expected, offset, tracks = [], 0, []
    for run in range(n_runs):
        entries: list[list[Entry]] = [[], [], []]
        for cycles in plan:
            for ipu, more in enumerate(arriving(*cycles, start=offset)):
                entries[ipu] += more
            late = max(cycles)
            expected += [
                (ipu, offset + n, offset + late, cycles.index(late), 0)
                for ipu, n in enumerate(cycles)
                if n < late
            ]
            offset += late + 7
        tracks += [(run, ipu, 0, mine) for ipu, mine in enumerate(entries)]
    with tempfile.TemporaryDirectory() as folder:
        path = write_report(Path(folder) / "report", tracks, 3)
        with analyser.open(path) as report:
            full = trace.waits(report, limit=1_000)
            assert sorted(brief(full)) == sorted(expected)
            assert full.cycles == execution(report).waiting_cycles.sum()
            part = trace.waits(report, start, start + length, limit=1_000)
    inside = [row for row in expected if row[1] < start + length and row[2] > start]
    assert sorted(brief(part)) == sorted(inside)


def test_a_long_trace_has_the_waits_of_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = generate_report(
        tmp_path, n_tiles=8, n_ipus=3, n_steps=60, n_variables=20, n_runs=9, has_distinct_runs=True
    )
    with analyser.open(path) as whole, analyser.open(path) as cut:
        expected = trace.waits(whole, limit=10_000)
        assert expected.cycles == execution(whole).waiting_cycles.sum() > 0
        assert expected.n_waits == len(expected.rows)
        monkeypatch.setattr(index, "LIMITS", Limits(trace_entries=100, section_entries=130))
        assert trace.waits(cut, limit=10_000) == expected
        few = trace.waits(cut, limit=3)
    longest = sorted(expected.rows, key=lambda row: (-row.cycles, row.start_cycle, row.ipu_id))[:3]
    assert set(few.rows) == set(longest)
    assert (few.n_waits, few.cycles) == (expected.n_waits, expected.cycles)


def test_too_many_syncs_are_refused_in_a_sentence(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "MOST_SYNCS", 1)
    with pytest.raises(BadQuestion, match="give a shorter range"):
        trace.waits(of_ipus(make, arriving(40, 25)))
    with pytest.raises(BadQuestion, match="IPU 7"):
        trace.waits(of_ipus(make, arriving(40, 25)), ipus=[7])
