"""The tensor that a reduction reads, and the pieces of the first stage on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine
from tilescope.engine.planner.reduction.pieces import Blocks, StageVertices, cut_box, spread_tiles

__all__ = ["ReduceShape"]

Counts = NDArray[np.int64]
Atoms = tuple[tuple[int, int], ...]

#: Rows that a stage in place looks at one by one.
_MOST_ROWS = 1 << 21


@dataclass(frozen=True)
class ReduceShape:
    """A reduction of a view on one variable.

    Parameters
    ----------
    operation
        A name of `tilescope.engine.codelets.popops.reduction.reduce.REDUCE`.
    dtype, partial, result
        Names of the types of operand, partial results and result.
    item_bytes, partial_bytes
        Bytes of an element of the first two.
    kept, reduced
        Sizes and strides of the dimensions, two or more, in descending order of stride.
    offset
        First element of the view.
    n_elements
        Elements of the variable.
    map_start, map_tile
        Its tile mapping.
    is_update
        Whether the result is added to a tensor.
    """

    operation: str
    dtype: str
    partial: str
    result: str
    item_bytes: int
    partial_bytes: int
    kept: Atoms
    reduced: Atoms
    offset: int
    n_elements: int
    map_start: tuple[int, ...]
    map_tile: tuple[int, ...]
    is_update: bool

    @property
    def n_outputs(self) -> int:
        """Number of results."""
        return prod(size for size, _ in self.kept)

    @property
    def n_reduced(self) -> int:
        """Elements per result."""
        return prod(size for size, _ in self.reduced)

    @cached_property
    def owners(self) -> tuple[Counts, NDArray[np.int32]]:
        """The tile mapping as arrays."""
        return np.array(self.map_start, np.int64), np.array(self.map_tile, np.int32)

    def tile_of(self, elements: Counts) -> Counts:
        """Return the tile of elements of the variable: ndarray of int64."""
        start, tile = self.owners
        return tile[np.searchsorted(start, elements, side="right") - 1].astype(np.int64)

    def grain(self, machine: Machine) -> int:
        """Return the outputs that stay together: a vector if outputs are side by side."""
        return self._vector(machine) if self.kept[-1][1] == 1 else 1

    def reduced_grain(self, machine: Machine) -> int:
        """Return the reduced elements that stay together."""
        return self._vector(machine) if self.reduced[-1][1] == 1 else 1

    def _vector(self, machine: Machine) -> int:
        return max(1, machine.data_path_bytes // self.item_bytes)

    def spread_pieces(
        self,
        grid: tuple[int, int],
        sections: int,
        ids: Counts,
        machine: Machine,
        *,
        is_ordered: bool,
    ) -> StageVertices:
        """Return the pieces of a grid: parts of the outputs times rows of what is reduced.

        Parameters
        ----------
        grid
            Parts of the outputs, and rows.
        sections
            Results per output of a piece.
        ids : ndarray of int64
            The tiles to use.
        machine
            Supplies the width of vectors.
        is_ordered
            Whether the pieces take the tiles in order; otherwise a piece takes the tile that has
            the element in its middle, if no other piece does.
        """
        (k0, kn), (r0, rn) = (
            cut_box([size for size, _ in atoms], n, grain)
            for atoms, n, grain in (
                (self.kept, grid[0], self.grain(machine)),
                (self.reduced, grid[1], self.reduced_grain(machine)),
            )
        )
        n_parts, n_rows = k0.shape[0], r0.shape[0]
        part, row = (i.reshape(-1) for i in np.indices((n_parts, n_rows)))
        kept_stride, reduced_stride = (
            np.array([stride for _, stride in atoms]) for atoms in (self.kept, self.reduced)
        )
        start = self.offset + k0[part] @ kept_stride + r0[row] @ reduced_stride
        rows_per_tile = -(-part.size // ids.size)
        if is_ordered:
            tile = ids[np.arange(part.size) // rows_per_tile]
        else:
            middle = start + kn[part] // 2 @ kept_stride + rn[row] // 2 @ reduced_stride
            tile = spread_tiles(self.tile_of(middle), ids, rows_per_tile)
        sizes = [size for size, _ in self.kept]
        by_out = np.array([prod(sizes[d + 1 :]) for d in range(len(sizes))])
        blocks = Blocks.packed(
            np.prod(kn, axis=1), np.full(n_parts, n_rows * sections), k0 @ by_out
        )
        stride = np.concatenate([kept_stride[-2:], reduced_stride[-2:]])
        return StageVertices(
            tile,
            start,
            np.concatenate([kn[part, -2:], rn[row, -2:]], axis=1),
            np.broadcast_to(stride, (part.size, 4)).copy(),
            blocks.start[part] + row * sections * blocks.width[part],
            kn[part, -1],
            sections,
            blocks,
            part,
        )

    @cached_property
    def _dims(self) -> list[tuple[int, int, bool]]:
        """Size, stride, and whether it is kept, of the dimensions in descending order of stride."""
        dims = [(*atom, True) for atom in self.kept] + [(*atom, False) for atom in self.reduced]
        return sorted((dim for dim in dims if dim[0] > 1), key=lambda dim: -abs(dim[1]))

    def levels(self) -> Iterator[int]:
        """Yield the numbers of outer dimensions whose rows can stay in place.

        A row holds at most one dimension of either kind.
        """
        for level in range(1, len(self._dims) + 1):
            kinds = [is_kept for *_, is_kept in self._dims[level:]]
            is_flat = kinds.count(True) <= 1 and kinds.count(False) <= 1
            if is_flat and self._n_steps(level) <= _MOST_ROWS:
                yield level

    def _n_steps(self, level: int) -> int:
        """Return the rows of a level, those that follow each other on a tile counted once."""
        *leading, (run, stride, is_kept) = self._dims[:level]
        n_rows = prod(size for size, *_ in leading)
        if is_kept or n_rows > _MOST_ROWS:
            return n_rows * run
        middle = self._first_elements(leading) + self._to_middle(level)
        return min(n_rows * run, int(self._edges(middle, run, stride)[1].sum()))

    def _first_elements(self, leading: list[tuple[int, int, bool]]) -> Counts:
        """Return the first element of every row, in row-major order of the outer dimensions."""
        first = np.array([self.offset], np.int64)
        for size, stride, _ in leading:
            first = (first[:, None] + np.arange(size) * stride).reshape(-1)
        return first

    def _to_middle(self, level: int) -> int:
        """Return the distance from the first element of a row to the one in its middle."""
        return sum(size // 2 * stride for size, stride, _ in self._dims[level:])

    def row_elements(self, level: int) -> int:
        """Return the elements of a row below `level` outer dimensions."""
        return prod(size for size, *_ in self._dims[level:])

    def reduces_in_row(self, level: int) -> bool:
        """Whether a row below `level` outer dimensions has several elements of an output."""
        return any(not is_kept for *_, is_kept in self._dims[level:])

    def _edges(self, base: Counts, run: int, stride: int) -> tuple[Counts, Counts]:
        """Return the first change of the tile along every row, and the number of tiles on it."""
        low = np.searchsorted(self.owners[0], base, side="right")
        if stride <= 0:
            return low, np.full(base.size, run)
        last = np.searchsorted(self.owners[0], base + (run - 1) * stride, side="right")
        return low, last - low + 1

    def _changes(self, base: Counts, run: int, stride: int) -> tuple[Counts, Counts]:
        """Return rows and steps along them at which the tile may change; step 0 of every row first.

        Parameters
        ----------
        base : ndarray of int64, shape (n_rows,)
            First element of every row.
        run, stride
            Steps of a row, and elements from one to the next.
        """
        starts = self.owners[0]
        low, n_steps = self._edges(base, run, stride)
        if n_steps.sum() >= base.size * run:
            return np.repeat(np.arange(base.size), run), np.tile(np.arange(run), base.size)
        row = np.repeat(np.arange(base.size), n_steps)
        nth = np.arange(row.size) - np.repeat(np.cumsum(n_steps) - n_steps, n_steps)
        edge = starts[np.minimum(low[row] + nth - 1, starts.size - 1)]
        step = np.where(nth == 0, 0, -(-(edge - base[row]) // stride))
        # Of intervals between two steps, the last counts.
        is_last = np.append((row[1:] != row[:-1]) | (step[1:] != step[:-1]), True)
        return row[is_last], step[is_last]

    def local_pieces(self, level: int, sections: int) -> StageVertices:
        """Return the pieces of a stage in place.

        The rows below `level` outer dimensions are reduced on the tile that has the element in
        their middle. Rows that follow each other along the last outer dimension are one piece if
        that is reduced.

        Parameters
        ----------
        level
            Of `levels`.
        sections
            Results per output of a piece.
        """
        outer, inner = self._dims[:level], self._dims[level:]
        run, run_stride, is_kept = outer[-1]
        if is_kept:
            run, run_stride, leading = 1, 0, outer
        else:
            leading = outer[:-1]
        index = np.unravel_index(
            np.arange(prod(size for size, *_ in leading)), [size for size, *_ in leading] or [1]
        )
        base = self._first_elements(leading)
        key = np.zeros_like(index[0])
        for i, (size, _, selected) in zip(index, leading, strict=False):
            if selected:
                key = key * size + i
        to_middle = self._to_middle(level)
        row, step = self._changes(base + to_middle, run, run_stride)
        first = base[row] + step * run_stride
        tile = self.tile_of(first + to_middle)
        is_begin = np.append(True, (tile[1:] != tile[:-1]) | (row[1:] != row[:-1]))
        begin = np.flatnonzero(is_begin)
        ends = np.append(step[begin[1:]], run)
        length = np.where(np.append(row[begin[1:]], -1) == row[begin], ends, run) - step[begin]
        columns, column_stride = next(((n, s) for n, s, selected in inner if selected), (1, 0))
        n_inner, inner_stride = next(((n, s) for n, s, selected in inner if not selected), (1, 0))
        blocks, out, block = _in_blocks(key[row[begin]], columns, sections)
        unit_counts = np.ones_like(begin)
        # A single reduced dimension is the inner one.
        sizes = (length, n_inner * unit_counts) if n_inner > 1 else (unit_counts, length)
        steps = (run_stride, inner_stride) if n_inner > 1 else (0, run_stride)
        return StageVertices(
            tile[begin],
            first[begin],
            np.stack([unit_counts, columns * unit_counts, *sizes], axis=1),
            np.stack(
                [
                    0 * unit_counts,
                    column_stride * unit_counts,
                    *(step * unit_counts for step in steps),
                ],
                axis=1,
            ),
            out,
            0 * unit_counts,
            sections,
            blocks,
            block,
        )


def _in_blocks(key: Counts, columns: int, sections: int) -> tuple[Blocks, Counts, Counts]:
    """Return a block per key, and the place and block of the result of every piece."""
    keys, block = np.unique(key, return_inverse=True)
    depth = np.bincount(block)
    order = np.argsort(block, kind="stable")
    rank = np.empty_like(block)
    rank[order] = np.arange(block.size) - np.repeat(np.cumsum(depth) - depth, depth)
    blocks = Blocks.packed(np.full(keys.size, columns), depth * sections, keys * columns)
    return blocks, blocks.start[block] + rank * sections * columns, block
