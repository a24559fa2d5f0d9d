"""The compilation part of a report, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pva.absent import WithAbsent
from pva.compute_set import ComputeSet
from pva.lazy import LazyList
from pva.program import Program, program_of
from pva.target import Target
from pva.variable import LoweredVariable, Variable
from tilescope.analyser import liveness, lowered_variables, metrics
from tilescope.analyser import programs as tree
from tilescope.analyser import tile_memory as memory
from tilescope.analyser.machine import target
from tilescope.reports.figures import bytes_past
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY

if TYPE_CHECKING:
    from tilescope.analyser.machine import Source
    from tilescope.reports import Report as Opened

__all__ = [
    "Categories",
    "CategoryMemory",
    "CompilationReport",
    "Gaps",
    "Graph",
    "IpuTiles",
    "LiveMemory",
    "LivenessProgramStep",
    "LoweredVariables",
    "Overlap",
    "Tile",
    "TileMemory",
]


@dataclass(frozen=True)
class Graph:
    """How large the graph is."""

    numComputeSets: int
    numVertices: int
    numEdges: int
    numVars: int


@dataclass(frozen=True)
class Gaps:
    """Memory with and without the gaps between parts, bytes."""

    includingGaps: int
    excludingGaps: int


@dataclass(frozen=True)
class Overlap:
    """Bytes of a category in a region, by whether their parts may share addresses."""

    nonOverlapped: int
    overlapped: int


@dataclass(frozen=True)
class CategoryMemory:
    """Bytes of one category on a tile."""

    nonInterleaved: Overlap
    interleaved: Overlap
    overflowed: Overlap

    @property
    def total(self) -> int:
        """Sum over regions, bytes."""
        regions = (self.nonInterleaved, self.interleaved, self.overflowed)
        return sum(each.nonOverlapped + each.overlapped for each in regions)


class Categories:
    """The categories of a tile as attributes, such as ``vertexCode``."""

    def __init__(self, opened: Opened, tile_id: int) -> None:
        self._opened = opened
        self._tile_id = tile_id

    def __getattr__(self, name: str) -> CategoryMemory:
        if name not in MEMORY_CATEGORY:
            raise AttributeError(f"unknown memory category {name!r}")
        known = memory.categories(self._opened)
        regions = memory.region_memory(self._opened)
        for row, category in enumerate(known):
            if category.name == name:
                held = [int(values[row, self._tile_id]) for values in regions.values()]
                overlaps = [
                    Overlap(0, size) if category.is_overlapped else Overlap(size, 0)
                    for size in held
                ]
                return CategoryMemory(*overlaps)
        return CategoryMemory(Overlap(0, 0), Overlap(0, 0), Overlap(0, 0))

    def __dir__(self) -> list[str]:
        return list(MEMORY_CATEGORY)


class TileMemory(WithAbsent):
    """Memory of a tile, bytes."""

    _absent: ClassVar[dict[str, str]] = {"vertices": "the codelets of each tile"}

    def __init__(self, opened: Opened, tile_id: int) -> None:
        self._opened = opened
        self._tile_id = tile_id
        self.category = Categories(opened, tile_id)

    @property
    def total(self) -> Gaps:
        """All memory of the tile."""
        including, excluding = (
            memory.tile_memory(self._opened, "none", gaps).total_bytes for gaps in (True, False)
        )
        return Gaps(int(including[self._tile_id]), int(excluding[self._tile_id]))

    @property
    def overflowed(self) -> Gaps:
        """Memory past the tile's capacity."""
        capacity = target(self._opened).capacity_bytes
        used = self.total
        past = bytes_past(np.array([used.includingGaps, used.excludingGaps]), capacity)
        return Gaps(int(past[0]), int(past[1]))

    @property
    def alwaysLiveBytes(self) -> int:
        """Memory that is live at every step."""
        return self._liveness("Always live")

    @property
    def notAlwaysLiveBytes(self) -> int:
        """Memory that is live but not always, at the tile's worst step."""
        return self._liveness("Not always live")

    def _liveness(self, label: str) -> int:
        """Return a series of the breakdown by liveness, on this tile."""
        return int(memory.tile_memory(self._opened, "liveness").series[label][self._tile_id])


class Tile:
    """A tile."""

    def __init__(self, opened: Opened, tile_id: int) -> None:
        self.memory = TileMemory(opened, tile_id)


class IpuTiles:
    """An IPU with its tiles."""

    def __init__(self, opened: Opened, ipu_id: int) -> None:
        size = target(opened).tiles_per_ipu
        self.tiles = LazyList(size, lambda index: Tile(opened, ipu_id * size + index))


class LiveMemory:
    """Memory that is live at a step, and the variables that hold it."""

    def __init__(self, opened: Opened, step: int, source: Source) -> None:
        self._opened = opened
        self._step = step
        self._source = source

    @property
    def bytes(self) -> int:
        """Not-always-live memory, bytes."""
        curve = liveness.curve(self._opened, self._source)
        return int(curve.not_always_live_bytes[self._step])

    @property
    def variables(self) -> list[Variable]:
        """Variables that are live but not always, largest first."""
        return _variables(liveness.step_variables(self._opened, self._step, self._source))


class LivenessProgramStep:
    """A step of the liveness report."""

    def __init__(self, opened: Opened, step: int) -> None:
        self._opened = opened
        self._step = step

    @property
    def program(self) -> Program:
        """The program of the step."""
        program_id = liveness.step_program(self._opened, self._step)
        return program_of(self._opened, tree.program(self._opened, program_id))

    @property
    def notAlwaysLiveMemory(self) -> LiveMemory:
        """On all tiles."""
        return LiveMemory(self._opened, self._step, "all")

    def notAlwaysLiveMemoryForIpu(self, ipu_id: int) -> LiveMemory:
        """On one IPU."""
        return LiveMemory(self._opened, self._step, ("ipu", ipu_id))

    def notAlwaysLiveMemoryForTile(self, tile_id: int) -> LiveMemory:
        """On one tile."""
        return LiveMemory(self._opened, self._step, ("tile", tile_id))


class LoweredVariables(WithAbsent):
    """The parts of variables on tiles."""

    _absent: ClassVar[dict[str, str]] = {"allBriefVars": "equivalence classes of lowered variables"}

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def forTile(self, tile_id: int) -> list[LoweredVariable]:
        """Return the parts on a tile by address."""
        found = lowered_variables.tile_variables(self._opened, tile_id)
        return [
            LoweredVariable(
                int(found.variable_id[each]),
                found.name[each],
                int(found.bytes[each]),
                int(found.offset_bytes[each]),
                bool(found.is_always_live[each]),
                Variable(found.name[each], int(found.variable_bytes[each])),
            )
            for each in range(len(found))
        ]


class CompilationReport(WithAbsent):
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
        return LazyList(target(self._opened).n_tiles, lambda index: Tile(self._opened, index))

    @cached_property
    def ipus(self) -> list[IpuTiles]:
        """IPUs of one replica."""
        return [IpuTiles(self._opened, ipu_id) for ipu_id in range(target(self._opened).n_ipus)]

    @cached_property
    def programs(self) -> LazyList[Program]:
        """All programs, parents before their children."""
        nodes = list(tree.all_programs(self._opened).values())
        return LazyList(len(nodes), lambda index: program_of(self._opened, nodes[index]))

    @cached_property
    def computeSets(self) -> LazyList[ComputeSet]:
        """All compute sets."""
        found = tree.compute_sets(self._opened)

        def make(index: int) -> ComputeSet:
            each = found[index]
            name, vertices = tree.compute_set_vertices(self._opened, each.compute_set_id)
            return ComputeSet(self._opened, name or "", vertices, each.step_id)

        return LazyList(len(found), make)

    @cached_property
    def livenessProgramSteps(self) -> LazyList[LivenessProgramStep]:
        """Steps of the liveness report."""
        return LazyList(
            len(liveness.curve(self._opened)),
            lambda index: LivenessProgramStep(self._opened, index),
        )

    @property
    def alwaysLiveVariables(self) -> list[Variable]:
        """What is live at every step, code and state included, largest first."""
        return _variables(liveness.always_live_variables(self._opened))

    def alwaysLiveVariablesForTile(self, tile_id: int) -> list[Variable]:
        """Return what is live at every step on one tile, largest first."""
        return _variables(liveness.always_live_variables(self._opened, ("tile", tile_id)))

    @property
    def loweredVariables(self) -> LoweredVariables:
        """The parts of variables on tiles."""
        return LoweredVariables(self._opened)


def _variables(found: liveness.LiveVariables) -> list[Variable]:
    """Return variables with their sizes."""
    return [
        Variable(name, size) for name, size in zip(found.name, found.bytes.tolist(), strict=True)
    ]
