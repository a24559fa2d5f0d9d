"""Figures of a program by IPU and by stage: work, copies, waits, balance and memory.

Every view of stages takes its figures from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.purposes import purpose_totals
from tilescope.analyser.program.stages import (
    Cycle,
    Direction,
    Pipeline,
    Stage,
    pipeline,
    roles_of_steps,
)
from tilescope.analyser.time.execution import execution, ipu_cycles
from tilescope.analyser.time.runs import runs

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "IpuMemory",
    "IpuTime",
    "StageFigures",
    "StageTime",
    "collective_cycles",
    "ipu_memory",
    "ipu_times",
    "stage_figures",
]


@dataclass(frozen=True)
class StageTime:
    """The work of a stage in all recorded runs or one.

    Attributes
    ----------
    ipu_id
        Where it works.
    cycles
        Time of its steps on its IPU, without copies and waits.
    n_executions
        Its micro-batches.
    """

    stage: Stage
    ipu_id: int
    cycles: int
    n_executions: int

    @property
    def cycles_per_execution(self) -> float:
        """Mean time of a micro-batch, cycles; 0 without any."""
        return self.cycles / self.n_executions if self.n_executions else 0.0


@dataclass(frozen=True)
class IpuTime:
    """What an IPU did in all recorded runs or one, cycles; the parts add up to the runs.

    Attributes
    ----------
    work_cycles
        Work of its stages; of a program without stages 0.
    copy_cycles
        Copies between IPUs, with their syncs.
    host_cycles
        Copies from and to the host.
    collective_cycles
        Collectives of replicas.
    waiting_cycles
        Waits for other IPUs in syncs, and for the last IPU at the end of a run.
    other_cycles
        All other time, such as that of the optimiser.
    """

    ipu_id: int
    work_cycles: int
    copy_cycles: int
    host_cycles: int
    collective_cycles: int
    waiting_cycles: int
    other_cycles: int

    @property
    def total_cycles(self) -> int:
        """Time of the runs, cycles."""
        return (
            self.work_cycles
            + self.copy_cycles
            + self.host_cycles
            + self.collective_cycles
            + self.waiting_cycles
            + self.other_cycles
        )

    @property
    def idle_share(self) -> float | None:
        """Waits over the runs, 0 to 1; None without a run."""
        return self.waiting_cycles / self.total_cycles if self.total_cycles else None


@dataclass(frozen=True)
class StageFigures:
    """The stages of a pipeline in all recorded runs or one.

    Attributes
    ----------
    total_cycles
        Time of the runs, cycles.
    stages
        In the order in which a micro-batch passes them.
    ipus
        By IPU.
    balanced_cycles
        What the runs would take if all forward stages took their mean, and all backward stages
        theirs, cycles: every cycle of the pipeline lasts as long as its busiest IPU works, and all
        time that is no work stays as it is. Never more than `total_cycles`.
    """

    total_cycles: int
    n_runs: int
    stages: tuple[StageTime, ...]
    ipus: tuple[IpuTime, ...]
    balanced_cycles: int

    @property
    def slowest(self) -> StageTime:
        """The stage with the longest micro-batch, forward and backward apart."""
        return max(self.stages, key=lambda stage: stage.cycles_per_execution)

    @property
    def balance_gain_cycles(self) -> int:
        """What equal stages would save of the runs, cycles."""
        return self.total_cycles - self.balanced_cycles

    @property
    def idle_share(self) -> float:
        """Waits of all IPUs over the runs of all IPUs, 0 to 1."""
        waiting = sum(ipu.waiting_cycles for ipu in self.ipus)
        return waiting / (self.total_cycles * len(self.ipus)) if self.total_cycles else 0.0

    @property
    def bubble_share(self) -> float:
        """Waits over waits and work of all IPUs, 0 to 1: without what copies and the rest take."""
        waiting = sum(ipu.waiting_cycles for ipu in self.ipus)
        work = sum(ipu.work_cycles for ipu in self.ipus)
        return waiting / (waiting + work) if waiting + work else 0.0


@dataclass(frozen=True)
class IpuMemory:
    """What an IPU holds when most of its memory is live, bytes over its tiles.

    Attributes
    ----------
    weight_bytes
        Weights, constant or not.
    stash_bytes
        What stages keep of several micro-batches.
    rest_bytes
        All else.
    """

    ipu_id: int
    weight_bytes: int
    stash_bytes: int
    rest_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.weight_bytes + self.stash_bytes + self.rest_bytes


@cached
def ipu_times(report: Report, run_id: int | None = None) -> tuple[IpuTime, ...]:
    """Return what every IPU did in all recorded runs or one; nothing without a run.

    Raises
    ------
    BadQuestion
        When the run does not exist.
    """
    ran = execution(report, run_id)
    if not ran.n_runs:
        return ()
    roles = np.array(roles_of_steps(report), dtype=object)
    lengths = ipu_cycles(report, run_id)
    answer = []
    for ipu_id in range(target(report).n_ipus):
        local = ran.own_cycles[ipu_id]
        work, copy, host, collective = (
            int(local[roles == role].sum()) for role in ("work", "copy", "host", "collective")
        )
        waiting = int(ran.waiting_cycles[ipu_id].sum()) + ran.total_cycles - int(lengths[ipu_id])
        rest = ran.total_cycles - waiting - work - copy - host - collective
        answer.append(IpuTime(ipu_id, work, copy, host, collective, waiting, rest))
    return tuple(answer)


@cached
def stage_figures(report: Report, run_id: int | None = None) -> StageFigures | None:
    """Return the stages of a pipeline; None for other programs, and without a run.

    Raises
    ------
    BadQuestion
        When the run does not exist.
    """
    found, ran = pipeline(report), execution(report, run_id)
    if found is None or not ran.n_runs:
        return None
    is_work = np.array(roles_of_steps(report), dtype=object) == "work"
    cycles = np.rint(ran.own_cycles[:, is_work] @ found.share[is_work]).astype(np.int64)
    n_cycles = _n_executions(report, found, run_id)
    stages = tuple(
        StageTime(
            stage,
            int(cycles[:, place].argmax()),
            int(cycles[:, place].max()),
            sum(
                times
                for cycle, times in zip(found.cycles, n_cycles, strict=True)
                if place in cycle.stages
            ),
        )
        for place, stage in enumerate(found.stages)
    )
    gain = _balance_gain(found, stages, n_cycles)
    total = ran.total_cycles
    return StageFigures(total, ran.n_runs, stages, ipu_times(report, run_id), total - gain)


def _n_executions(report: Report, found: Pipeline, run_id: int | None) -> list[int]:
    """Return how often the cycles of a pipeline ran, by place in `Pipeline.cycles`."""
    programs = [run.program_index for run in runs(report) if run_id in (None, run.run_id)]
    return [cycle.n_cycles * programs.count(cycle.root_index) for cycle in found.cycles]


def _balance_gain(found: Pipeline, stages: Sequence[StageTime], n_cycles: Sequence[int]) -> int:
    """Return what the runs would save if stages of a direction took their mean, cycles."""
    local = [stage.cycles_per_execution for stage in stages]
    mean: dict[Direction, float] = {}
    for direction in {stage.stage.direction for stage in stages}:
        of = [stage.cycles_per_execution for stage in stages if stage.stage.direction == direction]
        mean[direction] = sum(of) / len(of)
    balanced = [mean[stage.stage.direction] for stage in stages]
    saved = 0.0
    for cycle, times in zip(found.cycles, n_cycles, strict=True):
        lengths = (_length(cycle, stages, cycles) for cycles in (local, balanced))
        saved += times * (next(lengths) - next(lengths))
    return max(round(saved), 0)


def _length(cycle: Cycle, stages: Sequence[StageTime], cycles: Sequence[float]) -> float:
    """Return how long the busiest IPU works in a cycle, if stages take some cycles."""
    by_ipu: dict[int, float] = {}
    for place in cycle.stages:
        ipu_id = stages[place].ipu_id
        by_ipu[ipu_id] = by_ipu.get(ipu_id, 0.0) + cycles[place]
    return max(by_ipu.values())


@cached
def ipu_memory(report: Report) -> tuple[IpuMemory, ...]:
    """Return what every IPU holds; nothing where the report does not state purposes."""
    answer = []
    for ipu_id in range(target(report).n_ipus):
        totals = {item.name: item.peak_bytes for item in purpose_totals(report, ("ipu", ipu_id))}
        if not totals:
            return ()
        weights = totals["weight"] + totals["constant"]
        stash = totals["stash"]
        answer.append(IpuMemory(ipu_id, weights, stash, sum(totals.values()) - weights - stash))
    return tuple(answer)


def collective_cycles(report: Report, run_id: int | None = None) -> int:
    """Return the time in collectives of replicas on the critical path, cycles.

    Raises
    ------
    BadQuestion
        When the run does not exist.
    """
    is_collective = np.array([role == "collective" for role in roles_of_steps(report)], np.bool_)
    return int(execution(report, run_id).step_cycles[is_collective].sum())
