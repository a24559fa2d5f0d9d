"""The number of a view's elements on each tile, without listing its runs in logical order."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View
from tilescope.engine.graph.mapping.mapping import tile_mapping_of
from tilescope.engine.intervals.runs import split_by_owner, union_runs

__all__ = ["elements_by_tile"]

_MOST_DIMS = 8


def elements_by_tile(view: View, n_tiles: int) -> NDArray[np.int64]:
    """Return how many elements of a view lie on each tile: ndarray of int64, shape (n_tiles,).

    An element repeated by a broadcast counts once per repetition.

    Raises
    ------
    RunFailed
        When it has more separate runs than fit into the host's memory.
    """
    total = np.zeros(n_tiles, np.int64)
    for tensor in view.pieces:
        total += _of_piece(tensor, n_tiles)
    return total


def _of_piece(tensor: Tensor, n_tiles: int) -> NDArray[np.int64]:
    """Return the number of elements per tile of a view on one variable."""
    variable = tensor.variable
    atoms = [atom for atom in tensor.atoms if atom[1] != 0]
    if len(atoms) > _MOST_DIMS:
        return tile_mapping_of(tensor).elements_by_tile(n_tiles)
    dims = np.array(atoms or [(1, 1)], np.int64)
    where = f"A copy of {variable.name!r} would"
    _, start, length = union_runs(
        np.array([tensor.offset]),
        dims[None, :, 0].copy(),
        dims[None, :, 1].copy(),
        np.zeros(1, np.int32),
        0,
        where,
    )
    # The host is not a tile, so nothing is dropped as local.
    owner, _, _, n_elements = split_by_owner(
        np.full_like(start, -1),
        start,
        length,
        variable.map_start,
        variable.map_tile.astype(np.int64),
        where,
    )
    times = tensor.n_elements // prod(size for size, _ in atoms)
    return np.bincount(owner, n_elements, n_tiles).astype(np.int64) * times
