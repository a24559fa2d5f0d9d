"""The execution part of a report, by libpva's names."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pva.block import Block
from pva.compute_set import ComputeSet
from pva.cycles import CycleRange, CycleSpan
from pva.entry import Entry
from pva.explained import Explained
from pva.lazy import LazyList
from pva.occupied import cycles_by_tile
from pva.program import OnTileExecuteProgram, Program, program_of
from tilescope.analyser.machine.target import target, tile_range
from tilescope.analyser.program.blocks import block_executions
from tilescope.analyser.time import runs as recorded
from tilescope.analyser.time.execution import costs, execution, external_syncs, steps
from tilescope.analyser.time.occupancy import cost_rows, occupied_cycles

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = [
    "ExecutedComputeSet",
    "ExecutionReport",
    "ExecutionStep",
    "IpuStep",
    "Microseconds",
    "Run",
    "TotalCycles",
]


@dataclass(frozen=True)
class Microseconds:
    """Time on the machine since its cycle 0: cycles over its clock, whole microseconds.

    A run that takes any cycles lasts 1 at least.
    """

    start: int
    end: int


@dataclass(frozen=True)
class TotalCycles:
    """Cycles over all runs."""

    total: int


class IpuStep(Entry):
    """One execution of a step on one IPU; all zero on an IPU that takes no part."""

    def __init__(self, opened: Opened, executed: recorded.Executed, row: int, ipu_id: int) -> None:
        self._start = max(int(executed.start_cycle[row, ipu_id]), 0)
        self._end = max(int(executed.end_cycle[row, ipu_id]), 0)
        self._pattern_id = int(executed.pattern_id[row, ipu_id])
        self._step_id = int(executed.step_id[row])
        self._ipu_id = ipu_id
        super().__init__(opened, self._step_id, ipu_id, self._start)
        self._begin = self._end - self._own_cycles(int((executed.pattern_id[row] >= 0).sum()))

    @property
    def cycles(self) -> int:
        """Time of the step on this IPU with what it waited for other IPUs, cycles."""
        return self._end - self._start

    @property
    def activeCycles(self) -> CycleSpan:
        """When the tiles that take part begin and end.

        In a step that syncs with other IPUs they begin when the IPU arrives there: what it waits
        for later IPUs is part of the span.
        """
        active = self._occupied[self._occupied > 0]
        if not len(active):
            return self.allCycles
        ends = CycleRange(self._begin + int(active.min()), self._begin + int(active.max()))
        return CycleSpan(CycleRange(self._start, self._start), ends)

    @property
    def allCycles(self) -> CycleSpan:
        """When the step begins and ends."""
        return CycleSpan(CycleRange(self._start, self._start), CycleRange(self._end, self._end))

    @property
    def cyclesByTile(self) -> list[int]:
        """Cycles for which the step occupies every tile of the IPU; 0 for a tile without work.

        What the IPU waits for other IPUs is not in it.
        """
        return cycles_by_tile(self._opened, self._pattern_id, self._end - self._begin)

    @property
    def _occupied(self) -> NDArray[np.int64]:
        """The cycles of the IPU's tiles."""
        return occupied_cycles(self._opened, self._pattern_id, self._end - self._begin)

    @property
    def dataIn(self) -> int:
        """Bytes from the host, from streaming memory and from other IPUs."""
        return sum(map(self._cost, ("host_in_bytes", "remote_in_bytes", "link_in_bytes")))

    @property
    def dataOut(self) -> int:
        """Bytes to the host, to streaming memory and to other IPUs."""
        return sum(map(self._cost, ("host_out_bytes", "remote_out_bytes", "link_out_bytes")))

    @property
    def tileBalance(self) -> float:
        """Mean over maximum of the tiles' cycles, 0 to 1; 0 where nothing runs."""
        return _balance(self._occupied)

    @property
    def activeTileBalance(self) -> float:
        """The same over tiles that take part."""
        return _balance(self._occupied[self._occupied > 0])

    def _own_cycles(self, n_ipus: int) -> int:
        """Return the time of the step without waiting for other IPUs, cycles."""
        if n_ipus > 1 and external_syncs(self._opened)[self._step_id]:
            return min(self._cost("cycles"), self.cycles)
        return self.cycles

    def _cost(self, name: str) -> int:
        """Return a column of the step's cost on this IPU; 0 if it takes no part."""
        row = cost_rows(self._opened).get((self._step_id, self._ipu_id))
        if row is None or self._pattern_id < 0:
            return 0
        return int(costs(self._opened).column[name][row])

    def __repr__(self) -> str:
        return f"<IpuStep IPU {self._ipu_id}, {self.cycles} cycles>"


def _balance(cycles: NDArray[np.int64]) -> float:
    """Return the mean over the maximum; 0 where there is nothing."""
    busiest = int(cycles.max(initial=0))
    return int(cycles.sum()) / (len(cycles) * busiest) if busiest else 0.0


class ExecutedComputeSet:
    """A compute set as it ran."""

    def __init__(self, compute_set: ComputeSet, cycles: list[int]) -> None:
        self._compute_set = compute_set
        self.cyclesByTile = cycles

    @property
    def name(self) -> str:
        """Debug name."""
        return self._compute_set.name

    @property
    def estimatedCyclesByTile(self) -> list[int]:
        """Busy cycles of every tile that the compiler expected."""
        return self._compute_set.estimatedCyclesByTile

    def __repr__(self) -> str:
        return f"<ExecutedComputeSet {self.name}>"


class ExecutionStep(Entry):
    """One execution of a step over all IPUs."""

    def __init__(self, opened: Opened, run_id: int, row: int) -> None:
        super().__init__(opened, run_id, row)
        self._executed = recorded.executed(opened, run_id)
        self._row = row

    @cached_property
    def program(self) -> Program:
        """The program that ran."""
        step_id = int(self._executed.step_id[self._row])
        return program_of(self._opened, int(steps(self._opened).program_id[step_id]))

    @cached_property
    def ipus(self) -> list[IpuStep]:
        """What each IPU did."""
        return [
            IpuStep(self._opened, self._executed, self._row, ipu_id)
            for ipu_id in range(target(self._opened).n_ipus)
        ]

    @property
    def cyclesByTile(self) -> list[int]:
        """Cycles for which the step occupies every tile; 0 for a tile without work."""
        cycles: list[int] = []
        for ipu in self.ipus:
            cycles += ipu.cyclesByTile
        return cycles

    @property
    def computeSets(self) -> list[ExecutedComputeSet]:
        """The compute set that ran, if it was one."""
        if not isinstance(self.program, OnTileExecuteProgram):
            return []
        return [ExecutedComputeSet(self.program.computeset, self.cyclesByTile)]

    def __repr__(self) -> str:
        return f"<ExecutionStep {self._row} of run {self._identity[0]}>"


class Run(Entry):
    """A recorded call of the engine."""

    def __init__(self, opened: Opened, run: recorded.Run) -> None:
        super().__init__(opened, run.run_id)
        self._run = run
        self.name = run.name
        self.cyclesByIpu = list(run.cycles_by_ipu)

    @property
    def microseconds(self) -> Microseconds:
        """When it began and ended on the machine's clock."""
        clock = target(self._opened).clock_hz / 1e6
        start = round(self._run.start_cycle / clock)
        duration = (self._run.end_cycle - self._run.start_cycle) / clock
        return Microseconds(start, start + max(round(duration), math.ceil(min(duration, 1))))

    @cached_property
    def steps(self) -> LazyList[ExecutionStep]:
        """Every execution of a step, loops written out, in order of their start."""
        opened, run_id = self._opened, self._run.run_id
        return LazyList(
            len(recorded.executed(opened, run_id)),
            lambda index: ExecutionStep(opened, run_id, index),
        )

    def __repr__(self) -> str:
        return f"<Run {self.name}>"


class ExecutionReport(Explained):
    """What ran; nothing when it is not asked for."""

    def __init__(self, opened: Opened, *, is_asked: bool = True) -> None:
        self._opened = opened
        self._is_asked = is_asked

    @cached_property
    def runs(self) -> LazyList[Run]:
        """The recorded runs."""
        opened = self._opened
        recorded_runs = recorded.runs(opened) if self._is_asked else ()
        return LazyList(len(recorded_runs), lambda index: Run(opened, recorded_runs[index]))

    @cached_property
    def steps(self) -> LazyList[ExecutionStep]:
        """The steps of all runs, one run after the other."""
        runs = self.runs
        ends = list(accumulate(len(run.steps) for run in runs))

        def make(index: int) -> ExecutionStep:
            which = bisect_right(ends, index)
            before = ends[which - 1] if which else 0
            return runs[which].steps[index - before]

        return LazyList(ends[-1] if ends else 0, make, is_kept=False)

    @property
    def totalCycles(self) -> TotalCycles:
        """Cycles over all runs; 0 when there was none."""
        return TotalCycles(execution(self._opened).total_cycles if self._is_asked else 0)

    def blocks(self, tile: int) -> list[Block]:
        """Return the executions of blocks and stream copies on the IPU of a tile, in order.

        Raises
        ------
        BadQuestion
            When the machine has no such tile.
        """
        if not self._is_asked:
            return []
        number = tile_range(self._opened, ("tile", tile)).start
        ipu_id = number // target(self._opened).tiles_per_ipu
        executions = block_executions(self._opened, ipu_id)
        return [Block(self._opened, execution_of_block, tile) for execution_of_block in executions]
