"""A copy of a view without its variables: its order in memory and its tiles."""

from __future__ import annotations

from dataclasses import dataclass

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
        Of the variable, outermost dimension first.
    order
        Dimensions of the view in order of memory.
    start, tile : ndarray of int64, ndarray of int32
        Intervals of the variable and their tiles, ascending from 0.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    start: NDArray[np.int64]
    tile: NDArray[np.int32]

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return int(np.unique(self.tile).size)

    def as_view(self, tensor: Tensor) -> Tensor:
        """Return a variable of that shape under the dimensions of the view."""
        return tensor.dim_shuffle(*np.argsort(self.order).tolist())


def clone_layout(view: View) -> CloneLayout:
    """Return the layout of a copy: dimensions from the largest stride to the smallest.

    A view that joins several variables, or aliases elements, is row-major.

    Raises
    ------
    BadGraph
        If a variable has no mapping yet.
    """
    order = tuple(range(len(view.shape)))
    if isinstance(view, Tensor) and all(stride for size, stride in view.atoms if size > 1):
        strides = [abs(dim[0][1]) if dim else 0 for dim in view.dims]
        order = tuple(sorted(order, key=lambda d: -strides[d]))
    in_memory_order = view.dim_shuffle(*order)
    mapping = tile_mapping_of(in_memory_order)
    by_start = np.argsort(mapping.start)
    shape = tuple(in_memory_order.shape)
    return CloneLayout(shape, order, mapping.start[by_start], mapping.tile[by_start])
