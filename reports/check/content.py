"""Checks that the facts of a report are consistent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.check.bars import bar_problems
from tilescope.reports.check.patterns import PATTERNS_AT_ONCE, pattern_facts
from tilescope.reports.check.problem import Problem
from tilescope.reports.check.program import PROGRAM_CHECKS
from tilescope.reports.errors import ReportError
from tilescope.reports.integrity.totals import Totals
from tilescope.reports.reading.report import Report
from tilescope.reports.schema import (
    ARRAYS,
    LIVENESS_COLUMNS,
    TOTAL_COLUMNS,
    TRACE_COLUMNS,
    memory_category,
    plan,
    program,
    run_trace,
    step,
    target,
    trace_total,
    variable,
)
from tilescope.reports.schema.vocabulary import (
    BOUNDS,
    MEMORY_CATEGORY,
    MEMORY_ROWS,
    PROGRAM_KINDS,
    SYNC_ZONES,
)

__all__ = ["content_problems"]


def content_problems(report: Report) -> list[Problem]:
    """Return the inconsistencies between tables and arrays."""
    checks: tuple[Callable[[Report], Iterator[str]], ...] = (
        _codes,
        *PROGRAM_CHECKS,
        _liveness,
        _costs,
        _lowered,
        _memory,
        _trace,
        bar_problems,
    )
    outlines = [Problem("disagreement", "outline", sentence) for sentence in _outline(report)]
    return outlines or [problem for check in checks for problem in _problems(check, report)]


def _problems(check: Callable[[Report], Iterator[str]], report: Report) -> Iterator[Problem]:
    """Yield the problems that a check finds; one that cannot compare its facts is a problem."""
    where = check.__name__.strip("_")
    try:
        for sentence in check(report):
            yield Problem("disagreement", where, sentence)
    except ReportError as error:
        yield Problem(error.code, where, str(error))
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        yield Problem("disagreement", where, f"The {where} is inconsistent: {error}.")


def _codes(report: Report) -> Iterator[str]:
    steps = [name for name, kind in PROGRAM_KINDS.items() if kind.is_step]
    for table, column, known in (
        (program, "kind", PROGRAM_KINDS),
        (step, "kind", steps),
        (memory_category, "name", MEMORY_CATEGORY),
        (plan, "bound", BOUNDS),
    ):
        for code in sorted(set(report.table(table)[column]) - set(known)):
            yield f"{code!r} is not a known {column} of {table.name}."


def _liveness(report: Report) -> Iterator[str]:
    rows = {name: report.array(f"liveness.{name}").read() for name in LIVENESS_COLUMNS}
    ids = rows["pattern_id"]
    facts = pattern_facts(report, "liveness.pattern")
    if ids.size and not (ids.min() >= 0 and ids.max() < len(facts)):
        yield "A liveness step names a missing pattern."
        return
    if not np.array_equal(facts[ids, 1], rows["not_always_live_bytes"]):
        yield "The bytes of a liveness step differ from the sum of its pattern."
    if not np.array_equal(facts[ids, 0], rows["max_tile_bytes"]):
        yield "The largest tile of a liveness step differs from its pattern."
    if not _has_ipu_sums(report):
        yield "The live bytes of an IPU differ from the sum over its tiles."
    tiles = rows["max_tile_id"]
    n_tiles = report.array("liveness.pattern").shape[1]
    if tiles.size and not (tiles.min() >= 0 and tiles.max() < n_tiles):
        yield "A liveness step names a missing tile."


def _has_ipu_sums(report: Report) -> bool:
    """Return whether the sums over the tiles of IPUs, where they are stored, are right."""
    patterns, by_ipu = report.array("liveness.pattern"), report.array("liveness.ipu_bytes")
    for first in range(0, len(by_ipu), PATTERNS_AT_ONCE):
        sums = by_ipu.read(first, first + PATTERNS_AT_ONCE)
        by_tile = patterns.read(first, first + PATTERNS_AT_ONCE)
        if not np.array_equal(by_tile.reshape(*sums.shape, -1).sum(axis=2), sums):
            return False
    return True


def _costs(report: Report) -> Iterator[str]:
    names = (
        "step_id",
        "ipu_id",
        "pattern_id",
        "cycles",
        "max_tile_cycles",
        "total_tile_cycles",
        "n_active_tiles",
    )
    rows = np.stack([report.array(f"cost.{name}").read().astype(np.int64) for name in names], 1)
    if not len(rows):
        return
    if len(np.unique(rows[:, :2], axis=0)) != len(rows):
        yield "A step has two costs on one IPU."
    (n_ipus,) = report.table(target)["n_ipus"] or [1]
    if not (rows[:, 1].min() >= 0 and rows[:, 1].max() < n_ipus):
        yield "A cost names a missing IPU."
    facts = pattern_facts(report, "cycles.pattern")
    ids = rows[:, 2]
    if not (ids.min() >= 0 and ids.max() < len(facts)):
        yield "A cost names a missing pattern."
        return
    for column_of_facts, name, column in (
        (0, "busiest tile", 4),
        (1, "sum", 5),
        (2, "active tiles", 6),
    ):
        differing = np.flatnonzero(facts[ids, column_of_facts] != rows[:, column])
        if len(differing):
            yield f"The {name} of step {rows[differing[0], 0]} differs from its pattern."
    if (rows[:, 3] < rows[:, 4]).any():
        yield "A step takes less time than its busiest tile."
    zones = report.array("cost.sync_zone").read()
    if not np.isin(zones, list(SYNC_ZONES.values())).all():
        yield "A cost names an unknown sync zone."


def _outline(report: Report) -> Iterator[str]:
    """Yield problems that would invalidate the other checks."""
    if len(report.table(target)["target_id"]) > 1:
        yield "The report has several targets."
    lengths: dict[str, set[int]] = {}
    for name in ARRAYS:
        if name != "lowered.tile_start" and not report.array(name).is_wide:
            lengths.setdefault(name.split(".")[0], set()).add(len(report.array(name)))
    for group, group_lengths in lengths.items():
        if len(group_lengths) > 1:
            yield f"The columns of {group} have different lengths."


def _lowered(report: Report) -> Iterator[str]:
    n_steps = len(report.array("liveness.step_id"))
    for group in ("lifetime", "lowered"):
        start, end = (report.array(f"{group}.{side}_step").read() for side in ("start", "end"))
        if start.size and not (start.min() >= 0 and (start < end).all() and end.max() <= n_steps):
            yield f"A range of steps in {group} is empty or outside the program."
    if (np.diff(report.array("lifetime.start_step").read()) < 0).any():
        yield "Lifetimes are not sorted by their start."
    first = report.array("lowered.tile_start").read()
    n_bytes = report.array("lowered.bytes").read()
    owner = report.array("lowered.variable_id").read()
    if not first.size and not n_bytes.size:
        return
    n_tiles = report.array("memory.tile").shape[1]
    if len(first) != n_tiles + 1 or first[0] != 0 or (np.diff(first) < 0).any():
        yield "The parts are not sorted by tile."
    if first.size and first[-1] != len(n_bytes):
        yield "Some parts belong to no tile."
    if n_bytes.size and (n_bytes.min() <= 0 or report.array("lowered.offset").read().min() < 0):
        yield "A part has no size or no address."
    ids = np.array(report.table(variable)["variable_id"], np.int64)
    once = _once(first, owner, report.array("lowered.offset").read())
    total = np.bincount(owner[once], n_bytes[once], int(ids.max(initial=-1)) + 1)[ids]
    total = total.astype(np.int64)
    declared = np.array(report.table(variable)["bytes"], np.int64)
    differing = np.flatnonzero((total != declared) & (total > 0))
    if len(differing):
        which = differing[0]
        yield f"Variable {ids[which]} has {declared[which]} bytes, its parts have {total[which]}."


def _once(
    first: NDArray[np.int64], owner: NDArray[np.int32], offset: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Return one row of every part, which has a row for every life, all at one address."""
    tile = np.searchsorted(first, np.arange(len(owner)), side="right")
    order = np.lexsort((offset, owner, tile))
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = False
    for column in (tile, owner, offset):
        is_new[1:] |= np.diff(column[order]) != 0
    return order[is_new]


def _memory(report: Report) -> Iterator[str]:
    rows = report.table(memory_category)
    n = len(rows["name"])
    if rows["memory_category_id"] != list(range(n)):
        yield "Memory categories are not numbered from 0."
    regions = [
        report.array(f"memory.{r}") for r in ("non_interleaved", "interleaved", "overflowed")
    ]
    if any(len(region) != n for region in regions):
        yield "The memory arrays do not have a row per category."
    elif n:
        total = np.sum([region.read() for region in regions], axis=0)
        if total.sum(axis=1).tolist() != rows["total_bytes"]:
            yield "The bytes of a category differ from the sum over tiles and regions."
        if total.max(axis=1).tolist() != rows["max_tile_bytes"]:
            yield "The largest tile of a category differs from its arrays."
    tiles = report.array("memory.tile").read()
    if not len(tiles):
        return
    if len(tiles) != len(MEMORY_ROWS):
        yield f"memory.tile has {len(tiles)} rows instead of {len(MEMORY_ROWS)}."
        return
    including, excluding, always, peak_bytes, code_end = tiles
    if (excluding > including).any():
        yield "A tile has more memory without gaps than with them."
    if (code_end > including).any():
        yield "A tile has code past its highest address."
    if (always + peak_bytes > excluding).any():
        yield "A tile has more memory live at once than it has in total."
    used = np.unique(report.array("liveness.pattern_id").read())
    if used.size:
        peak = np.zeros(tiles.shape[1], np.int64)
        for part in np.array_split(used, len(used) // PATTERNS_AT_ONCE + 1):
            if len(part):
                peak = np.maximum(peak, report.array("liveness.pattern").rows(part).max(axis=0))
        if not np.array_equal(peak, peak_bytes):
            yield "The not-always-live peak of a tile differs from the maximum over the steps."


def _trace(report: Report) -> Iterator[str]:
    start, end = (report.array(f"trace.{side}_cycle").read() for side in ("start", "end"))
    period, count = report.array("trace.period").read(), report.array("trace.count").read()
    pattern = report.array("trace.pattern_id").read()
    if (end < start).any() or (count < 1).any() or ((period > 0) != (count > 1)).any():
        yield "An entry of the trace ends before it starts, or repeats without a period."
    n_patterns = len(report.array("cycles.pattern"))
    if pattern.size and not (pattern.min() >= 0 and pattern.max() < n_patterns):
        yield "An entry of the trace names a missing pattern."
    rows = report.table(run_trace)
    until = 0
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for run_trace_id, first, n, begin, finish, shift in zip(
        *(rows[name] for name in ("run_trace_id", "first_entry", "n_entries", "start_cycle")),
        *(rows[name] for name in ("end_cycle", "shift_cycles")),
        strict=True,
    ):
        if shift is None:
            if first != until or n < 0 or first + n > len(start):
                yield f"The entries of run_trace {run_trace_id} do not follow the previous ones."
                return
            until = first + n
            part = slice(first, until)
            if n and (np.diff(start[part]) < 0).any():
                yield f"The entries of run_trace {run_trace_id} are not sorted by start."
            last = end[part] + period[part] * (count[part].astype(np.int64) - 1)
            spans[first, n] = (int(start[first]), int(last.max())) if n else (begin, finish)
        elif (first, n) not in spans:
            yield f"The entries of run_trace {run_trace_id} are not those of an earlier row."
            return
        earliest, latest = spans[first, n]
        moved = shift or 0
        if finish < begin or (n and (earliest + moved < begin or latest + moved > finish)):
            yield f"Entries of run_trace {run_trace_id} lie outside its run."
    if until != len(start):
        yield "Some entries of the trace belong to no run."
        return
    yield from _totals(report)


def _totals(report: Report) -> Iterator[str]:
    """Yield where the sums of executions differ from the trace."""
    ranges, rows = report.rows(trace_total), report.table(run_trace)
    stored = np.stack(
        [report.array(f"total.{name}").read().astype(np.int64) for name in TOTAL_COLUMNS]
    )
    columns = {name: report.array(f"trace.{name}").read() for name in TRACE_COLUMNS}
    n_summed = n_rows = 0
    for number, first_run_trace, n_run_traces, first_row, n in ranges:
        is_next = (first_run_trace, first_row) == (n_summed, n_rows) and min(n_run_traces, n) >= 0
        n_summed, n_rows = n_summed + n_run_traces, n_rows + n
        if not is_next or n_summed > len(rows["run_id"]) or n_rows > stored.shape[1]:
            yield f"The ranges of trace_total {number} do not follow the previous ones."
            return
        totals = Totals()
        places = zip(
            *(
                rows[name][first_run_trace:n_summed]
                for name in ("ipu_id", "track", "first_entry", "n_entries")
            ),
            strict=True,
        )
        for (ipu_id, track, first, n_entries), n_times in Counter(places).items():
            part = {
                name: values[first : first + n_entries].astype(np.int64)
                for name, values in columns.items()
            }
            totals.add((ipu_id, track), part, n_times)
        if not np.array_equal(totals.take(), stored[:, first_row:n_rows]):
            yield f"The executions of trace_total {number} differ from the trace."
    if n_rows != stored.shape[1]:
        yield "Some sums of executions belong to no trace_total."
