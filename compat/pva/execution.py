"""The execution part of a report, by libpva's names."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from pva.absent import WithAbsent
from pva.compute_set import step_cycles_by_tile
from pva.lazy import LazyList
from pva.program import Program, program_of
from tilescope.analyser import programs as tree
from tilescope.analyser import runs as recorded
from tilescope.analyser.execution import costs, execution, steps
from tilescope.analyser.machine import target

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = [
    "CycleRange",
    "CycleSpan",
    "ExecutedComputeSet",
    "ExecutionReport",
    "ExecutionStep",
    "IpuStep",
    "Microseconds",
    "Run",
    "TotalCycles",
]


@dataclass(frozen=True)
class CycleRange:
    """The least and the most over tiles, cycles."""

    min: int
    max: int


@dataclass(frozen=True)
class CycleSpan:
    """When tiles begin and end, cycles."""

    cyclesFrom: CycleRange
    cyclesTo: CycleRange


@dataclass(frozen=True)
class Microseconds:
    """Wall-clock times; 0, as on libpva's IPU model: the machine is simulated."""

    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class TotalCycles:
    """Cycles over all runs."""

    total: int


class IpuStep:
    """One execution of a step on one IPU; an IPU that takes no part has 0 cycles."""

    def __init__(self, opened: Opened, executed: recorded.Executed, row: int, ipu_id: int) -> None:
        self._opened = opened
        self._step_id = int(executed.step_id[row])
        self._ipu_id = ipu_id
        self._start = int(executed.start_cycle[row, ipu_id])
        self._end = int(executed.end_cycle[row, ipu_id])
        self._pattern_id = int(executed.pattern_id[row, ipu_id])

    @property
    def cycles(self) -> int:
        """Time of the step on this IPU, cycles."""
        return self._end - self._start

    @property
    def activeCycles(self) -> CycleSpan:
        """When the tiles that have work begin and end."""
        active = [each for each in self.cyclesByTile if each]
        if not active:
            return self.allCycles
        start = CycleRange(self._start, self._start)
        return CycleSpan(start, CycleRange(self._start + min(active), self._start + max(active)))

    @property
    def allCycles(self) -> CycleSpan:
        """When the step begins and ends."""
        return CycleSpan(CycleRange(self._start, self._start), CycleRange(self._end, self._end))

    @property
    def cyclesByTile(self) -> list[int]:
        """Busy cycles of the IPU's tiles."""
        if self._pattern_id < 0:
            return [0] * target(self._opened).tiles_per_ipu
        cycles: list[int] = recorded.tile_cycles(self._opened, self._pattern_id).tolist()
        return cycles

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
        """Mean over maximum of the tiles' cycles, 0 to 1; 0 where no tile computes."""
        cycles = self.cyclesByTile
        return sum(cycles) / (len(cycles) * max(cycles)) if max(cycles) else 0.0

    @property
    def activeTileBalance(self) -> float:
        """The same over tiles that have work."""
        active = [each for each in self.cyclesByTile if each]
        return sum(active) / (len(active) * max(active)) if active else 0.0

    def _cost(self, name: str) -> int:
        """Return a column of the step's cost on this IPU; 0 if it takes no part."""
        cost = costs(self._opened).column
        is_this = (cost["step_id"] == self._step_id) & (cost["ipu_id"] == self._ipu_id)
        return int(cost[name][is_this].sum()) if self._pattern_id >= 0 else 0


class ExecutedComputeSet:
    """A compute set as it ran."""

    def __init__(self, opened: Opened, name: str, step_id: int, cycles: list[int]) -> None:
        self._opened = opened
        self._step_id = step_id
        self.name = name
        self.cyclesByTile = cycles

    @property
    def estimatedCyclesByTile(self) -> list[int]:
        """Busy cycles of every tile that the compiler expected."""
        return step_cycles_by_tile(self._opened, self._step_id)


class ExecutionStep(WithAbsent):
    """One execution of a step over all IPUs."""

    def __init__(self, opened: Opened, run_id: int, row: int) -> None:
        self._opened = opened
        self._executed = recorded.executed(opened, run_id)
        self._row = row

    @property
    def program(self) -> Program:
        """The program that ran."""
        program_id = int(steps(self._opened).program_id[self._step_id])
        return program_of(self._opened, tree.program(self._opened, program_id))

    @property
    def ipus(self) -> list[IpuStep]:
        """What each IPU did."""
        return [
            IpuStep(self._opened, self._executed, self._row, ipu_id)
            for ipu_id in range(target(self._opened).n_ipus)
        ]

    @property
    def cyclesByTile(self) -> list[int]:
        """Busy cycles of every tile; 0 without work."""
        return [cycles for ipu in self.ipus for cycles in ipu.cyclesByTile]

    @property
    def computeSets(self) -> list[ExecutedComputeSet]:
        """The compute set that ran, if it was one."""
        details = tree.node(self._opened, int(steps(self._opened).program_id[self._step_id]))
        if details.compute_set_name is None:
            return []
        name, cycles = details.compute_set_name, self.cyclesByTile
        return [ExecutedComputeSet(self._opened, name, self._step_id, cycles)]

    @property
    def _step_id(self) -> int:
        """The step that ran."""
        return int(self._executed.step_id[self._row])


class Run:
    """A recorded call of the engine."""

    def __init__(self, opened: Opened, run: recorded.Run) -> None:
        self._opened = opened
        self._run = run
        self.name = run.name
        self.microseconds = Microseconds()
        self.cyclesByIpu = list(run.cycles_by_ipu)

    @cached_property
    def steps(self) -> LazyList[ExecutionStep]:
        """Every execution of a step, loops written out, in order of their start."""
        run_id = self._run.run_id
        return LazyList(
            len(recorded.executed(self._opened, run_id)),
            lambda index: ExecutionStep(self._opened, run_id, index),
        )


class ExecutionReport(WithAbsent):
    """What ran."""

    _absent: ClassVar[dict[str, str]] = {"blocks": "blocks of lightweight profiling"}

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @cached_property
    def runs(self) -> list[Run]:
        """The recorded runs."""
        return [Run(self._opened, run) for run in recorded.runs(self._opened)]

    @cached_property
    def steps(self) -> LazyList[ExecutionStep]:
        """The steps of all runs, one run after the other."""
        ends = list(accumulate(len(run.steps) for run in self.runs))

        def make(index: int) -> ExecutionStep:
            which = bisect_right(ends, index)
            before = ends[which - 1] if which else 0
            return self.runs[which].steps[index - before]

        return LazyList(ends[-1] if ends else 0, make)

    @property
    def totalCycles(self) -> TotalCycles:
        """Cycles over all runs; 0 when there was none."""
        return TotalCycles(execution(self._opened).total_cycles)
