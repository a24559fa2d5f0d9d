"""Sparse matrices on the host: compressed rows, compressed columns, and coordinates.

Indices count elements, and the ends of rows or columns count values, as in PopLibs: a block has the
indices of its first element. Blocks of one element are the formats of scipy.
Source: graphcore/poplibs sdk-release-3.4, include/popsparse/SparseStorageFormats.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import a_count, numbers, whole_numbers
from tilescope.engine.errors import BadGraph
from tilescope.engine.planner.sparse.pattern import BlockPattern

__all__ = ["CooMatrix", "CscMatrix", "CsrMatrix", "SparseMatrix", "from_dense"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """What the three formats share.

    Parameters
    ----------
    n_rows, n_columns
        Of the matrix, elements.
    values : array of float, shape (n_values,)
        Block after block, each row after row.
    column_indices, row_indices : array of int
        As the format says.
    block_size
        Rows and columns of a block: 1, 4, 8 or 16.

    Raises
    ------
    BadGraph
        If the arrays are not those of a matrix of that shape, or the size of a block is not
        supported.
    """

    n_rows: int
    n_columns: int
    values: ArrayLike
    column_indices: ArrayLike
    row_indices: ArrayLike
    block_size: int = 1

    def __post_init__(self) -> None:
        """Check the arrays, and sort their blocks by row."""
        name = type(self).__name__
        size = (
            a_count(f"{name}: n_rows", self.n_rows, 1),
            a_count(f"{name}: n_columns", self.n_columns, 1),
        )
        area = a_count(f"{name}: block_size", self.block_size, 1) ** 2
        values = numbers(f"{name}: the values", self.values)
        if values.ndim != 1 or values.size % area:
            raise BadGraph(
                f"{name}: the values have shape {values.shape}: expected one dimension of whole"
                f" blocks of {area} values"
            )
        rows, columns = self._places(
            values.size // area,
            *(
                np.asarray(whole_numbers(f"{name}: the {kind} indices", given), np.int64)
                for kind, given in (("row", self.row_indices), ("column", self.column_indices))
            ),
        )
        pattern, order = BlockPattern.sorted_by_row(size, self.block_size, rows, columns)
        blocks = values.reshape(-1, self.block_size, self.block_size)[order]
        object.__setattr__(self, "_content", (pattern, blocks))

    def _places(self, n_blocks: int, rows: Counts, columns: Counts) -> tuple[Counts, Counts]:
        """Return row and column of every block, counted in blocks."""
        raise NotImplementedError

    @property
    def pattern(self) -> BlockPattern:
        """The places of the blocks, sorted by row."""
        content: tuple[BlockPattern, NDArray[Any]] = self._content  # type: ignore[attr-defined]
        return content[0]

    @property
    def blocks(self) -> NDArray[Any]:
        """The blocks in the order of the pattern: ndarray, shape (n_blocks, size, size)."""
        content: tuple[BlockPattern, NDArray[Any]] = self._content  # type: ignore[attr-defined]
        return content[1]

    def to_csr(self) -> CsrMatrix:
        """Return the matrix in compressed rows."""
        return CsrMatrix.of_blocks(self.pattern, self.blocks)

    def to_csc(self) -> CscMatrix:
        """Return the matrix in compressed columns."""
        return CscMatrix.of_blocks(self.pattern, self.blocks)

    def to_coo(self) -> CooMatrix:
        """Return the matrix in coordinates, sorted by row."""
        return CooMatrix.of_blocks(self.pattern, self.blocks)

    def transposed(self) -> CsrMatrix:
        """Return the transpose in compressed rows."""
        pattern, order = self.pattern.transposed()
        return CsrMatrix.of_blocks(pattern, self.blocks[order].swapaxes(1, 2))

    def to_dense(self) -> NDArray[Any]:
        """Return the matrix with its zeros: ndarray, shape (n_rows, n_columns)."""
        pattern, b = self.pattern, self.block_size
        dense = np.zeros((self.n_rows // b, self.n_columns // b, b, b), self.blocks.dtype)
        dense[pattern.rows, pattern.columns] = self.blocks
        return dense.swapaxes(1, 2).reshape(self.n_rows, self.n_columns)


def _ends(places: Counts, n: int, area: int) -> Counts:
    """Return where the values of every row, or column, begin, and the end."""
    return np.concatenate([[0], np.cumsum(np.bincount(places, minlength=n))]) * area


def _in_blocks(indices: Counts, block_size: int, name: str) -> Counts:
    """Return indices of elements as those of blocks.

    Raises
    ------
    BadGraph
        If an index is not that of a block's first element.
    """
    bad = np.flatnonzero(indices % block_size)
    if bad.size:
        raise BadGraph(
            f"{name}: index {int(indices[bad[0]])} is inside of a block of {block_size} x"
            f" {block_size}: give the index of its first element"
        )
    return indices // block_size


def _expanded(
    name: str, ends: Counts, others: Counts, n_blocks: int, n: int, block_size: int
) -> tuple[Counts, Counts]:
    """Return the compressed and the other index of every block, counted in blocks.

    Raises
    ------
    BadGraph
        If there are not as many indices as blocks, or the ends do not ascend to their number.
    """
    area = block_size**2
    if ends.shape != (n // block_size + 1,) or others.shape != (n_blocks,):
        raise BadGraph(
            f"{name}: has {ends.size} ends and {others.size} indices: expected"
            f" {n // block_size + 1} ends, and the index of every one of {n_blocks} blocks"
        )
    counts = np.diff(ends)
    if ends[0] != 0 or ends[-1] != n_blocks * area or (counts < 0).any() or (counts % area).any():
        raise BadGraph(
            f"{name}: the ends do not ascend from 0 to {n_blocks * area} by whole blocks of"
            f" {area} values: count the values before every row or column of blocks"
        )
    return np.repeat(np.arange(counts.size), counts // area), _in_blocks(others, block_size, name)


@dataclass(frozen=True, eq=False)
class CsrMatrix(SparseMatrix):
    """A matrix in compressed rows.

    ``row_indices`` has the number of values before every row of blocks, and of all;
    ``column_indices`` the first column of every block. Otherwise as `SparseMatrix`.
    """

    def _places(self, n_blocks: int, rows: Counts, columns: Counts) -> tuple[Counts, Counts]:
        return _expanded("CsrMatrix", rows, columns, n_blocks, self.n_rows, self.block_size)

    @classmethod
    def of_blocks(cls, pattern: BlockPattern, blocks: NDArray[Any]) -> CsrMatrix:
        """Return the matrix of blocks in the order of a pattern, shape (n_blocks, size, size)."""
        b = pattern.block_size
        ends = _ends(pattern.rows, pattern.n_rows // b, b * b)
        size = pattern.n_rows, pattern.n_columns
        return cls(*size, np.asarray(blocks).reshape(-1), pattern.columns * b, ends, b)


@dataclass(frozen=True, eq=False)
class CscMatrix(SparseMatrix):
    """A matrix in compressed columns.

    ``column_indices`` has the number of values before every column of blocks, and of all;
    ``row_indices`` the first row of every block. Otherwise as `SparseMatrix`.
    """

    def _places(self, n_blocks: int, rows: Counts, columns: Counts) -> tuple[Counts, Counts]:
        return _expanded("CscMatrix", columns, rows, n_blocks, self.n_columns, self.block_size)[
            ::-1
        ]

    @classmethod
    def of_blocks(cls, pattern: BlockPattern, blocks: NDArray[Any]) -> CscMatrix:
        """Return the matrix of blocks in the order of a pattern, shape (n_blocks, size, size)."""
        b = pattern.block_size
        turned, order = pattern.transposed()
        ends = _ends(turned.rows, turned.n_rows // b, b * b)
        values = np.asarray(blocks)[order].reshape(-1)
        return cls(pattern.n_rows, pattern.n_columns, values, ends, turned.columns * b, b)


@dataclass(frozen=True, eq=False)
class CooMatrix(SparseMatrix):
    """A matrix in coordinates: the first row and column of every block, in any order.

    Otherwise as `SparseMatrix`.
    """

    def _places(self, n_blocks: int, rows: Counts, columns: Counts) -> tuple[Counts, Counts]:
        if rows.shape != (n_blocks,) or columns.shape != (n_blocks,):
            raise BadGraph(
                f"CooMatrix: has {rows.size} row and {columns.size} column indices: expected one"
                f" each of {n_blocks} blocks"
            )
        b = self.block_size
        return _in_blocks(rows, b, "CooMatrix"), _in_blocks(columns, b, "CooMatrix")

    @classmethod
    def of_blocks(cls, pattern: BlockPattern, blocks: NDArray[Any]) -> CooMatrix:
        """Return the matrix of blocks in the order of a pattern, shape (n_blocks, size, size)."""
        b = pattern.block_size
        size = pattern.n_rows, pattern.n_columns
        values = np.asarray(blocks).reshape(-1)
        return cls(*size, values, pattern.columns * b, pattern.rows * b, b)


def from_dense(matrix: ArrayLike, block_size: int = 1) -> CsrMatrix:
    """Return the blocks of a matrix that are not all zeros.

    Parameters
    ----------
    matrix : array of float, shape (n_rows, n_columns)
        The matrix with its zeros.
    block_size
        Rows and columns of a block: 1, 4, 8 or 16.

    Raises
    ------
    BadGraph
        If the matrix has not two dimensions, or they are no multiples of a block.
    """
    dense = numbers("The matrix of from_dense", matrix)
    if dense.ndim != 2:
        raise BadGraph(f"from_dense: the matrix has shape {dense.shape}: expected two dimensions")
    b = a_count("block_size of from_dense", block_size, 1)
    none = np.zeros(0, np.int64)
    BlockPattern.sorted_by_row((dense.shape[0], dense.shape[1]), b, none, none)
    blocks = dense.reshape(dense.shape[0] // b, b, dense.shape[1] // b, b).swapaxes(1, 2)
    rows, columns = np.nonzero(blocks.any(axis=(2, 3)))
    pattern = BlockPattern(
        dense.shape[0], dense.shape[1], b, rows.astype(np.int64), columns.astype(np.int64)
    )
    return CsrMatrix.of_blocks(pattern, blocks[rows, columns])
