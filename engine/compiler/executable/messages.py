"""Message buffers: one per variable for elements that vertices use but their tile does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.deferred import Deferred

__all__ = ["Messages"]


@dataclass(frozen=True)
class Messages(Deferred):
    """The message buffers of one exchange, sorted by tile.

    Parameters
    ----------
    variable_id, tile, n_bytes : ndarray of int64, shape (n_buffers,)
        Variable whose elements a buffer holds, its tile, and its size.
    """

    deferred: ClassVar = ("variable_id", "tile", "n_bytes")

    variable_id: NDArray[np.int64]
    tile: NDArray[np.int64]
    n_bytes: NDArray[np.int64]

    def by_tile(self, n_tiles: int) -> NDArray[np.int64]:
        """Bytes of message buffers on each tile: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.tile, self.n_bytes, n_tiles).astype(np.int64)
