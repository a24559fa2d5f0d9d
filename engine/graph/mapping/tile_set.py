"""The tiles available to operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import whole_numbers
from tilescope.engine.errors import BadGraph
from tilescope.engine.machine import Machine

__all__ = ["TileSet"]


@dataclass(eq=False)
class TileSet:
    """Tiles of a machine that operations spread over, and the start of the next constant.

    Parameters
    ----------
    whole
        The whole machine.
    ids : ndarray of int32, shape (n,)
        The tiles, ascending; the same number on every IPU that has tiles in the set.
    next_start
        Index of the first tile of the next small constant; it advances so that constants do not
        all land on the first tile.
    """

    whole: Machine
    ids: NDArray[np.int32]
    next_start: int = 0

    @classmethod
    def of(cls, machine: Machine, tiles: Sequence[int] | NDArray[np.integer[Any]]) -> TileSet:
        """Return the set of the given tiles of a machine.

        Raises
        ------
        BadGraph
            When tiles do not exist, are repeated or out of order, or are spread unevenly over IPUs.
        """
        ids = np.atleast_1d(whole_numbers("The tiles of a tile set", tiles, np.int32))
        if ids.ndim != 1 or not ids.size or (np.diff(ids) <= 0).any():
            raise BadGraph("The tiles of a tile set must ascend, with at least one tile")
        if ids[0] < 0 or ids[-1] >= machine.n_tiles:
            raise BadGraph(
                f"A tile set has tiles {ids[0]} to {ids[-1]}, but the machine has tiles 0 to"
                f" {machine.n_tiles - 1}"
            )
        tile_set = cls(machine, ids)
        counts = tile_set._tiles_by_ipu
        if np.ptp(counts):
            raise BadGraph(
                f"A tile set has {counts.min()} tiles on one IPU and {counts.max()} on another:"
                " use the same number on every IPU"
            )
        return tile_set

    @cached_property
    def _tiles_by_ipu(self) -> NDArray[np.int64]:
        """Tiles per IPU, of the IPUs in the set: ndarray of int64."""
        counts = np.bincount(self.ids // self.whole.tiles_per_ipu)
        return counts[counts > 0]

    @cached_property
    def machine(self) -> Machine:
        """The machine as seen by operations on these tiles: reduced to their IPUs and tiles."""
        counts = self._tiles_by_ipu
        return replace(self.whole, n_ipus=int(counts.size), tiles_per_ipu=int(counts[0]))

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return int(self.ids.size)

    @cached_property
    def _is_in(self) -> NDArray[np.bool_]:
        is_in = np.zeros(self.whole.n_tiles, dtype=np.bool_)
        is_in[self.ids] = True
        return is_in

    def places(self, tiles: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the places of tiles of the set among its tiles: ndarray of int64."""
        return np.searchsorted(self.ids, tiles).astype(np.int64)

    def has(self, tiles: NDArray[np.integer[Any]]) -> bool:
        """Whether all the given tiles are in the set."""
        return bool(self._is_in[tiles].all())

    def take(self, n_tiles: int) -> int:
        """Return the start of a constant over `n_tiles` tiles; the next one begins after it."""
        start = self.next_start
        self.next_start = (start + n_tiles) % self.n_tiles
        return start
