"""The tile mapping of a tensor, as intervals in its logical order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.tensor.joined import View
from tilescope.engine.graph.tensor.tensor import Tensor

__all__ = ["TileMapping", "intervals_of", "runs_of", "tile_mapping_of"]


@dataclass(frozen=True)
class TileMapping:
    """Intervals of a tensor's elements, sorted by tile and start.

    Parameters
    ----------
    tile : ndarray of int32, shape (n,)
        Tile of each interval.
    start, end : ndarray of int64, shape (n,)
        Elements in the tensor's logical order, half-open.
    """

    tile: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def intervals(self, tile_id: int) -> list[tuple[int, int]]:
        """Return the intervals on one tile, ascending; empty if it holds none."""
        low, high = np.searchsorted(self.tile, [tile_id, tile_id + 1])
        return list(zip(self.start[low:high].tolist(), self.end[low:high].tolist(), strict=True))

    def elements_by_tile(self, n_tiles: int) -> NDArray[np.int64]:
        """Return the number of elements on each tile: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.tile, self.end - self.start, n_tiles).astype(np.int64)


def runs_of(tensor: Tensor) -> tuple[NDArray[np.int64], int]:
    """Return the first elements of the contiguous runs, in logical order, and their length."""
    atoms = list(tensor.atoms)
    length = atoms.pop()[0] if atoms and atoms[-1][1] == 1 else 1
    first = np.array([tensor.offset], dtype=np.int64)
    for size, stride in atoms:
        first = (first[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return first, length


def _in_order(tensor: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the starts of single-tile intervals, in logical order, and their tiles.

    Raises
    ------
    BadGraph
        When the variable has no mapping yet.
    """
    variable = tensor.variable
    variable.check_mapped()
    first, length = runs_of(tensor)
    entry = variable.map_start.searchsorted(first, side="right") - 1
    run = np.arange(first.size)
    if length == 1:
        return run, variable.map_tile[entry]
    # A run is split wherever the variable's tile changes within it: few are.
    is_split = variable.map_end[entry] < first + length
    if not is_split.any():
        return run * length, variable.map_tile[entry]
    count = np.ones_like(entry)
    ends = first[is_split] + length - 1
    last = variable.map_start.searchsorted(ends, side="right") - 1
    count[is_split] = last - entry[is_split] + 1
    run = run.repeat(count)
    nth = np.arange(run.size) - (count.cumsum() - count)[run]
    entry = entry[run] + nth
    begins = np.maximum(variable.map_start[entry], first[run])
    return run * length + begins - first[run], variable.map_tile[entry]


def _leaves(view: View, origin: tuple[int, ...]) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
    """Yield the single-variable views, each with the index of its first element in the whole."""
    if isinstance(view, Tensor):
        yield view, origin
        return
    corner = list(origin)
    for part in view.parts:
        yield from _leaves(part, tuple(corner))
        corner[view.dim] += part.shape[view.dim]


def _in_whole(
    leaf: Tensor, origin: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the intervals of a part like `_in_order`, in the logical order of the whole."""
    start, tile = _in_order(leaf)
    # Up to the last dimension in which the part is smaller, its rows are not adjacent in the whole.
    n_outer = max((d for d, n in enumerate(leaf.shape) if n != shape[d]), default=0)
    row = prod(leaf.shape[n_outer:])
    cuts = np.union1d(start, np.arange(0, leaf.n_elements, row))
    tile = tile[np.searchsorted(start, cuts, side="right") - 1]
    outer = np.unravel_index(cuts // row, leaf.shape[:n_outer]) if n_outer else ()
    position = np.full_like(
        cuts, sum(coordinate * prod(shape[d + 1 :]) for d, coordinate in enumerate(origin))
    )
    for d, index in enumerate(outer):
        position += index * prod(shape[d + 1 :])
    return position + cuts % row, tile


def intervals_of(view: View) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the starts of the intervals of a tensor, ascending, and their tiles.

    Raises
    ------
    BadGraph
        When a variable has no mapping yet.
    """
    if isinstance(view, Tensor):
        start, tile = _in_order(view)
    else:
        intervals = [
            _in_whole(leaf, origin, view.shape)
            for leaf, origin in _leaves(view, (0,) * len(view.shape))
        ]
        start = np.concatenate([starts for starts, _ in intervals])
        order = np.argsort(start)
        start = start[order]
        tile = np.concatenate([tiles for _, tiles in intervals])[order]
    # Adjacent intervals on one tile are merged.
    keep = np.ones(tile.size, np.bool_)
    keep[1:] = tile[1:] != tile[:-1]
    return start[keep], tile[keep]


def tile_mapping_of(view: View) -> TileMapping:
    """Return the tiles of a tensor's elements.

    Raises
    ------
    BadGraph
        When a variable has no mapping yet.
    """
    start, tile = intervals_of(view)
    end = np.append(start[1:], view.n_elements)
    order = np.argsort(tile, kind="stable")
    return TileMapping(tile[order], start[order], end[order])
