"""The executions of a range as a list, in order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.kinds import kind_numbers
from tilescope.analyser.trace.sections import TrackSections
from tilescope.analyser.trace.view import checked_ipus, checked_range
from tilescope.reports.bars.kinds import KINDS
from tilescope.reports.bars.timeline import Piece, Timeline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from tilescope.reports import Report

__all__ = ["Execution", "ExecutionList", "entry_ranges", "executions", "rounds_in_range"]


@dataclass(frozen=True)
class Execution:
    """One execution of a step; half-open range in cycles."""

    ipu_id: int
    track: int
    step_id: int
    name: str
    kind: str
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True)
class ExecutionList:
    """The first executions that touch a range, by start, and how many there are."""

    start_cycle: int
    end_cycle: int
    n_executions: int
    rows: list[Execution]


def executions(
    report: Report,
    start: int | None = None,
    end: int | None = None,
    ipus: Sequence[int] | None = None,
    *,
    hidden: Collection[str] = (),
    limit: int = 100,
) -> ExecutionList:
    """Return the executions that touch a range, the earliest first.

    Parameters
    ----------
    report
        The report.
    start, end
        Half-open range in cycles; the whole trace by default.
    ipus
        IPUs to look at, all by default.
    hidden
        Names of kinds to leave out.
    limit
        Most rows to list.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU or kind.
    """
    trace = trace_of(report)
    low, high = checked_range(trace, start, end)
    ipu_ids = checked_ipus(trace, ipus)
    is_shown = ~np.isin(trace.step_kinds, kind_numbers(hidden))
    total = 0
    rows: list[tuple[int, int, int, int, int]] = []
    for ipu_id, track in trace.keys:
        if ipu_id not in ipu_ids:
            continue
        left = limit
        for line, first, stop, shift in entry_ranges(trace.track(ipu_id, track), low, high):
            entries = first + np.flatnonzero(is_shown[line.step[first:stop]])
            total += len(entries)
            listed = entries[:left]
            left -= len(listed)
            rows += zip(
                (line.start[listed] + shift).tolist(),
                [ipu_id] * len(listed),
                [track] * len(listed),
                (line.end[listed] + shift).tolist(),
                line.step[listed].tolist(),
                strict=True,
            )
    rows.sort()
    return ExecutionList(low, high, total, [_row(trace, *row) for row in rows[:limit]])


def entry_ranges(
    track: TrackSections, low: int, high: int
) -> Iterator[tuple[Timeline, int, int, int]]:
    """Yield the executions of a track that touch a range, in order of time, loops round by round.

    Yields
    ------
    tuple
        A timeline, the half-open range of its entries, and the cycles to add to their starts.
    """
    for group in track.between(low, high):
        for piece in group.timeline.between(low, high):
            for first, stop, shift in rounds_in_range(group.timeline, piece, low, high):
                yield group.timeline, first, stop, shift


def rounds_in_range(
    line: Timeline, part: Piece, low: int, high: int
) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of entries of a piece that touch a range, round by round.

    Yields
    ------
    tuple
        The half-open range of entries, and the cycles to add to their starts.
    """
    period = part.period_cycles
    rounds = range(1)
    if period:
        body_end = part.end_cycle - period * (part.n_iterations - 1)
        rounds = range(
            max(0, (low - body_end) // period + 1),
            min(part.n_iterations, -((part.start_cycle - high) // period)),
        )
    entries = slice(part.first_entry, part.stop_entry)
    starts, ends = line.start[entries], line.end[entries]
    for number in rounds:
        shift = number * period + part.shift_cycles
        first, stop = _touching(starts, ends, low - shift, high - shift)
        if stop > first:
            yield part.first_entry + first, part.first_entry + stop, shift


def _touching(
    starts: NDArray[np.int64], ends: NDArray[np.int64], low: int, high: int
) -> tuple[int, int]:
    """Return the half-open range of entries that touch a range."""
    first = int(np.searchsorted(ends, low, side="right"))
    return first, max(first, int(np.searchsorted(starts, high, side="left")))


def _row(trace: Trace, start: int, ipu_id: int, track: int, end: int, step: int) -> Execution:
    """Return one row."""
    kind = KINDS[int(trace.step_kinds[step])].name
    return Execution(ipu_id, track, step, trace.steps.name[step], kind, start, end)
