"""Memory of tiles, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pva.entry import Entry
from pva.explained import Explained
from pva.lazy import LazyList
from pva.vertex import TileVertex
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory import tile_memory as memory
from tilescope.analyser.program.compute_sets import tile_vertices
from tilescope.reports.figures import bytes_past
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["Categories", "CategoryMemory", "Gaps", "IpuTiles", "Overlap", "Tile", "TileMemory"]


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
        return sum(region.nonOverlapped + region.overlapped for region in regions)


class Categories(Explained):
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


class TileMemory(Entry):
    """Memory of a tile, bytes."""

    def __init__(self, opened: Opened, tile_id: int) -> None:
        super().__init__(opened, tile_id)
        self._tile_id = tile_id

    @property
    def category(self) -> Categories:
        """The categories as attributes, such as ``vertexCode``."""
        return Categories(self._opened, self._tile_id)

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

    @property
    def vertices(self) -> list[TileVertex]:
        """The codelets on the tile, by name."""
        return [TileVertex(vertices) for vertices in tile_vertices(self._opened, self._tile_id)]

    def _liveness(self, label: str) -> int:
        """Return a series of the breakdown by liveness, on this tile."""
        return int(memory.tile_memory(self._opened, "liveness").series[label][self._tile_id])


class Tile(Entry):
    """A tile."""

    def __init__(self, opened: Opened, tile_id: int) -> None:
        super().__init__(opened, tile_id)
        self.memory = TileMemory(opened, tile_id)

    def __repr__(self) -> str:
        return f"<Tile {self._identity[0]}>"


class IpuTiles(Entry):
    """An IPU with its tiles."""

    def __init__(self, opened: Opened, ipu_id: int) -> None:
        super().__init__(opened, ipu_id)
        size = target(opened).tiles_per_ipu
        self.tiles = LazyList(size, lambda index: Tile(opened, ipu_id * size + index))

    def __repr__(self) -> str:
        return f"<IpuTiles {self._identity[0]}>"
