"""Parts of row-major variables: their edges along every dimension, and their tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.tiling.division import edges_of

__all__ = ["as_rows", "edges_of", "map_parts", "strides_of"]

Counts = NDArray[np.int64]


def map_parts(
    builder: Builder, tensor: Tensor, edges: Sequence[Counts], tile: NDArray[np.int32]
) -> None:
    """Map a row-major variable by rectangular parts.

    Parameters
    ----------
    builder
        Builder of the variable's graph.
    tensor
        A tensor that covers its variable.
    edges
        By dimension, the starts of its parts and the end.
    tile : ndarray of int32
        Tile of every part, one dimension per dimension of the variable.
    """
    shape = tensor.variable.shape
    last = max((d for d, edge in enumerate(edges) if edge.size > 2), default=0)
    start = np.zeros((1,), np.int64)
    part: list[Counts] = []
    for d, edge in enumerate(edges[: last + 1]):
        index = edge[:-1] if d == last else np.arange(shape[d])
        part.append(np.searchsorted(edge, index, side="right") - 1)
        start = (start[:, None] + index * prod(shape[d + 1 :])).reshape(-1)
    outer_tiles = tile.reshape(*tile.shape[: last + 1])  # later dimensions have one part
    builder.graph.set_tile_mapping(tensor, start, outer_tiles[np.ix_(*part)].reshape(-1))


def as_rows(builder: Builder, x: View, dim: int, name: str) -> Tensor:
    """Return a tensor as (outer, dim, inner) with one stride each; copy it if it needs to be."""
    contiguous = in_one(builder, x, name)
    shape = (prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :]))
    if contiguous.can_reshape(*shape):
        rows = contiguous.reshape(*shape)
        if all(len(atom_list) == 1 for atom_list in rows.dims):
            return rows
    return row_major_copy(builder, contiguous, name).reshape(*shape)


def strides_of(tensor: Tensor) -> list[int]:
    """Return the stride of every dimension of a tensor that has one each."""
    return [atom_list[0][1] for atom_list in tensor.dims]
