"""Matrices whose columns lie in blocks: all rows of a block's columns are contiguous.

A part of a block's rows is then one interval, however many rows there are.
Source: graphcore/poplibs sdk-release-2.0, lib/popops/DynamicSlice.cpp,
createSliceableTensorGivenOrder: "[U/N][S0]..[Sn][N]".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import DType, Tensor, Variable, View, concat
from tilescope.engine.graph.tensor.tensor import row_major
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.partition import strides_of

__all__ = ["ColumnBlocks", "Matrices", "grid_of"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ColumnBlocks:
    """The order of a matrix's elements in its variable.

    Parameters
    ----------
    n_rows
        Rows of the matrix.
    edges : ndarray of int64, shape (n_blocks + 1,)
        Starts of the blocks of columns, and the end. All blocks but the last are equal.
    """

    n_rows: int
    edges: Counts

    @property
    def n_columns(self) -> int:
        """Columns of the matrix."""
        return int(self.edges[-1])

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.edges.size - 1

    @cached_property
    def width(self) -> Counts:
        """Columns of every block: ndarray of int64, shape (n_blocks,)."""
        return np.diff(self.edges)

    @property
    def is_even(self) -> bool:
        """Whether all blocks are equal, so that a matrix is a plain tensor."""
        return bool(self.width[-1] == self.width[0])

    def divides(self, sizes: Sequence[int]) -> bool:
        """Return whether the columns are a view of dimensions of these sizes."""
        if len(sizes) == 1:
            return True
        width = int(self.width[0])
        inner = [prod(sizes[d:]) for d in range(1, len(sizes))]
        return self.is_even and all(n % width == 0 or width % n == 0 for n in inner)

    def start(self, row: Counts, block: Counts) -> Counts:
        """Return the first element of rows of blocks: ndarray of int64."""
        return np.asarray(self.edges[block] * self.n_rows + row * self.width[block])

    def new(
        self,
        builder: Builder,
        dtype: DType,
        name: str,
        mapping: tuple[Counts, NDArray[np.int32]],
        n_matrices: int = 1,
    ) -> Tensor:
        """Return a new variable, all of it in memory order.

        Parameters
        ----------
        builder
            Takes the variable.
        dtype, name
            Of the variable.
        mapping
            Starts and tiles of its intervals.
        n_matrices
            Number of matrices, one after the other.
        """
        shape: tuple[int, ...] = (self.n_rows, self.n_columns)
        if self.is_even:
            shape = (self.n_blocks, self.n_rows, int(self.width[0]))
        shape = (n_matrices, *shape) if n_matrices > 1 else shape
        tensor = builder.graph.add_variable(dtype, shape, name, builder.debug)
        builder.graph.set_tile_mapping(tensor, *mapping)
        return tensor

    def in_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of a matrix as its variable holds them: ndarray, one dimension."""
        n_even = self.n_blocks if self.is_even else self.n_blocks - 1
        n_columns = int(self.edges[n_even])
        even = values[:, :n_columns].reshape(self.n_rows, n_even, -1).transpose(1, 0, 2)
        if n_columns == self.n_columns:
            return even.reshape(-1)  # one copy of what may be large
        return np.concatenate([even.reshape(-1), values[:, n_columns:].reshape(-1)])

    def view(self, variable: Variable) -> View:
        """Return the matrix, (rows, columns), in a variable."""
        n_even = self.n_blocks if self.is_even else self.n_blocks - 1
        parts: list[View] = []
        for first, end in pairwise(sorted({0, n_even, self.n_blocks})):
            n_columns = int(self.edges[end] - self.edges[first])
            dims = row_major((end - first, self.n_rows, n_columns // (end - first)))
            blocks = Tensor(variable, int(self.edges[first]) * self.n_rows, dims)
            parts.append(blocks.dim_shuffle(1, 0, 2).reshape(self.n_rows, n_columns))
        return concat(parts, 1)

    def intervals(self, row_edges: Counts, tile: NDArray[Any]) -> tuple[Counts, NDArray[np.int32]]:
        """Return the starts and tiles of a mapping by parts of rows.

        Parameters
        ----------
        row_edges : ndarray of int64
            Starts of the parts of rows, and the end.
        tile : ndarray of int32, shape (n_parts, n_blocks)
            Tiles of the parts.
        """
        block = np.arange(self.n_blocks)
        start = self.start(row_edges[:-1], block[:, None]).reshape(-1)
        return start, np.asarray(tile.T.reshape(-1), np.int32)

    def holds(self, matrix: View, mapping: tuple[Counts, NDArray[np.int32]]) -> bool:
        """Return whether a matrix lies in this order, whole, with such a mapping."""
        variable = matrix.variables[0]
        if not self.is_order_of(matrix) or not variable.is_mapped:
            return False
        starts, tiles = mapping
        changes = np.append(True, tiles[1:] != tiles[:-1])
        return bool(
            np.array_equal(variable.map_start, starts[changes])
            and np.array_equal(variable.map_tile, tiles[changes])
        )

    def is_order_of(self, matrix: View) -> bool:
        """Return whether a matrix is a whole variable in this order."""
        variable = matrix.variables[0]
        is_whole = variable.n_elements == self.n_rows * self.n_columns
        return len(matrix.variables) == 1 and is_whole and self.view(variable) == matrix


@dataclass(frozen=True)
class Matrices:
    """Where the rows of every group's matrix are.

    Parameters
    ----------
    variable, offset
        Variable, and first element.
    strides
        Elements between groups, rows and columns; those of rows are the widths of the blocks, if
        there are any.
    blocks
        The blocks of columns; None if every dimension has one stride.
    """

    variable: Variable
    offset: int
    strides: tuple[int, int, int]
    blocks: ColumnBlocks | None = None

    @classmethod
    def of(cls, tensor: Tensor) -> Matrices:
        """Return those of a tensor (groups, rows, columns) with one stride each."""
        by_group, by_row, by_column = strides_of(tensor)
        return cls(tensor.variable, tensor.offset, (by_group, by_row, by_column))

    @classmethod
    def in_blocks(cls, variable: Variable, blocks: ColumnBlocks) -> Matrices:
        """Return one matrix whose columns are in blocks."""
        return cls(variable, 0, (0, 0, 1), blocks)

    def start(self, group: Counts, row: Counts, column: Counts) -> Counts:
        """Return the elements at groups, rows and columns: ndarray of int64."""
        if self.blocks is not None:
            block = np.searchsorted(self.blocks.edges, column, side="right") - 1
            within = column - self.blocks.edges[block]
            return np.asarray(self.offset + self.blocks.start(row, block) + within)
        by_group, by_row, by_column = self.strides
        return np.asarray(self.offset + group * by_group + row * by_row + column * by_column)

    def strides_at(self, column: Counts) -> list[Counts | int]:
        """Return the strides of groups, rows and columns where parts begin at columns."""
        by_group, by_row, by_column = self.strides
        if self.blocks is None:
            return [by_group, by_row, by_column]
        block = np.searchsorted(self.blocks.edges, column, side="right") - 1
        return [by_group, self.blocks.width[block], by_column]


def grid_of(edges: Sequence[Counts]) -> tuple[list[Counts], list[Counts]]:
    """Return where all parts of a grid start along every dimension, and their sizes.

    Parameters
    ----------
    edges
        By dimension, the starts of its parts and the end.
    """
    part = [index.reshape(-1) for index in np.indices([edge.size - 1 for edge in edges])]
    start = [edge[index] for edge, index in zip(edges, part, strict=True)]
    size = [edge[index + 1] - edge[index] for edge, index in zip(edges, part, strict=True)]
    return start, size
