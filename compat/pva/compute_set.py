"""Compute sets, their vertices and their cycles, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pva.absent import WithAbsent
from tilescope.analyser import programs as tree
from tilescope.analyser.execution import costs
from tilescope.analyser.machine import target
from tilescope.analyser.runs import tile_cycles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.analyser.programs import ComputeSetVertices, ProgramNode
    from tilescope.reports import Report as Opened

__all__ = ["ComputeSet", "ComputeSetVertex", "VertexType", "compute_set_of", "step_cycles_by_tile"]


@dataclass(frozen=True)
class VertexType:
    """A codelet; ``size`` is the state of one vertex, bytes."""

    name: str
    size: int
    codeBytes: int


class ComputeSetVertex(WithAbsent):
    """The vertices of one codelet in a compute set; ``count`` is over all tiles."""

    _absent: ClassVar[dict[str, str]] = {
        "countByTile": "vertices of a compute set on each tile (see count for their number)"
    }

    def __init__(self, row: ComputeSetVertices) -> None:
        self.type = VertexType(
            row.vertex_type, row.state_bytes // max(row.n_vertices, 1), row.code_bytes
        )
        self.count = row.n_vertices
        self.estimatedCycles = row.max_cycles


class ComputeSet:
    """A compute set."""

    def __init__(
        self, opened: Opened, name: str, rows: Sequence[ComputeSetVertices], step_id: int | None
    ) -> None:
        self._opened = opened
        self._step_id = step_id
        self.name = name
        self.vertices = [ComputeSetVertex(row) for row in rows]

    @property
    def estimatedCyclesByTile(self) -> list[int]:
        """Busy cycles of every tile in one execution."""
        return [] if self._step_id is None else step_cycles_by_tile(self._opened, self._step_id)

    def __repr__(self) -> str:
        return f"<ComputeSet {self.name}>"


def compute_set_of(opened: Opened, node: ProgramNode) -> ComputeSet:
    """Return the compute set that a program runs."""
    details = tree.node(opened, node.program_id)
    return ComputeSet(opened, details.compute_set_name or "", details.vertices, node.step_id)


def step_cycles_by_tile(opened: Opened, step_id: int) -> list[int]:
    """Return busy cycles of every tile of a replica in one execution of a step."""
    machine, cost = target(opened), costs(opened).column
    answer = [0] * machine.n_tiles
    for row in (cost["step_id"] == step_id).nonzero()[0]:
        first = int(cost["ipu_id"][row]) * machine.tiles_per_ipu
        cycles = tile_cycles(opened, int(cost["pattern_id"][row]))
        answer[first : first + machine.tiles_per_ipu] = cycles.tolist()
    return answer
