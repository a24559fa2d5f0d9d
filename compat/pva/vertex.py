"""Vertices by codelet, in a compute set or on a tile, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pva.entry import Entry
from tilescope.analyser.program.compute_sets import vertices_by_tile

if TYPE_CHECKING:
    from tilescope.analyser.program.compute_sets import ComputeSetVertices
    from tilescope.analyser.program.compute_sets import TileVertices as OnTile
    from tilescope.reports import Report as Opened

__all__ = ["ComputeSetVertex", "TileVertex", "VertexType"]


@dataclass(frozen=True)
class VertexType:
    """A codelet; ``size`` is the state of one vertex, bytes."""

    name: str
    size: int
    codeBytes: int


class ComputeSetVertex(Entry):
    """The vertices of one codelet in a compute set; ``count`` is over all tiles."""

    def __init__(self, opened: Opened, identity: tuple[int, int], row: ComputeSetVertices) -> None:
        super().__init__(opened, *identity)
        self.type = VertexType(
            row.vertex_type, row.state_bytes // max(row.n_vertices, 1), row.code_bytes
        )
        self.count = row.n_vertices
        self.estimatedCycles = row.max_cycles

    @property
    def countByTile(self) -> list[int]:
        """Number of vertices on every tile."""
        found = vertices_by_tile(self._opened, self._identity[0], self.type.name)
        counts: list[int] = found.tolist()
        return counts

    def __repr__(self) -> str:
        return f"<ComputeSetVertex {self.type.name} x {self.count}>"


class TileVertex:
    """The vertices of one codelet on a tile; ``codeBytes`` is its code, there once."""

    def __init__(self, on_tile: OnTile) -> None:
        self.type = VertexType(
            on_tile.vertex_type,
            on_tile.state_bytes // max(on_tile.n_vertices, 1),
            on_tile.code_bytes,
        )
        self.count = on_tile.n_vertices
        self.codeBytes = on_tile.code_bytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TileVertex) and (other.type, other.count) == (
            self.type,
            self.count,
        )

    def __hash__(self) -> int:
        return hash((self.type, self.count))

    def __repr__(self) -> str:
        return f"<TileVertex {self.type.name} x {self.count}>"
