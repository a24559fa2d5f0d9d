"""Runs that repeat each other are stored once, and executions summed; figures stay the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.generated_report import generate_report

from tilescope.analyser import trace
from tilescope.analyser.diff.alignment.trace_pair import trace_axis
from tilescope.analyser.summary.tile import tile_facts
from tilescope.analyser.time.execution import execution, ipu_phase_cycles, taken_cycles
from tilescope.analyser.time.figures import parallel_efficiency, tile_balance
from tilescope.analyser.time.runs import executed, runs
from tilescope.reports import PackedArray, Report, TraceWriter, check_report, open_report, schema
from tilescope.reports.integrity.totals import Totals
from tilescope.reports.writing import trace as trace_writing

from .conftest import Entry, loop, sequence, write_report

#: Courses of a run, each relative to its start: with a loop, plain, and with an external sync.
COURSES = (
    lambda start: [*sequence(start, (0, 1)), *loop(start + 50, 3, (3, 4))],
    lambda start: sequence(start, (0, 1, 2, 3)),
    lambda start: sequence(start, (0, 5, 3)),
    lambda start: loop(start, 5000, (0, 1)),
)


def tracks_of(plan: list[tuple[int, int]], n_ipus: int) -> list[tuple[int, int, int, list[Entry]]]:
    """Return the tracks of runs, given as course and gap before it."""
    now, tracks = 0, []
    for run, (course, gap) in enumerate(plan):
        now += gap
        entries = COURSES[course](now)
        tracks += [(run, ipu_id, 0, entries) for ipu_id in range(n_ipus)]
        now = max(end + period * (count - 1) for _, _, end, period, count in entries)
    return tracks


def answers(report: Report, low: int, high: int) -> dict[str, Any]:
    """Return what readers of the trace answer, as comparable values."""
    ran = execution(report)
    arrays = {
        name: value.tolist() for name, value in vars(ran).items() if isinstance(value, np.ndarray)
    }
    listed = trace.executions(report, low, high, limit=50)
    wide = trace.window(report, low, high, 500, trace.Lanes(view="flat"))
    return {
        "execution": arrays,
        "taken": taken_cycles(report).tolist(),
        "phases": {name: values.tolist() for name, values in ipu_phase_cycles(report).items()},
        "efficiency": (parallel_efficiency(report), tile_balance(report)),
        "summary": trace.range_summary(report, low, high),
        "listed": listed,
        "search": trace.search(report, "conv", limit=7),
        "match": [trace.match(report, "mat", number=None, cycle=low, direction="next")],
        "slice": trace.slice_at(report, 0, 0, 0, (low + high) // 2),
        "first": trace.first_execution(report, 3),
        "counts": wide.bars.count.sum(),
        "tile": tile_facts(report, 1).steps,
        "names": trace.names(report),
    }


@settings(max_examples=12)
@example([(3, 0), (3, 0), (0, 0), (0, 0), (0, 0), (3, 0)], 1, 0.0, 0.77, 1)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0, 1, 1, 2, 3]), st.integers(0, 9)), min_size=1, max_size=6
    ),
    st.sampled_from([1, 2]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([1, 5, 10, 1000]),
)
def test_shared_entries_and_sums_give_the_figures_of_all_entries(
    plan: list[tuple[int, int]], n_ipus: int, first: float, second: float, n_entries: int
) -> None:
    tracks = tracks_of(plan, n_ipus)
    with tempfile.TemporaryDirectory() as folder:
        with patch.object(trace_writing, "_ENTRIES_OF_TOTAL", n_entries):
            shared = write_report(Path(folder) / "shared", tracks, n_ipus)
        with patch.object(TraceWriter, "_write_totals"):  # as a run that was killed
            own = write_report(Path(folder) / "own", tracks, n_ipus, shares=False)
        with open_report(shared) as one, open_report(own) as other:
            end = trace.extent(one).end_cycle
            low, high = sorted((int(first * end), int(second * end)))
            high = max(high, low + 1)
            for bounds in ((low, high), (0, end)):
                expected, actual = answers(other, *bounds), answers(one, *bounds)
                # Without pytest's comparison of long texts, which takes minutes.
                assert [name for name in expected if expected[name] != actual[name]] == []
            for run in runs(one):
                for left, right in zip(
                    vars(executed(one, run.run_id)).values(),
                    vars(executed(other, run.run_id)).values(),
                    strict=True,
                ):
                    np.testing.assert_array_equal(left, right)
            n_executions = trace.range_summary(one, ipus=[0]).ipus[0].n_executions
            assert trace_axis(one, other, "step").n_paired == n_executions


def test_a_repeated_run_adds_a_row_and_no_entry(tmp_path: Path) -> None:
    path = write_report(tmp_path, tracks_of([(0, 0), (1, 5), (0, 5), (0, 0)], 2), 2)
    with open_report(path) as report:
        places = report.rows(schema.run_trace, "first_entry", "n_entries", "shift_cycles")
        assert len(report.array("trace.step_id")) == 4 + 4
        assert [shift for *_, shift in places] == [None, 0, None, 0, 251, 251, 412, 412]


def test_equal_runs_narrower_than_a_pixel_become_bars_with_all_their_slices(tmp_path: Path) -> None:
    path = write_report(tmp_path, tracks_of([(1, 0)] * 300, 1))
    with open_report(path) as report:
        end = trace.extent(report).end_cycle
        for n_pixels in (1, 7, 100, 1000):
            window = trace.window(report, 0, end, n_pixels, trace.Lanes(view="flat"))
            bars = window.bars.at(window.lane == 1)
            assert bars.count.sum() == 1200
            assert len(bars.count) <= 4 * n_pixels + 8
            assert (np.diff(bars.start_cycle) >= 0).all()
            assert (bars.start_cycle[1:] >= bars.end_cycle[:-1]).all()


def test_a_report_without_loops_is_read_without_its_entries(tmp_path: Path) -> None:
    """The whole trace and the execution of all runs come from sums, whatever the number of runs."""
    path = write_report(tmp_path, tracks_of([(1, gap) for gap in range(40)], 1), shares=False)
    with open_report(path) as report, patch.object(PackedArray, "read", _refuse_entries):
        assert execution(report).executions.sum() == 40 * 4
        assert trace.range_summary(report).ipus[0].n_executions == 40 * 4
        assert tile_facts(report, 0).steps[0].n_executions == 40


_read = PackedArray.read


def _refuse_entries(array: PackedArray, *arguments: int) -> np.ndarray:
    assert not array.name.startswith("trace.") or arguments[:2] == (0, 0), array.name
    return _read(array, *arguments)


def test_wrong_sums_are_a_problem(tmp_path: Path) -> None:
    path = generate_report(tmp_path, n_tiles=8, n_steps=40, n_variables=8, n_runs=3)
    assert check_report(path) == []
    stored = Totals.take

    def take(totals: Totals) -> np.ndarray:
        rows = stored(totals)
        rows[4, 0] += 1
        return rows

    with patch.object(Totals, "take", take):
        path = generate_report(tmp_path, n_tiles=8, n_steps=40, n_variables=8, n_runs=3)
    (problem,) = check_report(path)
    assert problem.sentence == "The executions of trace_total 0 differ from the trace."
