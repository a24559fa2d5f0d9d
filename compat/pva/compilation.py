"""The compilation part of a report, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pva.compute_set import ComputeSet, compute_set_of
from pva.explained import Explained
from pva.lazy import LazyList
from pva.liveness import LivenessProgramStep, variables_of
from pva.lowered import LoweredVariables
from pva.memory import IpuTiles, Tile
from pva.program import Program, program_of
from pva.target import Target
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory import liveness
from tilescope.analyser.program.compute_sets import compute_sets
from tilescope.analyser.program.programs import unique_programs
from tilescope.analyser.summary import metrics

if TYPE_CHECKING:
    from pva.variable import Variable
    from tilescope.reports import Report as Opened

__all__ = ["CompilationReport", "Graph"]


@dataclass(frozen=True)
class Graph:
    """How large the graph is."""

    numComputeSets: int
    numVertices: int
    numEdges: int
    numVars: int


class CompilationReport(Explained):
    """What the compiler made."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @cached_property
    def target(self) -> Target:
        """The machine."""
        return Target(target(self._opened))

    @cached_property
    def graph(self) -> Graph:
        """How large the graph is."""
        names = ("graph.compute_sets", "graph.vertices", "graph.edges", "graph.variables")
        counts = [metrics.METRICS[name].compute(self._opened) for name in names]
        return Graph(*(int(count or 0) for count in counts))

    @cached_property
    def tiles(self) -> LazyList[Tile]:
        """Tiles of one replica."""
        opened = self._opened
        return LazyList(target(opened).n_tiles, lambda index: Tile(opened, index))

    @cached_property
    def ipus(self) -> LazyList[IpuTiles]:
        """IPUs of one replica."""
        opened = self._opened
        return LazyList(target(opened).n_ipus, lambda index: IpuTiles(opened, index))

    @cached_property
    def programs(self) -> LazyList[Program]:
        """All programs, each once, parents before their children."""
        opened, ids = self._opened, list(unique_programs(self._opened))
        return LazyList(len(ids), lambda index: program_of(opened, ids[index]))

    @cached_property
    def computeSets(self) -> LazyList[ComputeSet]:
        """All compute sets."""
        opened = self._opened
        return LazyList(len(compute_sets(opened)), lambda index: compute_set_of(opened, index))

    @cached_property
    def livenessProgramSteps(self) -> LazyList[LivenessProgramStep]:
        """Steps of the liveness report."""
        opened, n_steps = self._opened, len(liveness.curve(self._opened))
        return LazyList(n_steps, lambda index: LivenessProgramStep(opened, index))

    @property
    def alwaysLiveVariables(self) -> list[Variable]:
        """What is live at every step, code and state included, largest first."""
        return variables_of(liveness.always_live_variables(self._opened))

    def alwaysLiveVariablesForTile(self, tile_id: int) -> list[Variable]:
        """Return what is live at every step on one tile, largest first."""
        return variables_of(liveness.always_live_variables(self._opened, ("tile", tile_id)))

    @cached_property
    def loweredVariables(self) -> LoweredVariables:
        """The parts of variables on tiles."""
        return LoweredVariables(self._opened)
