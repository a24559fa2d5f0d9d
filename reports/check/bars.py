"""Checks that stored bars of a long trace are those of its entries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilescope.reports.bars.coarse import (
    BIN_ENTRIES,
    BarColumns,
    Entries,
    StepLooks,
    coarse_bars,
    columns_of_bars,
)
from tilescope.reports.reading.report import Report
from tilescope.reports.reading.step_looks import step_looks
from tilescope.reports.schema import BAR_COLUMNS, BAR_SHARE_COLUMNS, run_trace, trace_bar

__all__ = ["bar_problems"]

_Section = tuple[int, int, int, int]


def bar_problems(report: Report) -> Iterator[str]:
    """Yield where stored bars differ from the entries that they are of."""
    looks = None
    rows = report.rows(trace_bar)
    sizes = len(report.array("bar.level")), len(report.array("bar_share.kind"))
    stored = _stored_runs(report) if rows else {}
    expected: dict[tuple[_Section, int], tuple[int, BarColumns]] = {}
    ends = (0, 0)
    for number, ipu_id, track, first, stop, bin_entries, n_bins, *places in rows:
        first_row, n_rows, first_share, n_shares = places
        is_next = (first_row, first_share) == ends and min(n_rows, n_shares) >= 0
        ends = first_row + n_rows, first_share + n_shares
        if not is_next or ends[0] > sizes[0] or ends[1] > sizes[1]:
            yield f"The ranges of trace_bar {number} do not follow the previous ones."
            return
        runs = [run for run in stored.get((ipu_id, track), ()) if first <= run[0] < stop]
        is_whole = bool(runs) and (runs[0][0], runs[-1][1]) == (first, stop)
        if not is_whole or bin_entries not in BIN_ENTRIES:
            yield f"The entries of trace_bar {number} are not those of whole runs."
            return
        section = (ipu_id, track, first, stop)
        if (section, bin_entries) not in expected:
            looks = looks or step_looks(report)
            expected |= _expected(report, section, runs, looks)
        n_expected, columns = expected.pop((section, bin_entries))
        actual = BarColumns(
            {name: report.array(f"bar.{name}").read(first_row, ends[0]) for name in BAR_COLUMNS},
            {
                name: report.array(f"bar_share.{name}").read(first_share, ends[1])
                for name in BAR_SHARE_COLUMNS
            },
        )
        if n_bins != n_expected or not _is_equal(actual, columns):
            yield f"The bars of trace_bar {number} differ from the trace."
    if ends != sizes:
        yield "Some bars belong to no trace_bar."


def _stored_runs(report: Report) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return the ranges of entries that every IPU and track has of its own, ascending."""
    table = report.table(run_trace)
    stored: dict[tuple[int, int], list[tuple[int, int]]] = {}
    names = ("ipu_id", "track", "first_entry", "n_entries", "shift_cycles")
    for ipu_id, track, first, n, shift in zip(*(table[name] for name in names), strict=True):
        if shift is None and n:
            stored.setdefault((ipu_id, track), []).append((first, first + n))
    return stored


def _expected(
    report: Report, section: _Section, runs: list[tuple[int, int]], looks: StepLooks
) -> dict[tuple[_Section, int], tuple[int, BarColumns]]:
    """Return number of bins and bars of a section, drawn from its entries."""
    names = ("step_id", "start_cycle", "end_cycle", "period", "count")
    entries = [
        Entries(*(report.array(f"trace.{name}").read(first, stop) for name in names))
        for first, stop in runs
    ]
    drawn = coarse_bars(entries, looks)
    return {
        (section, bin_entries): (n_bins, columns_of_bars(levels))
        for bin_entries, (n_bins, levels) in zip(BIN_ENTRIES, drawn, strict=True)
    }


def _is_equal(actual: BarColumns, expected: BarColumns) -> bool:
    """Return whether bars are equal."""
    return all(
        np.array_equal(part[name], other[name])
        for part, other in zip(actual, expected, strict=True)
        for name in other
    )
