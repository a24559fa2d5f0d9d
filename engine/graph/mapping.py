"""Which tile holds which elements of a tensor, as intervals in its logical order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadGraph
from engine.graph.tensor import Tensor

__all__ = ["TileMapping", "tile_mapping_of"]


@dataclass(frozen=True)
class TileMapping:
    """Intervals of a tensor's elements, sorted by tile and start.

    Parameters
    ----------
    tile : ndarray of int32, shape (n,)
        Where each interval lies.
    start, end : ndarray of int64, shape (n,)
        Elements in the tensor's logical order, half-open.
    """

    tile: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def intervals(self, tile_id: int) -> list[tuple[int, int]]:
        """Return the intervals of one tile, ascending; none when it holds nothing."""
        low, high = np.searchsorted(self.tile, [tile_id, tile_id + 1])
        return list(zip(self.start[low:high].tolist(), self.end[low:high].tolist(), strict=True))

    def elements_by_tile(self, n_tiles: int) -> NDArray[np.int64]:
        """Return how many elements each tile holds: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.tile, self.end - self.start, n_tiles).astype(np.int64)


def _runs(tensor: Tensor) -> tuple[NDArray[np.int64], int]:
    """Return the elements at which contiguous runs begin, in logical order, and their length."""
    atoms = list(tensor.atoms)
    length = atoms.pop()[0] if atoms and atoms[-1][1] == 1 else 1
    first = np.array([tensor.offset], dtype=np.int64)
    for size, stride in atoms:
        first = (first[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return first, length


def tile_mapping_of(tensor: Tensor) -> TileMapping:
    """Return where the elements of a tensor lie.

    Raises
    ------
    BadGraph
        When its variable has no mapping yet.
    """
    variable = tensor.variable
    if not variable.is_mapped:
        raise BadGraph(
            f"Variable {variable.name!r} has no tile mapping yet: give it one with"
            " set_tile_mapping or map_linearly"
        )
    first, length = _runs(tensor)
    entry = np.searchsorted(variable.map_start, first, side="right") - 1
    last = np.searchsorted(variable.map_start, first + length - 1, side="right") - 1
    # A run is cut wherever the variable's tile changes within it.
    count = last - entry + 1
    run = np.repeat(np.arange(first.size), count)
    nth = np.arange(run.size) - np.repeat(np.cumsum(count) - count, count)
    begins = np.maximum(variable.map_start[entry[run] + nth], first[run])
    start = run * length + begins - first[run]
    tile = variable.map_tile[entry[run] + nth]
    # Neighbours on one tile are one interval.
    keep = np.append(True, tile[1:] != tile[:-1])
    start, tile = start[keep], tile[keep]
    end = np.append(start[1:], tensor.n_elements)
    order = np.argsort(tile, kind="stable")
    return TileMapping(tile[order], start[order], end[order])
