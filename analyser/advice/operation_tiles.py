"""How an operation lies on the tiles: its code and compute cycles on each, its codelets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.compute_sets import ComputeSetVertices, compute_set_vertices
from tilescope.analyser.program.operations import (
    Operation,
    OperationStep,
    operation_steps,
    programs_of,
)
from tilescope.analyser.summary.tile import busy_cycles
from tilescope.analyser.trace import TileHistogram, tile_histogram
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["OperationTiles", "operation_tiles"]


@dataclass(frozen=True)
class OperationTiles:
    """An operation on the tiles.

    Attributes
    ----------
    steps
        Its steps in program order.
    busy_cycles : ndarray of int64, shape (n_tiles,), cycles
        Compute cycles of its steps on every tile, over all recorded runs; of one execution each
        when none was recorded.
    code_bytes : ndarray of int64, shape (n_tiles,), bytes
        Control and exchange code of its programs on every tile.
    vertices
        Codelets of its compute sets, those with the most cycles first; their code is shared with
        other operations.
    """

    steps: tuple[OperationStep, ...]
    busy_cycles: NDArray[np.int64]
    code_bytes: NDArray[np.int64]
    vertices: tuple[ComputeSetVertices, ...]

    @property
    def busiest_tile(self) -> int | None:
        """The first tile with most compute cycles, None if none has any."""
        return int(self.busy_cycles.argmax()) if self.busy_cycles.any() else None

    @property
    def busy_histogram(self) -> TileHistogram:
        """Tiles by their compute cycles; idle ones are counted apart."""
        return tile_histogram(self.busy_cycles)

    @property
    def code_histogram(self) -> TileHistogram:
        """Tiles by their code, bytes; those without any are counted apart."""
        return tile_histogram(self.code_bytes)


def operation_tiles(report: Report, operation: Operation) -> OperationTiles:
    """Return how an operation of the report lies on the tiles."""
    step_ids = operation_steps(report, operation)
    programs = (
        {step.program_id for step in step_ids}
        if operation.step_id is not None
        else set(programs_of(report, operation.debug_context_id))
    )
    compute = [step.step_id for step in step_ids if step.phase == "compute"]
    of_step = report.column(schema.step, "compute_set_id")
    sets = dict.fromkeys(of_step[step_id] for step_id in compute)
    vertices = [
        vertices_of_set
        for number in sets
        for vertices_of_set in compute_set_vertices(report, number)[1]
    ]
    return OperationTiles(
        step_ids,
        busy_cycles(report, compute),
        _code(report, programs),
        tuple(sorted(vertices, key=lambda vertex: -vertex.total_cycles)),
    )


def _code(report: Report, programs: set[int]) -> NDArray[np.int64]:
    """Return the code of some programs on every tile."""
    answer = np.zeros(target(report).n_tiles, dtype=np.int64)
    for program_id, row in report.rows(schema.program, "program_id", "code_pattern_id"):
        if program_id in programs and row is not None:
            answer += pattern(report, "code.pattern", row)
    return answer
