"""Stored bars of coarse resolutions: of runs that repeat, of loops, and of damaged reports."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.trace import index
from tilescope.analyser.trace.sections import Limits
from tilescope.reports import DamagedReport, Report, check_report, open_report, schema
from tilescope.reports.bars import coarse
from tilescope.reports.bars.lane import Bars
from tilescope.reports.writing import trace_bars
from tilescope.reports.writing.trace_bars import BarWriter

from .conftest import Entry, loop, sequence, store_bars, write_report

#: Everything is long; sections without stored bars have one run.
SMALL = Limits(trace_entries=0, section_entries=1, kept_entries=1, bins=64, least_bins=64)
#: Courses of a run, from its start.
COURSES = (
    lambda start: [*sequence(start, (0, 1, 2, 3)), *loop(start + 80, 3, (3, 4))],
    lambda start: sequence(start, (0, 1, 2, 3, 4, 5)),
    lambda start: sequence(start, (0, 5)),
    lambda start: loop(start, 5000, (0, 1)),
)


def tracks_of(plan: list[tuple[int, int]], n_ipus: int) -> list[tuple[int, int, int, list[Entry]]]:
    """Return the tracks of runs, given as course and the gap before it, which a course has, too."""
    now, tracks = 0, []
    for run, (course, gap) in enumerate(plan):
        now += gap
        entries = COURSES[course](now)
        step, start, end, period, count = entries[-1]
        entries[-1] = (step, start, end + (gap if count == 1 else 0), period, count)
        tracks += [(run, ipu_id, 0, entries) for ipu_id in range(n_ipus)]
        now = max(end + period * (count - 1) for _, _, end, period, count in entries)
    return tracks


def sums(window: trace.Window) -> list[list[float]]:
    """Return slices and cycles by lane, and the longest slice."""
    n, bars = len(window.lanes), window.bars
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, window.lane, bars.longest_cycles)
    columns = [np.bincount(window.lane, values, n) for values in (bars.count, bars.cycles)]
    return [column.tolist() for column in (*columns, longest)]


def bar_problems(path: Path) -> list[str]:
    """Return what the check of a report says of its bars."""
    return [item.sentence for item in check_report(path) if item.where == "bar_problems"]


def n_stored(report: Report) -> int:
    """Return in how many sections the bars of IPU 0 are stored."""
    sections = index.trace_of(report).track(0, 0).sections
    return sum(section.drawing is not None for section in sections)


@settings(max_examples=25)
@example([(1, 0), (1, 1), (1, 0), (2, 3), (2, 4)], 2)
@example([(3, 0), (3, 0), (0, 2)], 1)
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0, 1, 1, 2, 3]), st.integers(0, 9)), min_size=1, max_size=9
    ),
    st.sampled_from([1, 2]),
)
def test_windows_of_runs_that_repeat_and_of_loops(plan: list[tuple[int, int]], n_ipus: int) -> None:
    tracks = tracks_of(plan, n_ipus)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        store_bars(patch)
        path = write_report(Path(folder) / "report", tracks, n_ipus)
        assert bar_problems(path) == []
        with open_report(path) as whole, open_report(path) as cut:
            end = trace.extent(whole).end_cycle
            patch.setattr(index, "LIMITS", Limits(trace_entries=1 << 30))
            index.trace_of(whole)
            patch.setattr(index, "LIMITS", SMALL)
            assert n_stored(cut) >= 1
            for view in ("flame", "flat"):
                for width in (1, 3, 10, 200):
                    one, two = (
                        trace.window(report, 0, end, width, trace.Lanes(view=view))
                        for report in (whole, cut)
                    )
                    assert two.lanes == one.lanes
                    assert sums(two) == sums(one)
                    is_merged = two.bars.count > 1
                    assert np.array_equal(two.bars.name == -1, is_merged)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report of distinct runs with stored bars."""
    store_bars(monkeypatch)
    return generate_report(
        tmp_path, n_tiles=8, n_steps=60, n_variables=20, n_runs=9, has_distinct_runs=True
    )


def test_a_report_whose_steps_are_not_committed_has_no_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_bars(monkeypatch)
    monkeypatch.setattr(BarWriter, "_step_looks", lambda _: None)
    with open_report(write_report(tmp_path, tracks_of([(0, 0), (1, 1)], 1))) as report:
        assert report.rows(schema.trace_bar) == []
        assert n_stored(report) == 0


def test_runs_of_too_many_entries_have_no_bars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_bars(monkeypatch)
    monkeypatch.setattr(trace_bars, "MOST_ENTRIES", 5)
    path = write_report(tmp_path, tracks_of([(2, 0), (1, 1), (2, 3)], 1))
    assert bar_problems(path) == []
    monkeypatch.setattr(index, "LIMITS", SMALL)
    with open_report(path) as report:
        assert n_stored(report) == 2
        assert (
            trace.window(report, 0, 400, 1).n_slices == trace.window(report, 0, 400, 300).n_slices
        )


def test_short_traces_store_no_bars(tmp_path: Path) -> None:
    path = write_report(tmp_path, tracks_of([(0, 0), (1, 1)], 1))
    with open_report(path) as report:
        assert report.rows(schema.trace_bar) == []
        assert len(report.array("bar.level")) == 0


def test_bars_that_differ_from_the_entries_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_bars(monkeypatch)
    columns_of_bars = coarse.columns_of_bars

    def changed(levels: list[Bars]) -> coarse.BarColumns:
        columns = columns_of_bars(levels)
        columns.bar["longest_cycles"][0] += 1
        return columns

    monkeypatch.setattr(trace_bars, "columns_of_bars", changed)
    assert bar_problems(write_report(tmp_path, tracks_of([(0, 0), (1, 1)], 1))) == [
        f"The bars of trace_bar {number} differ from the trace." for number in (0, 1)
    ]


def test_bars_of_other_runs_are_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LIMITS", SMALL)
    with analyser.open(path) as report:
        opened, rows = index.trace_of(report), type(report).rows

        def moved(report: Report, table: schema.TableSpec, *names: str) -> Any:
            stored = rows(report, table, *names)
            if table is not schema.trace_bar:
                return stored
            return [(*row[:3], row[3] + 1, *row[4:]) for row in stored]

        monkeypatch.setattr(type(report), "rows", moved)
        with pytest.raises(DamagedReport, match="stored bars do not belong"):
            opened.track(0, 0)
