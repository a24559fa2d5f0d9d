"""A copy of a view without its variables: its order in memory and its tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.mapping.mapping import tile_mapping_of
from tilescope.engine.graph.tensor.joined import View
from tilescope.engine.graph.tensor.tensor import Tensor

__all__ = ["CloneLayout", "clone_layout"]


@dataclass(frozen=True)
class CloneLayout:
    """Shape, order and mapping of a variable that lies as a view does.

    Parameters
    ----------
    shape
        Of the variable, outermost dimension first: the atoms of the view in order of memory.
    dims
        Dimensions of the view as atoms of the variable: a size and a stride each.
    start, tile : ndarray of int64, ndarray of int32
        Intervals of the variable and their tiles, ascending from 0.
    """

    shape: tuple[int, ...]
    dims: tuple[tuple[tuple[int, int], ...], ...]
    start: NDArray[np.int64]
    tile: NDArray[np.int32]

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return int(np.unique(self.tile).size)

    def as_view(self, tensor: Tensor) -> Tensor:
        """Return a variable of that shape under the dimensions of the view."""
        return replace(tensor, dims=self.dims)


def clone_layout(view: View) -> CloneLayout:
    """Return the layout of a copy: its elements in the order in which the view's lie in memory.

    A view that joins several variables, or aliases elements, is row-major.

    Raises
    ------
    BadGraph
        If a variable has no mapping yet.
    """
    dims: tuple[tuple[tuple[int, int], ...], ...] = tuple(((size, 0),) for size in view.shape)
    order = [(d, 0) for d in range(len(dims))]
    in_memory_order: View = view
    if isinstance(view, Tensor) and all(stride for size, stride in view.atoms if size > 1):
        dims = view.dims
        order = [(d, i) for d, atoms in enumerate(dims) for i in range(len(atoms))]
        order.sort(key=lambda place: -abs(dims[place[0]][place[1]][1]))
        in_memory_order = replace(view, dims=tuple((dims[d][i],) for d, i in order))
    shape = tuple(in_memory_order.shape)
    strides = {place: prod(shape[n + 1 :]) for n, place in enumerate(order)}
    cloned = tuple(
        tuple((size, strides[d, i]) for i, (size, _) in enumerate(atoms))
        for d, atoms in enumerate(dims)
    )
    mapping = tile_mapping_of(in_memory_order)
    by_start = np.argsort(mapping.start)
    return CloneLayout(shape, cloned, mapping.start[by_start], mapping.tile[by_start])
