"""The tiles that operations may use."""

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
    """Tiles of a machine that operations are spread over, and where the next constant begins.

    Parameters
    ----------
    whole
        The whole machine.
    ids : ndarray of int32, shape (n,)
        The tiles, ascending; the same number on every IPU that has any.
    next_start
        Index of the tile at which the next small constant begins, so that not all of them lie on
        the first one.
    """

    whole: Machine
    ids: NDArray[np.int32]
    next_start: int = 0

    @classmethod
    def of(cls, machine: Machine, tiles: Sequence[int] | NDArray[np.integer[Any]]) -> TileSet:
        """Return the set of some tiles of a machine.

        Raises
        ------
        BadGraph
            When tiles are missing from the machine, repeated, out of order, or unevenly spread.
        """
        ids = np.atleast_1d(whole_numbers("The tiles of a tile set", tiles, np.int32))
        if ids.ndim != 1 or not ids.size or (np.diff(ids) <= 0).any():
            raise BadGraph("The tiles of a tile set must ascend, and there must be at least one")
        if ids[0] < 0 or ids[-1] >= machine.n_tiles:
            raise BadGraph(
                f"A tile set has tiles {ids[0]} to {ids[-1]}, but the machine has tiles 0 to"
                f" {machine.n_tiles - 1}"
            )
        made = cls(machine, ids)
        counts = made._tiles_by_ipu
        if np.ptp(counts):
            raise BadGraph(
                f"A tile set has {counts.min()} tiles on one IPU and {counts.max()} on another:"
                " take the same number on every IPU"
            )
        return made

    @cached_property
    def _tiles_by_ipu(self) -> NDArray[np.int64]:
        """Tiles of each IPU that has any: ndarray of int64."""
        counts = np.bincount(self.ids // self.whole.tiles_per_ipu)
        return counts[counts > 0]

    @cached_property
    def machine(self) -> Machine:
        """The machine as operations on these tiles see it: with their IPUs and tiles only."""
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

    def has(self, tiles: NDArray[np.integer[Any]]) -> bool:
        """Whether all the given tiles are in the set."""
        return bool(self._is_in[tiles].all())

    def take(self, n_tiles: int) -> int:
        """Return where a constant over so many tiles begins; the next one begins behind it."""
        start = self.next_start
        self.next_start = (start + n_tiles) % self.n_tiles
        return start
