"""Compute sets and their cycles, by libpva's names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pva.entry import Entry
from pva.occupied import estimated_cycles_by_tile
from pva.vertex import ComputeSetVertex
from tilescope.analyser.program.compute_sets import compute_set_vertices, compute_sets

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["ComputeSet", "compute_set_of"]


class ComputeSet(Entry):
    """A compute set."""

    def __init__(self, opened: Opened, compute_set_id: int, step_id: int | None) -> None:
        super().__init__(opened, compute_set_id)
        self._compute_set_id = compute_set_id
        self._step_id = step_id

    @property
    def name(self) -> str:
        """Debug name."""
        return compute_set_vertices(self._opened, self._compute_set_id)[0] or ""

    @cached_property
    def vertices(self) -> list[ComputeSetVertex]:
        """Its vertices by codelet, slowest first."""
        rows = compute_set_vertices(self._opened, self._compute_set_id)[1]
        return [
            ComputeSetVertex(self._opened, (self._compute_set_id, index), row)
            for index, row in enumerate(rows)
        ]

    @property
    def estimatedCyclesByTile(self) -> list[int]:
        """Cycles of every tile in one execution; 0 without work, empty if nothing runs it."""
        if self._step_id is None:
            return []
        return estimated_cycles_by_tile(self._opened, self._step_id)

    def __repr__(self) -> str:
        return f"<ComputeSet {self.name}>"


def compute_set_of(opened: Opened, index: int) -> ComputeSet:
    """Return a compute set by its place among all of them."""
    compute_set = compute_sets(opened)[index]
    return ComputeSet(opened, compute_set.compute_set_id, compute_set.step_id)
