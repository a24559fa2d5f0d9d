"""Stretches of a trace that one cause takes most of: exchange, sync, waiting, imbalance, host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.trace.causes import CAUSES, GAP, CauseCycles
from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.run_cuts import Budget, RunCut, run_cuts
from tilescope.analyser.trace.view import checked_ipus, checked_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.reports import Report

__all__ = ["CauseShare", "Stretch", "Stretches", "maximal_stretches", "stretches"]


@dataclass(frozen=True)
class CauseShare:
    """Cycles of a range that go to a cause, over the IPUs; ``share`` of all their cycles, 0 to 1.

    ``cause`` is ``work`` for the cycles of balanced compute.
    """

    cause: str
    cycles: int
    share: float


@dataclass(frozen=True)
class Stretch:
    """Consecutive executions more than half of whose cycles go to one cause.

    Attributes
    ----------
    cause
        One of ``exchange``, ``sync``, ``waiting``, ``imbalance``, ``host``.
    name
        What the names of its steps have in common, up to a ``/``; else that of ``step_id``.
    step_id
        The step with most cycles of the cause; None where only time in no step is.
    ipu_id, start_cycle, end_cycle
        The occurrence with most cycles of the cause; half-open.
    cause_cycles
        Cycles of the cause in that occurrence.
    n_executions
        Executions of steps in it.
    count
        Occurrences: stretches of one cause that run the same steps, over runs, loops and IPUs.
    ipus
        Where it occurs, ascending.
    total_cause_cycles
        Cycles of the cause over all occurrences.
    share
        Those as a share of the cycles of all IPUs in the range, 0 to 1.
    """

    cause: str
    name: str
    step_id: int | None
    ipu_id: int
    start_cycle: int
    end_cycle: int
    cause_cycles: int
    n_executions: int
    count: int
    ipus: tuple[int, ...]
    total_cause_cycles: int
    share: float

    @property
    def cycles(self) -> int:
        """Cycles of the occurrence."""
        return self.end_cycle - self.start_cycle


@dataclass(frozen=True)
class Stretches:
    """The stretches of a range, those that cost most first, and what all cycles go to."""

    start_cycle: int
    end_cycle: int
    cycles: int
    shares: tuple[CauseShare, ...]
    rows: tuple[Stretch, ...]

    def of(self, cause: str) -> tuple[Stretch, ...]:
        """Return the stretches of a cause."""
        return tuple(row for row in self.rows if row.cause == cause)


def stretches(
    report: Report,
    start: int | None = None,
    end: int | None = None,
    ipus: Sequence[int] | None = None,
) -> Stretches:
    """Return the stretches of a range that are bound by something else than balanced compute.

    A stretch is a sequence of executions of the compute track within a run. More than half of its
    cycles go to its cause, and so they do in every part at its beginning and at its end; it is as
    long as that allows. Stretches of one cause are apart; one of another cause may lie inside.
    Cycles by cause are those of `CauseCycles`. An execution that an edge of the range cuts counts
    with its part inside.

    Parameters
    ----------
    report
        The report.
    start, end
        Half-open range in cycles; the whole trace by default.
    ipus
        IPUs to look at, all by default.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU, or a range with more than 1,000,000 executions.

    Notes
    -----
    Source: W. L. Ruzzo, M. Tompa, "A Linear Time Algorithm for Finding All Maximal Scoring
    Subsequences" (1999), with cycles of the cause less the other cycles as score.
    """
    trace = trace_of(report)
    low, high = checked_range(trace, start, end)
    return _stretches(report, low, high, tuple(checked_ipus(trace, ipus)))


@cached
def _stretches(report: Report, low: int, high: int, ipus: tuple[int, ...]) -> Stretches:
    """Return the stretches of a range on some IPUs."""
    trace = trace_of(report)
    groups: dict[tuple[int, bytes], _Occurrences] = {}
    by_cause = np.zeros(len(CAUSES), np.int64)
    cycles, budget = 0, Budget(low, high, "stretches")
    for ipu_id in ipus:
        cause_cycles = CauseCycles(trace, ipu_id)
        for run in run_cuts(trace, ipu_id, budget):
            causes = cause_cycles.divide(run.step, run.cycles)
            by_cause += causes.sum(axis=1)
            cycles += int(run.cycles.sum())
            for number in range(len(CAUSES)):
                _collect(groups, ipu_id, number, run, causes[number])
    rows = [_row(trace, found, cycles) for found in groups.values()]
    rows.sort(key=lambda row: (-row.total_cause_cycles, row.start_cycle, row.cause))
    work = cycles - int(by_cause.sum())
    named = zip((*CAUSES, "work"), (*by_cause.tolist(), work), strict=True)
    shares = tuple(CauseShare(name, n, n / cycles if cycles else 0.0) for name, n in named)
    return Stretches(low, high, cycles, shares, tuple(rows))


@dataclass
class _Occurrences:
    """Stretches of one cause that run the same steps."""

    cause: int
    best: tuple[int, int, int, int] = (0, 0, 0, -1)
    step: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    cause_cycles: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    total: int = 0
    count: int = 0
    ipus: set[int] = field(default_factory=set)


def _collect(
    groups: dict[tuple[int, bytes], _Occurrences],
    ipu_id: int,
    cause: int,
    run: RunCut,
    cause_cycles: NDArray[np.int64],
) -> None:
    """Add the stretches of a cause in a run to those that run the same steps."""
    below = np.append(0, np.cumsum(cause_cycles))
    for first, stop in maximal_stretches(2 * cause_cycles - run.cycles):
        step = run.step[first:stop]
        found = groups.setdefault((cause, step.tobytes()), _Occurrences(cause))
        taken = int(below[stop] - below[first])
        if taken > found.best[0]:
            found.best = taken, int(run.start[first]), int(run.end[stop - 1]), ipu_id
            found.step, found.cause_cycles = step, cause_cycles[first:stop]
        found.total += taken
        found.count += 1
        found.ipus.add(ipu_id)


def _row(trace: Trace, found: _Occurrences, cycles: int) -> Stretch:
    """Return the row of stretches that run the same steps."""
    taken, start, end, ipu_id = found.best
    is_step = found.step != GAP
    step_id, name = None, "time in no step"
    if is_step.any():
        steps = found.step[is_step]
        unique, where = np.unique(steps, return_inverse=True)
        by_step = np.bincount(where.reshape(-1), found.cause_cycles[is_step])
        step_id = int(unique[by_step.argmax()])
        name = _shared_path([trace.steps.name[step] for step in unique.tolist()])
        name = name or trace.steps.name[step_id]
    return Stretch(
        CAUSES[found.cause],
        name,
        step_id,
        ipu_id,
        start,
        end,
        taken,
        int(is_step.sum()),
        found.count,
        tuple(sorted(found.ipus)),
        found.total,
        found.total / cycles if cycles else 0.0,
    )


def _shared_path(names: Sequence[str]) -> str:
    """Return the parts between ``/`` that all names begin with."""
    shared = []
    for parts in zip(*(name.split("/") for name in names), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "/".join(shared)


def maximal_stretches(score: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the half-open ranges of positive score that are as long as they can be.

    Every beginning and every end of a range has a positive sum, and no longer range that holds
    it does. They do not overlap.

    Parameters
    ----------
    score : ndarray of int64, shape (n,)

    Notes
    -----
    Source: Ruzzo and Tompa (1999); neighbours that are both positive, or both not, count as one.
    """
    if not len(score):
        return []
    is_gain = score > 0
    bounds = np.flatnonzero(np.diff(is_gain, prepend=not is_gain[0]))
    sums = np.add.reduceat(score, bounds).tolist()
    edges = [*bounds.tolist(), len(score)]
    # First place, score before it and score up to its end, of every candidate.
    ranges: list[tuple[int, int, int, int]] = []
    # Of every candidate, the nearest one before it whose score before it is smaller, or -1.
    total = 0
    links: list[int] = []
    for number, gain in enumerate(sums):
        before, total = total, total + gain
        if gain <= 0:
            continue
        first = edges[number]
        while True:
            nearest = len(ranges) - 1
            while nearest >= 0 and ranges[nearest][2] >= before:
                nearest = links[nearest]
            if nearest < 0 or ranges[nearest][3] >= total:
                break
            first, _, before, _ = ranges[nearest]
            del ranges[nearest:], links[nearest:]
        ranges.append((first, edges[number + 1], before, total))
        links.append(nearest)
    return [(first, stop) for first, stop, _, _ in ranges]
