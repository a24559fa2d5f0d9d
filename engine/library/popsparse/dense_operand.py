"""Dense operands of sparse products: parts of columns after each other, of contiguous rows."""

from __future__ import annotations

from dataclasses import dataclass

from tilescope.engine.graph import DType, Tensor, View
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import copy_to

__all__ = ["DenseLayout"]


@dataclass(frozen=True)
class DenseLayout:
    """A matrix whose columns are in parts, which are after each other, row by row.

    Parameters
    ----------
    n_rows
        Rows of the matrix.
    parts, width
        Parts of its columns, and columns of a part.
    grain
        Rows that stay on one tile.
    """

    n_rows: int
    parts: int
    width: int
    grain: int

    def variable(self, builder: Builder, dtype: DType, name: str) -> Tensor:
        """Add a variable, spread over the tiles, and return the view of the matrix."""
        shape = (self.parts, self.n_rows, self.width)
        dense = builder.graph.add_variable(dtype, shape, name, builder.debug)
        builder.spread(dense, grain=self.grain * self.width)
        return self.matrix(dense)

    def matrix(self, parts: Tensor) -> Tensor:
        """Return the matrix of its parts, shape (parts, n_rows, width)."""
        return parts.dim_shuffle(1, 0, 2).reshape(self.n_rows, self.parts * self.width)

    def of(self, builder: Builder, x: View, name: str = "dense") -> Tensor:
        """Return a matrix in this layout: itself if it lies so, else a copy."""
        if isinstance(x, Tensor) and self._is_layout_of(x):
            return x
        dense = self.variable(builder, x.dtype, name)
        copy_to(builder, x, dense, name)
        return dense

    def _is_layout_of(self, x: Tensor) -> bool:
        atoms = x.refine([[self.n_rows], [self.parts, self.width]])
        if atoms is None:
            return False
        wanted = [[self.width], [self.n_rows * self.width, 1]]
        return all(
            size == 1 or stride == step
            for row, steps in zip(atoms, wanted, strict=True)
            for (size, stride), step in zip(row, steps, strict=True)
        )
