"""The pattern of a sparse matrix: where its blocks are, without their values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph

__all__ = ["BLOCK_SIZES", "BlockPattern"]

Counts = NDArray[np.int64]

#: Rows and columns of a block. Source: graphcore/poplibs sdk-release-3.4, lib/popsparse:
#: StaticMatMulPartitioner.cpp, matmulComputeCycles; popsparseCycleEstimators.cpp.
BLOCK_SIZES = (1, 4, 8, 16)


@dataclass(frozen=True, eq=False)
class BlockPattern:
    """Places of square blocks in a matrix, sorted by row and then by column.

    Two patterns are equal if their blocks are at the same places.

    Parameters
    ----------
    n_rows, n_columns
        Of the matrix, elements: multiples of the size of a block.
    block_size
        Rows and columns of a block: 1, 4, 8 or 16.
    rows, columns : ndarray of int64, shape (n_blocks,)
        Place of every block, counted in blocks.
    """

    n_rows: int
    n_columns: int
    block_size: int
    rows: Counts
    columns: Counts

    @classmethod
    def sorted_by_row(
        cls, size: tuple[int, int], block_size: int, rows: Counts, columns: Counts
    ) -> tuple[BlockPattern, Counts]:
        """Return the pattern of blocks in any order, and the order that sorts them.

        Parameters
        ----------
        size
            Rows and columns of the matrix, elements.
        block_size
            Rows and columns of a block.
        rows, columns : ndarray of int64, shape (n_blocks,)
            Place of every block, counted in blocks.

        Raises
        ------
        BadGraph
            If the size of a block is not supported or does not divide the matrix, or two blocks
            have one place.
        """
        if block_size not in BLOCK_SIZES:
            raise BadGraph(
                f"Blocks of a sparse matrix have {block_size} rows and columns: use"
                f" {', '.join(map(str, BLOCK_SIZES))}"
            )
        if size[0] < 1 or size[1] < 1 or size[0] % block_size or size[1] % block_size:
            raise BadGraph(
                f"A sparse matrix of shape {size} has blocks of {block_size} x {block_size}:"
                " expected rows and columns that are multiples of a block's"
            )
        n_across = size[1] // block_size
        limits = (size[0] // block_size, n_across)
        for name, places, limit in zip(("row", "column"), (rows, columns), limits, strict=True):
            if places.size and (places.min() < 0 or places.max() >= limit):
                bad = int(places[(places < 0) | (places >= limit)][0])
                raise BadGraph(
                    f"A block of a sparse matrix of shape {size} has {name} index"
                    f" {bad * block_size}: expected 0 to {(limit - 1) * block_size}"
                )
        key = rows * n_across + columns
        order = np.argsort(key, kind="stable")
        repeated = np.flatnonzero(np.diff(key[order]) == 0)
        if repeated.size:
            place = order[repeated[0]]
            raise BadGraph(
                f"A sparse matrix of shape {size} has two blocks at row"
                f" {int(rows[place]) * block_size}, column {int(columns[place]) * block_size}: give"
                " every place once, with the sum of its values"
            )
        return cls(*size, block_size, rows[order], columns[order]), order

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.rows.size

    @property
    def n_values(self) -> int:
        """Number of stored values."""
        return self.n_blocks * self.block_size**2

    @property
    def density(self) -> float:
        """Share of the matrix that is stored, 0 to 1."""
        return self.n_values / (self.n_rows * self.n_columns)

    @cached_property
    def digest(self) -> str:
        """Hash of the places."""
        return sha256(self.rows.tobytes() + self.columns.tobytes()).hexdigest()

    @property
    def _key(self) -> tuple[int, int, int, str]:
        return self.n_rows, self.n_columns, self.block_size, self.digest

    def __eq__(self, other: object) -> bool:
        """Return whether both have blocks of one size at the same places."""
        return isinstance(other, BlockPattern) and self._key == other._key

    def __hash__(self) -> int:
        """Return the hash of what equality compares."""
        return hash(self._key)

    def transposed(self) -> tuple[BlockPattern, Counts]:
        """Return the pattern of the transpose, and the order in which it takes these blocks."""
        return BlockPattern.sorted_by_row(
            (self.n_columns, self.n_rows), self.block_size, self.columns, self.rows
        )
