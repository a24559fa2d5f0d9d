"""Walks over operands and output together, divided by the output's tile mapping.

The walk follows the output in memory. Dimensions with one stride for all operands are merged; the
result is rows of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Regions, Tensor, Variable, View, aligned, section
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.mapping.elements import check_each_once
from tilescope.engine.graph.mapping.mapping import intervals_of
from tilescope.engine.intervals.distinct import distinct
from tilescope.engine.intervals.runs import group_pieces

__all__ = ["TileRectangles", "Walk", "cut_rows", "joint_walk", "joint_walks"]

#: Sections that blocks of different sizes divide a walk into, at most; beyond, an operand is copied
#: to another layout first.
_MOST_SECTIONS = 16  # Assumption: a section may be one more vertex on a tile


@dataclass(frozen=True)
class TileRectangles:
    """Rectangles of an output, all on one tile per rectangle.

    Parameters
    ----------
    tile : ndarray of int32, shape (n,)
        Their tiles.
    start : ndarray of int64, shape (n,)
        First elements, in memory order.
    n_rows, n_columns : ndarray of int64, shape (n,)
        Extents; several rows only if they are whole.
    """

    tile: NDArray[np.int32]
    start: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    n_columns: NDArray[np.int64]

    @property
    def n_pieces(self) -> int:
        """Number of rectangles."""
        return int(self.tile.size)


def cut_rows(variable: Variable, row: int, n_rows: int) -> TileRectangles:
    """Cut a mapped variable into rectangles of whole rows, or parts of one row.

    Parameters
    ----------
    variable
        Mapped; walked from its first element.
    row
        Elements of a row.
    n_rows
        Rows of a block; no rectangle crosses a block's end.
    """
    return _cut(variable.map_start, variable.map_tile, variable.n_elements, row, n_rows)


def _cut(
    starts: NDArray[np.int64], tiles: NDArray[np.int32], total: int, row: int, n_rows: int
) -> TileRectangles:
    """Cut the intervals of a total of elements, as `cut_rows` does those of a variable."""
    if row == 1 and n_rows == total:
        lengths = np.diff(starts, append=total)
        return TileRectangles(tiles, starts, lengths, np.ones_like(lengths))
    edges = [starts, np.arange(0, total, row * n_rows, dtype=np.int64)]
    # A partial row at the start or end of a piece becomes a separate piece.
    unaligned = starts[starts % row != 0]
    edges += [unaligned // row * row, np.minimum(-(-unaligned // row) * row, total)]
    cuts = distinct(np.concatenate(edges))
    cuts = cuts[cuts < total]
    lengths = np.diff(np.append(cuts, total))
    is_whole = lengths >= row
    return TileRectangles(
        tiles[starts.searchsorted(cuts, side="right") - 1],
        cuts,
        np.where(is_whole, lengths // row, 1),
        np.where(is_whole, row, lengths),
    )


@dataclass(frozen=True)
class Walk:
    """Operands walked together in the order in which the output lies in memory.

    Parameters
    ----------
    sizes
        Joined dimensions, outermost first.
    strides
        Strides along these dimensions by operand; the output comes last.
    """

    tensors: tuple[Tensor, ...]
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def is_plain(self) -> bool:
        """Whether every operand is one contiguous run."""
        return len(self.sizes) == 1 and all(stride == (1,) for stride in self.strides)

    def starts(self, element: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the positions of the output's elements in every operand: ndarrays of int64."""
        index: list[NDArray[np.int64]] = []
        rest = element
        for size in reversed(self.sizes):
            outer = rest // size
            index.append(rest - outer * size)
            rest = outer
        index.reverse()
        starts = []
        for tensor, strides in zip(self.tensors, self.strides, strict=True):
            start = np.full_like(element, tensor.offset)
            for i, stride in zip(index, strides, strict=True):
                start += i * stride
            starts.append(start)
        return starts

    def _walked(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the intervals of the output's elements in the order of the walk: starts, tiles."""
        out = self.tensors[-1]
        atoms = tuple(zip(self.sizes, self.strides[-1], strict=True))
        ordered = replace(out, dims=tuple((atom,) for atom in atoms))
        if ordered.is_contiguous and out.offset == 0 and _covers(out):
            out.variable.check_mapped()
            return out.variable.map_start, out.variable.map_tile
        return intervals_of(ordered)

    def batches(self) -> list[tuple[bool, NDArray[np.int32], list[Regions]]]:
        """Return batches of vertices: whether of blocks, tiles, and regions per operand.

        If every operand is one contiguous run, a tile's interval is a vector. Anything else is a
        block of planes, rows and columns; evenly spaced chunks of a tile become the planes.
        """
        sizes = (1, *self.sizes) if len(self.sizes) == 1 else self.sizes
        pad = (0,) if len(self.sizes) == 1 else ()
        inner = [(*pad, *strides)[-2:] for strides in self.strides]
        is_plain, total = self.is_plain, prod(self.sizes)
        row, n_rows = (1, total) if is_plain else (sizes[-1], sizes[-2])
        rows_by_tile = _cut(*self._walked(), total, row, n_rows)
        order = np.argsort(rows_by_tile.tile, kind="stable")
        tile, rows, columns = (
            rows_by_tile.tile[order],
            rows_by_tile.n_rows[order],
            rows_by_tile.n_columns[order],
        )
        if is_plain:
            rows, columns = np.ones_like(rows), rows * columns
        starts = np.stack(self.starts(rows_by_tile.start[order]))
        first, count, spacing = group_pieces(tile, rows * total + columns, starts)
        batches = []
        for is_block in (False, True):
            chosen = (count > 1) | (not is_plain) if is_block else (count == 1) & is_plain
            which = first[chosen]
            n = int(which.size)
            if not n:
                continue
            regions = []
            for k, tensor in enumerate(self.tensors):
                block = [count[chosen], rows[which], columns[which]]
                strides = [spacing[chosen, k], *inner[k]]
                regions.append(
                    blocks(
                        tensor.variable,
                        starts[k, which],
                        block if is_block else block[2:],
                        strides if is_block else [1],
                        n,
                    )
                )
            batches.append((is_block, tile[which], regions))
        return batches


def _block_sizes(dims: Sequence[Sequence[tuple[int, int]]], size: int) -> list[int]:
    """Return the sizes of the blocks of a dimension in all operands, ascending, with 1 and all."""
    inner = {1, size}
    for atoms in dims:
        extent = 1
        for atom_size, _ in reversed(atoms):
            extent *= atom_size
            if extent < size:
                inner.add(extent)
    return sorted(inner)


def _common_factors(dims: Sequence[Sequence[tuple[int, int]]], size: int) -> list[int] | None:
    """Return sizes, outermost first, into which the atoms of all operands can be split."""
    chain = _block_sizes(dims, size)
    if any(b % a for a, b in pairwise(chain)):
        return None
    return [b // a for a, b in pairwise(chain)][::-1] or [1]


def _covers(out: Tensor) -> bool:
    return out.n_elements == out.variable.n_elements


def joint_walk(operands: Sequence[Tensor], out: Tensor) -> Walk | None:
    """Return how to walk operands and output together; None when their strides are incompatible.

    Parameters
    ----------
    operands
        Tensors that broadcast to the output's shape.
    out
        A view without aliased elements.

    Raises
    ------
    BadGraph
        If shapes do not broadcast.
    """
    tensors = [t.broadcast_to(out.shape) for t in operands] + [out]
    factors = []
    for d, size in enumerate(out.shape):
        result = _common_factors([t.dims[d] for t in tensors], size)
        if result is None:
            return None
        factors.append(result)
    refined = [t.refine(factors) for t in tensors]
    if any(r is None for r in refined):
        return None
    columns = [[atom for dim in r or [] for atom in dim] for r in refined]
    order = sorted(range(len(columns[-1])), key=lambda i: -abs(columns[-1][i][1]))
    joined: list[tuple[int, tuple[int, ...]]] = []
    for i in order:
        size = columns[-1][i][0]
        if size == 1:
            continue
        strides = tuple(column[i][1] for column in columns)
        if joined and all(o == s * size for o, s in zip(joined[-1][1], strides, strict=True)):
            joined[-1] = (joined[-1][0] * size, strides)
        else:
            joined.append((size, strides))
    if not joined:
        joined = [(1, (1,) * len(tensors))]
    sizes = tuple(size for size, _ in joined)
    strides_by_tensor = tuple(zip(*(strides for _, strides in joined), strict=True))
    return Walk(tuple(tensors), sizes, strides_by_tensor)


def joint_walks(operands: Sequence[View], out: View) -> list[Walk] | None:
    """Return how to walk operands and output, which may join several variables.

    Parameters
    ----------
    operands
        Tensors that broadcast to the output's shape.
    out
        A view without aliased elements.

    Returns
    -------
    list of Walk or None
        One per section of the output on which every operand is on one variable and no block of one
        ends within a block of another; None when there would be too many.

    Raises
    ------
    BadGraph
        If the output aliases elements, or shapes do not broadcast.
    """
    check_each_once("The output", out)
    views = [*(view.broadcast_to(out.shape) for view in operands), out]
    walks: list[Walk] = []
    n_sections = 0
    rest = aligned(views)[::-1]
    while rest:
        tensors = rest.pop()
        walk = joint_walk(tensors[:-1], tensors[-1])
        if walk is None:
            d, block = _crossed_block(tensors)
            n_sections += tensors[-1].shape[d] // block
            if n_sections > _MOST_SECTIONS:
                return None
            rest += _sections(tensors, d, block)[::-1]
        else:
            walks.append(walk)
    return walks


def _crossed_block(tensors: Sequence[Tensor]) -> tuple[int, int]:
    """Return a dimension and the size of blocks in it whose ends lie within those of another."""
    for d, size in enumerate(tensors[-1].shape):
        chain = _block_sizes([tensor.dims[d] for tensor in tensors], size)
        crossed = [large for small, large in pairwise(chain) if large % small]
        if crossed:
            return d, crossed[-1]
    raise AssertionError("strides are compatible")


def _sections(tensors: Sequence[Tensor], d: int, block: int) -> list[tuple[Tensor, ...]]:
    """Return tensors of one shape divided at the ends of all blocks of a dimension."""
    sections: list[tuple[Tensor, ...]] = []
    for start in range(0, tensors[-1].shape[d], block):
        sections += aligned([section(tensor, d, start, start + block) for tensor in tensors])
    return sections
