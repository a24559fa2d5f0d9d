"""The executions of the stages of a pipeline, each with its micro-batch, and the waits between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.program.stages import Stage, first_copy_step, pipeline, roles_of_steps
from tilescope.analyser.time.execution import external_syncs, track_rows
from tilescope.analyser.time.runs import Executed, executed, runs

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["StagePicture", "StageSlice", "StageWait", "stage_picture"]


@dataclass(frozen=True)
class StageSlice:
    """One execution of a stage; half-open range in cycles.

    ``micro_batch`` counts from 0: the k-th execution of a stage in a run is of micro-batch k.
    """

    ipu_id: int
    stage: Stage
    micro_batch: int
    start_cycle: int
    end_cycle: int

    @property
    def label(self) -> str:
        """``F0`` or ``B0``: the direction, and the micro-batch."""
        return f"{self.stage.direction[0].upper()}{self.micro_batch}"


@dataclass(frozen=True)
class StageWait:
    """A wait of an IPU for a later one; ``stage`` is what that did last, None for no stage.

    The range is half-open, in cycles that the waiting IPU counts.
    """

    ipu_id: int
    start_cycle: int
    end_cycle: int
    late_ipu_id: int
    stage: Stage | None


@dataclass(frozen=True)
class StagePicture:
    """What the stages of a pipeline did in one run, by IPU and time."""

    run_id: int
    start_cycle: int
    end_cycle: int
    slices: tuple[StageSlice, ...]
    waits: tuple[StageWait, ...]


@cached
def stage_picture(report: Report, run_id: int) -> StagePicture | None:
    """Return the stages and waits of a run; None where it has no stages or nothing passes on.

    Raises
    ------
    BadQuestion
        When the run does not exist, or its executions are too many to list.
    """
    found, ran = pipeline(report), executed(report, run_id)
    if found is None:
        return None
    release = _release(report, ran)
    if not len(release):
        return None
    run = next(run for run in runs(report) if run.run_id == run_id)
    is_work = np.array(roles_of_steps(report), dtype=object) == "work"
    stage_of_step = np.where(is_work, found.share.argmax(axis=1), -1)
    slices: list[StageSlice] = []
    for ipu_id in range(ran.start_cycle.shape[1]):
        takes_part = ran.start_cycle[:, ipu_id] >= 0
        stage = np.where(takes_part, stage_of_step[ran.step_id], -1)
        for place in np.unique(stage[stage >= 0]).tolist():
            slices += _slices(ran, ipu_id, found.stages[place], stage == place, release)
    slices.sort(key=lambda item: (item.ipu_id, item.start_cycle))
    meets = external_syncs(report)[ran.step_id] & (ran.start_cycle >= 0).all(axis=1)
    begin = np.zeros(ran.start_cycle.shape[1], np.int64)
    for row in track_rows(report):
        if row.run_id == run_id and row.track == 0:
            begin[row.ipu_id] = row.start_cycle
    waits = _waits(ran, np.flatnonzero(meets), begin, slices)
    return StagePicture(run_id, run.start_cycle, run.end_cycle, tuple(slices), waits)


def _release(report: Report, ran: Executed) -> NDArray[np.int64]:
    """Return the executions of the first step of the copies between IPUs, one per cycle.

    Returns
    -------
    ndarray of int64, shape (n_cycles,)
        Rows of `Executed`, in order of time.
    """
    first = first_copy_step(report)
    return np.flatnonzero(ran.step_id == first) if first is not None else np.zeros(0, np.int64)


def _slices(
    ran: Executed,
    ipu_id: int,
    stage: Stage,
    is_stage: NDArray[np.bool_],
    release: NDArray[np.int64],
) -> list[StageSlice]:
    """Return the executions of a stage: what it does between copies is of one micro-batch."""
    starts, ends = ran.start_cycle[is_stage, ipu_id], ran.end_cycle[is_stage, ipu_id]
    cycle = np.searchsorted(ran.end_cycle[release, ipu_id], starts, side="right")
    numbers, which = np.unique(cycle, return_inverse=True)
    low = np.full(len(numbers), np.iinfo(np.int64).max)
    high = np.zeros(len(numbers), np.int64)
    np.minimum.at(low, which, starts)
    np.maximum.at(high, which, ends)
    return [
        StageSlice(ipu_id, stage, number, start, end)
        for number, (start, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True))
    ]


def _waits(
    ran: Executed,
    meetings: NDArray[np.int64],
    begin: NDArray[np.int64],
    slices: list[StageSlice],
) -> tuple[StageWait, ...]:
    """Return what IPUs wait for the one that arrives last, in steps that they meet in.

    Every IPU counts its own cycles: those since the `begin` of the run, by IPU, compare.
    """
    n_ipus = ran.start_cycle.shape[1]
    arrival = np.zeros((len(meetings), n_ipus), np.int64)
    for ipu_id in range(n_ipus):
        computes = (ran.start_cycle[:, ipu_id] >= 0) & (ran.track[:, ipu_id] == 0)
        ends = np.sort(ran.end_cycle[computes, ipu_id])
        starts = ran.start_cycle[meetings, ipu_id]
        before = np.searchsorted(ends, starts, side="right") - 1
        known = ends[np.maximum(before, 0)] if len(ends) else starts
        arrival[:, ipu_id] = np.where(before >= 0, known, starts) - begin[ipu_id]
    stages = {(item.ipu_id, item.end_cycle): item.stage for item in slices}
    answer = []
    for times in arrival:
        late = int(times.argmax())
        end = int(times[late])
        stage = stages.get((late, end + int(begin[late])))
        answer += [
            StageWait(ipu_id, since + start, since + end, late, stage)
            for ipu_id, (start, since) in enumerate(
                zip(times.tolist(), begin.tolist(), strict=True)
            )
            if start < end
        ]
    return tuple(sorted(answer, key=lambda wait: (wait.ipu_id, wait.start_cycle)))
