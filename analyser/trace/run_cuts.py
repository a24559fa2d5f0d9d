"""The executions of every run on an IPU's compute track that touch a range, one run at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.trace.causes import GAP
from tilescope.analyser.trace.listing import entry_ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.time.execution import TrackRow
    from tilescope.analyser.trace.index import Trace
    from tilescope.reports.bars.timeline import Timeline

__all__ = ["MOST_EXECUTIONS", "Budget", "RunCut", "compute_rows", "run_cuts"]

#: Most executions that are looked at one by one.
MOST_EXECUTIONS = 1_000_000


class RunCut(NamedTuple):
    """Consecutive executions of a run on one IPU, cut to a range, time between them as ``GAP``."""

    run_id: int
    step: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    @property
    def cycles(self) -> NDArray[np.int64]:
        """What each of them takes."""
        return self.end - self.start


@dataclass
class Budget:
    """A range, what is looked for in it, and how many of its executions were looked at."""

    low: int
    high: int
    noun: str
    n_executions: int = 0

    def take(self, n: int) -> None:
        """Count some executions.

        Raises
        ------
        BadQuestion
            When they are too many.
        """
        self.n_executions += n
        if self.n_executions > MOST_EXECUTIONS:
            raise BadQuestion(
                f"the range {self.low}:{self.high} has more than {MOST_EXECUTIONS:,} executions,"
                f" too many to find {self.noun} in; give a shorter range, a run or an IPU"
            )


def compute_rows(trace: Trace, ipu_id: int) -> list[TrackRow]:
    """Return the runs on an IPU's compute track, in order of time."""
    track = min(number for ipu, number in trace.keys if ipu == ipu_id)
    rows = (row for row in trace.tracks if (row.ipu_id, row.track) == (ipu_id, track))
    return sorted(rows, key=lambda row: row.start_cycle)


def run_cuts(trace: Trace, ipu_id: int, budget: Budget) -> Iterator[RunCut]:
    """Yield the executions of every run on an IPU's compute track that touch a range.

    Raises
    ------
    BadQuestion
        When they are too many.
    """
    low, high = budget.low, budget.high
    rows = compute_rows(trace, ipu_id)
    edges = np.array([row.start_cycle for row in rows], np.int64)
    pending: list[tuple[NDArray[np.int64], ...]] = []
    current = -1
    for line, first, stop, shift in entry_ranges(trace.track(ipu_id, rows[0].track), low, high):
        budget.take(stop - first)
        for part in _by_run(line, first, stop, shift, edges):
            number = int(np.searchsorted(edges, part[1][0], side="right")) - 1
            if number != current and pending:
                yield _joined(rows[current].run_id, pending, low, high)
                pending = []
            current = number
            pending.append(part)
    if pending:
        yield _joined(rows[current].run_id, pending, low, high)


def _by_run(
    line: Timeline, first: int, stop: int, shift: int, edges: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Yield step, start and end of some entries, those of a run together."""
    step = line.step[first:stop].astype(np.int64)
    start, end = line.start[first:stop] + shift, line.end[first:stop] + shift
    inside = edges[(edges > start[0]) & (edges <= start[-1])]
    cuts = np.searchsorted(start, inside, side="left").tolist()
    for low, high in zip([0, *cuts], [*cuts, len(step)], strict=True):
        if high > low:
            yield step[low:high], start[low:high], end[low:high]


def _joined(
    run_id: int, parts: Sequence[tuple[NDArray[np.int64], ...]], low: int, high: int
) -> RunCut:
    """Return executions in one piece, cut to a range, with the time between them."""
    step, start, end = (np.concatenate(values) for values in zip(*parts, strict=True))
    start, end = np.maximum(start, low), np.minimum(end, high)
    before = np.flatnonzero(start[1:] > end[:-1]) + 1
    return RunCut(
        run_id,
        np.insert(step, before, GAP),
        np.insert(start, before, end[before - 1]),
        np.insert(end, before, start[before]),
    )
