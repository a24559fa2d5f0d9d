"""What the tiles of a static sparse product multiply, and where they write their sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.planner.sparse.static_plan import StaticPlan

__all__ = ["StaticWork"]

Counts = NDArray[np.int64]


@dataclass(eq=False)
class StaticWork:
    """What every tile of a part multiplies, and where the sums of a row are.

    Parameters
    ----------
    plan
        Of the product.
    tiles : ndarray of int, shape (n_tiles,)
        The tiles to use.
    """

    plan: StaticPlan
    tiles: NDArray[Any]

    def __post_init__(self) -> None:
        """Find the rows and columns of blocks of every tile."""
        plan, pattern = self.plan, self.plan.shape.pattern
        tile = plan.tile_of_block
        row, column = pattern.rows[plan.order], pattern.columns[plan.order]
        n_down = pattern.n_rows // pattern.block_size
        n_across = pattern.n_columns // pattern.block_size
        #: Tiles of a part that have blocks, and the first block of each.
        self.local, self.first_block = np.unique(tile, return_index=True)
        self.n_blocks = np.diff(np.append(self.first_block, tile.size))
        # Rows of blocks on a tile: blocks are in their order.
        key = tile * n_down + row
        is_first = np.concatenate([[True], np.diff(key) != 0])
        self.row_start = np.flatnonzero(is_first)
        self.row_blocks = np.diff(np.append(self.row_start, key.size))
        self.row = row[self.row_start]
        self.row_tile = tile[self.row_start]
        self.first_row = np.searchsorted(self.row_tile, np.append(self.local, tile.max() + 1))
        # Columns of blocks that a tile needs, and the place of a block's among them.
        needed, place = np.unique(tile * n_across + column, return_inverse=True)
        self.column = needed % n_across
        self.first_column = np.searchsorted(
            needed // n_across, np.append(self.local, tile.max() + 1)
        )
        self.place = place - np.repeat(self.first_column[:-1], self.n_blocks)

    @property
    def n_vertices(self) -> int:
        """Vertices that multiply: one on a tile."""
        return int(self.local.size * self.plan.parts)

    @property
    def balance(self) -> float:
        """Mean over maximum of the blocks of all tiles, 0 to 1."""
        n_tiles = self.plan.parts * self.plan.tiles_per_part
        return float(self.plan.parts * self.n_blocks.sum() / (n_tiles * self.n_blocks.max()))

    def tile_of(self, part: Counts, local: Counts) -> NDArray[Any]:
        """Return tiles by part and place in it."""
        return np.asarray(self.tiles[part * self.plan.tiles_per_part + local])

    @cached_property
    def places(self) -> tuple[Counts, Counts]:
        """For every tile of a part: for every row, its blocks and then their places.

        Returns
        -------
        values : ndarray of int64
            All tiles after each other.
        first : ndarray of int64, shape (n_tiles + 1,)
            Where a tile's begin.
        """
        total = self.place.size + self.row.size
        values = np.empty(total, np.int64)
        # A row's count comes before its blocks, after all rows before.
        count_at = self.row_start + np.arange(self.row.size)
        values[count_at] = self.row_blocks
        is_place = np.ones(total, np.bool_)
        is_place[count_at] = False
        values[is_place] = self.place
        first = np.append(self.first_block + self.first_row[:-1], total)
        return values, first

    @cached_property
    def terms(self) -> tuple[Counts, Counts, Counts]:
        """Where the sums of rows lie in a part: every row's together.

        Returns
        -------
        position : ndarray of int64, shape (n,)
            Place of every tile's row among all sums, in rows of blocks.
        count, first : ndarray of int64, shape (n_rows,)
            Sums of every row of blocks of the matrix, and the first of them.
        """
        n_down = self.plan.shape.pattern.n_rows // self.plan.shape.pattern.block_size
        count = np.bincount(self.row, minlength=n_down)
        first = np.cumsum(count) - count
        order = np.argsort(self.row, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(order.size)
        return position, count, first
