"""Message buffers: one per variable for elements that vertices use but their tile does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.compact import compact
from tilescope.engine.graph.deferred import Deferred

__all__ = ["Messages"]


@dataclass(frozen=True)
class Messages(Deferred):
    """The message buffers of one exchange, sorted by tile.

    Parameters
    ----------
    variable_id, tile, n_bytes : ndarray of integers, shape (n_buffers,)
        Variable whose elements a buffer holds, its tile, and its size, as `compact` stores them.
    """

    deferred: ClassVar = ("variable_id", "tile", "n_bytes")

    variable_id: NDArray[Any]
    tile: NDArray[Any]
    n_bytes: NDArray[Any]

    @classmethod
    def of(cls, variable_id: NDArray[Any], tile: NDArray[Any], n_bytes: NDArray[Any]) -> Messages:
        """Return the buffers with these columns, in few bytes."""
        return cls(compact(variable_id), compact(tile), compact(n_bytes))

    def by_tile(self, n_tiles: int) -> NDArray[np.int64]:
        """Bytes of message buffers on each tile: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.tile, self.n_bytes, n_tiles).astype(np.int64)
