"""Recorded runs, one by one: every execution of a step, over all IPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.time.execution import TrackRow, steps, track_rows
from tilescope.analyser.validation import require, require_below
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Executed", "Run", "executed", "runs", "tile_cycles", "tracks"]


#: Executions of one run on one IPU that are listed one by one; some gigabytes of memory.
_MOST_EXECUTIONS = 20_000_000


@dataclass(frozen=True)
class Run:
    """A recorded call of the engine; cycles are those of each IPU's own counter."""

    run_id: int
    name: str
    program_index: int
    start_cycle: int
    end_cycle: int
    cycles_by_ipu: tuple[int, ...]
    is_data_dependent: bool


@dataclass(frozen=True)
class Executed:
    """The executions of steps in one run, loops written out, in order of their start.

    Attributes
    ----------
    step_id : ndarray of int64, shape (n_executions,)
    start_cycle, end_cycle : ndarray of int64, shape (n_executions, n_ipus), cycles
        On each IPU's counter; -1 on IPUs that do not take part.
    pattern_id : ndarray of int64, shape (n_executions, n_ipus)
        What ``tile_cycles`` takes; -1 on IPUs that do not take part.
    track : ndarray of int64, shape (n_executions, n_ipus)
        0 for compute, 1 for overlapped input and output; -1 on IPUs that do not take part.
    """

    step_id: NDArray[np.int64]
    start_cycle: NDArray[np.int64]
    end_cycle: NDArray[np.int64]
    pattern_id: NDArray[np.int64]
    track: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of executions."""
        return len(self.step_id)


@cached
def runs(report: Report) -> tuple[Run, ...]:
    """Return the recorded runs in order of time."""
    times: dict[int, list[int]] = {}
    n_ipus = target(report).n_ipus
    for row in track_rows(report):
        by_ipu = times.setdefault(row.run_id, [0] * n_ipus)
        by_ipu[row.ipu_id] = max(by_ipu[row.ipu_id], row.n_cycles)
    columns = ("run_id", "name", "program_index", "start_cycle", "end_cycle", "is_data_dependent")
    return tuple(
        Run(run_id, name, index, start, end, tuple(times.get(run_id, [0] * n_ipus)), depends)
        for run_id, name, index, start, end, depends in report.rows(schema.run, *columns)
    )


@cached
def executed(report: Report, run_id: int) -> Executed:
    """Return every execution of a step in a run; those of equal step and turn belong together.

    Raises
    ------
    BadQuestion
        When the run does not exist, or its executions are too many to list.
    """
    if run_id not in {run.run_id for run in runs(report)}:
        raise BadQuestion(f"run {run_id} does not exist; this report has {len(runs(report))} runs")
    rows_ = [row for row in track_rows(report) if row.run_id == run_id]
    parts = [
        _written_out(report, row) for row in sorted(rows_, key=lambda row: (row.ipu_id, row.track))
    ]
    rows = np.concatenate(parts) if parts else np.zeros((0, 6), dtype=np.int64)
    # The nth time a step runs on one IPU is the nth time it runs on the others.
    rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]
    turn = _turns(rows[:, 0], rows[:, 1])
    pairs, which = np.unique(np.stack([rows[:, 1], turn], axis=1), axis=0, return_inverse=True)
    shape = (len(pairs), target(report).n_ipus)
    starts, ends, patterns, tracks = (np.full(shape, -1, dtype=np.int64) for _ in range(4))
    key = (which.reshape(-1), rows[:, 0])
    starts[key], ends[key], patterns[key], tracks[key] = rows[:, 2:].T
    begin = np.where(starts < 0, np.iinfo(np.int64).max, starts).min(axis=1)
    order = np.lexsort((pairs[:, 0], begin))
    return Executed(pairs[order, 0], starts[order], ends[order], patterns[order], tracks[order])


def tracks(report: Report, ipu_id: int) -> tuple[int, ...]:
    """Return the tracks that an IPU has in any run: 0, and 1 if input and output overlap."""
    return tuple(sorted({row.track for row in track_rows(report) if row.ipu_id == ipu_id}))


def _written_out(report: Report, row: TrackRow) -> NDArray[np.int64]:
    """Return one row per execution on an IPU and track: IPU, step, start, end, pattern, track."""
    names = ("step_id", "start_cycle", "end_cycle", "period", "count", "pattern_id")
    step_id, start, end, period, count, pattern_id = (
        report.array(f"trace.{name}").read(*row.place).astype(np.int64) for name in names
    )
    total = int(count.sum())
    require_below(report, step_id, len(steps(report)), "step")
    if count.min(initial=0) < 0 or total > _MOST_EXECUTIONS:
        raise BadQuestion(
            f"this run has {total:,} executions of steps, too many to list one by one;"
            " ask for a range of the trace instead"
        )
    is_periodic = ((period > 0) == (count > 1)).all()
    require(report, bool(is_periodic), "entries of its trace repeat without a period")
    entry = np.repeat(np.arange(len(count)), count)
    turn = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    shift = turn * period[entry] + row.shift_cycles
    return np.stack(
        [
            np.full(total, row.ipu_id, dtype=np.int64),
            step_id[entry],
            start[entry] + shift,
            end[entry] + shift,
            pattern_id[entry],
            np.full(total, row.track, dtype=np.int64),
        ],
        axis=1,
    )


def _turns(ipu_id: NDArray[np.int64], step_id: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each row's IPU and step came before, in rows sorted by them."""
    is_first = np.ones(len(step_id), dtype=np.bool_)
    is_first[1:] = (ipu_id[1:] != ipu_id[:-1]) | (step_id[1:] != step_id[:-1])
    begins = np.flatnonzero(is_first)
    lengths = np.diff(np.append(begins, len(step_id)))
    return np.arange(len(step_id)) - np.repeat(begins, lengths)


@cached
def tile_cycles(report: Report, pattern_id: int) -> NDArray[np.int64]:
    """Return busy cycles of every tile of an IPU in a pattern, int64, shape (tiles_per_ipu,).

    Raises
    ------
    BadQuestion
        When the pattern does not exist.
    """
    patterns = report.array("cycles.pattern")
    if not 0 <= pattern_id < patterns.shape[0]:
        raise BadQuestion(
            f"pattern {pattern_id} does not exist; this report has {patterns.shape[0]}"
        )
    cycles: NDArray[np.int64] = patterns.row(pattern_id).astype(np.int64)
    cycles.flags.writeable = False
    return cycles
