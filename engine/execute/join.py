"""Joins adjoining vertices of a batch, so that the host computes them in one call of the kernel.

The simulated vertices, their tiles and their cycles stay as they are: a codelet states over which
dimensions its elements are independent, and along these the host may cut its work anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Sliding

__all__ = ["MOST_JOINED", "Blocks", "join"]

Counts = NDArray[np.int64]

#: Work that is joined at most, elements of all fields: 256 KiB in floats.
MOST_JOINED = 1 << 16
#: Pieces of a batch so that threads can share it, unless they have less work than that, elements:
#: about a microsecond, and several of products, of which each piece takes longer to begin. The
#: pieces do not depend on the number of threads.
_N_SHARED, _LEAST_SHARED, _LEAST_PRODUCTS = 16, 1 << 12, 1 << 15
#: Groups of outputs that a kernel of products computes together, by their outputs, and of others.
_GROUPS, _MOST_GROUPS = {1: 4, 8: 4}, 2
#: Contiguous elements, in the mean over all fields, below which another order is tried.
_LEAST_RUN = 4


@dataclass
class Blocks:
    """The regions of a batch on the host: starts, sizes and strides by field, and the scalars.

    Parameters
    ----------
    start, size, stride
        By field: ndarrays of int64, shapes (n,), (n, n_dims) and (n, n_dims), elements.
    scalars
        Those that the kernel takes: ndarrays of shape (n,).
    work : ndarray of int64, shape (n,)
        Work of every piece, elements.
    """

    start: list[Counts]
    size: list[Counts]
    stride: list[Counts]
    scalars: list[NDArray[Any]]
    work: Counts

    def __len__(self) -> int:
        """Return the number of pieces."""
        return self.work.size

    def take(self, rows: NDArray[np.intp]) -> Blocks:
        """Return some of the pieces, in that order."""
        return Blocks(
            [column[rows] for column in self.start],
            [column[rows] for column in self.size],
            [column[rows] for column in self.stride],
            [column[rows] for column in self.scalars],
            self.work[rows],
        )


@dataclass
class _Links:
    """How every piece goes on to the next: by link, ndarrays of shape (n - 1,).

    Parameters
    ----------
    blocks
        The pieces.
    adjoins : ndarray of bool
        Whether the next continues the piece.
    grown
        By field that grows: its dimension, the distance of its elements, and the elements from the
        first of a piece to the first of the next.
    """

    blocks: Blocks
    adjoins: NDArray[np.bool_]
    grown: dict[int, tuple[int, Counts, Counts]]

    def same(self, column: NDArray[Any]) -> None:
        """Require equal values."""
        self.adjoins &= column[1:] == column[:-1]

    def same_shape(self, field: int, but: int = -1) -> None:
        """Require equal sizes and strides, except along one dimension."""
        size = self.blocks.size[field]
        # The stride of a single element means nothing.
        stride = np.where(size > 1, self.blocks.stride[field], 0)
        for d in range(size.shape[1]):
            if d != but:
                self.same(size[:, d])
                self.same(stride[:, d])

    def grows(self, field: int, dim: int, step: Counts, distance: Counts) -> None:
        """Note that a field grows along a dimension, with elements `step` apart."""
        size, stride = self.blocks.size[field][:, dim], self.blocks.stride[field][:, dim]
        self.adjoins &= ((size[:-1] == 1) | (stride[:-1] == step)) & (
            (size[1:] == 1) | (stride[1:] == step)
        )
        self.grown[field] = (dim, step, distance)

    def follows(self, field: int, dim: int, *, is_contiguous: bool) -> None:
        """Require that elements continue those of the piece before, along one dimension."""
        self.same_shape(field, dim)
        apart, size = np.diff(self.blocks.start[field]), self.blocks.size[field][:-1, dim]
        step = np.where(size > 1, self.blocks.stride[field][:-1, dim], apart)
        self.adjoins &= (apart == step * size) & ((step == 1) | (not is_contiguous))
        self.grows(field, dim, step, size)


def join(codelet: Codelet, blocks: Blocks) -> Blocks:
    """Return the pieces in which the host computes a batch: its vertices, joined where they adjoin.

    Every element is computed from the same elements as before.
    """
    if not (codelet.independent or codelet.sliding) or len(blocks) < 2:
        return blocks
    is_written = [field.is_written for field in codelet.fields]
    joined = _in_order(codelet, blocks, is_written.index(True))
    if codelet.has_products:
        return joined
    # Vertices may adjoin in what they read only: columns whose results are apart. A transposition
    # is joined in rows of its result, which it would gather in steps, or in columns.
    work = int(joined.work.sum())
    is_small = len(joined) > 2 * (work // MOST_JOINED + 1)
    is_torn = is_written == [False, True] and work < _LEAST_RUN * _n_runs(joined)
    if (is_small or is_torn) and False in is_written:
        second_blocks = _in_order(codelet, blocks, is_written.index(False))
        return min(joined, second_blocks, key=_n_runs)
    return joined


def _n_runs(blocks: Blocks) -> int:
    """Return the runs of contiguous elements in all fields of all pieces."""
    n_runs = 0
    for sizes, strides in zip(blocks.size, blocks.stride, strict=True):
        distinct = np.where(strides == 0, 1, sizes)  # a stride of 0 shows the same elements again
        order = np.argsort(np.where(distinct > 1, strides, np.iinfo(np.int64).max), axis=1)
        size = np.take_along_axis(distinct, order, axis=1)
        stride = np.take_along_axis(strides, order, axis=1)
        length = np.ones(len(blocks), np.int64)
        for d in range(size.shape[1]):
            length *= np.where(stride[:, d] == length, size[:, d], 1)
        n_runs += int((size.prod(axis=1) // np.maximum(length, 1)).sum())
    return n_runs


def _in_order(codelet: Codelet, blocks: Blocks, field: int) -> Blocks:
    """Return the pieces, joined in the order of their elements in a field."""
    order = blocks.start[field]
    if (order[1:] < order[:-1]).any():
        blocks = blocks.take(np.argsort(order, kind="stable"))
    least_work = _LEAST_PRODUCTS if codelet.has_products else _LEAST_SHARED
    most_joined = min(MOST_JOINED, max(least_work, int(blocks.work.sum()) // _N_SHARED))
    if codelet.has_products:
        blocks = _in_groups(codelet, blocks, field, most_joined)
    blocks = _over_windows(codelet, blocks, most_joined)
    for field_dims in reversed(codelet.independent):
        if len(blocks) > 1:
            blocks = _joined(_along(codelet, field_dims, blocks), most_joined)
    return blocks


def _over_windows(codelet: Codelet, blocks: Blocks, most_work: int) -> Blocks:
    """Return the pieces joined along the dimensions in which windows move."""
    for window in reversed(codelet.sliding):
        if len(blocks) > 1:
            blocks = _joined(_windows(codelet, window, blocks), most_work)
    return blocks


def _in_groups(codelet: Codelet, blocks: Blocks, field: int, most_work: int) -> Blocks:
    """Return products joined to a few groups of outputs of the same inputs, ordered by a field.

    The kernel computes such groups together: it loads an input once for all of them. First, windows
    are joined, up to an equal share of the work: joined after groups, they would be cut where the
    edges of the input leave a group alone.
    """
    x = next(index for index, part in enumerate(codelet.fields) if not part.is_written)
    out = next(index for index, part in enumerate(codelet.fields) if part.is_written)
    n_outputs = set(blocks.size[out][:, -1].tolist())
    most_groups = max(_GROUPS.get(n, _MOST_GROUPS) for n in n_outputs)
    blocks = _over_windows(codelet, blocks, most_work // most_groups)
    blocks = blocks.take(np.lexsort([blocks.start[field], blocks.start[x]]))
    for field_dims in codelet.independent:
        if field_dims[x] < 0 and len(blocks) > 1:
            blocks = _joined(_along(codelet, field_dims, blocks), most_blocks=most_groups)
    return blocks.take(np.argsort(blocks.start[field], kind="stable"))


def _links(blocks: Blocks) -> _Links:
    return _Links(blocks, np.ones(len(blocks) - 1, dtype=bool), {})


def _along(codelet: Codelet, field_dims: Sequence[int], blocks: Blocks) -> _Links:
    """Link neighbours along a dimension, whose place in every field is given."""
    links = _links(blocks)
    for scalar in blocks.scalars:
        links.same(scalar)
    length: Counts | None = None
    for index, (field, dim) in enumerate(zip(codelet.fields, field_dims, strict=True)):
        if dim < 0:
            links.same(blocks.start[index])
            links.same_shape(index)
            continue
        is_innermost = field.is_written and dim == field.n_dims - 1
        links.follows(index, dim, is_contiguous=field.is_vector or is_innermost)
        sizes = blocks.size[index][:, dim]
        if length is not None:
            links.adjoins &= (sizes[:-1] == length[:-1]) & (sizes[1:] == length[1:])
        length = sizes
    return links


def _windows(codelet: Codelet, window: Sliding, blocks: Blocks) -> _Links:
    """Link neighbours along a dimension in which windows move.

    Counted from the first tap of the first window of a piece, its region of the operand is [low,
    high). The joined region reaches from the first low to the last high: a tap beyond the region
    of its own vertex must be beyond the joined one, too.
    """
    links = _links(blocks)
    names = [field.name for field in codelet.fields]
    scalars = {s.name: c for s, c in zip(codelet.kernel_scalars, blocks.scalars, strict=True)}
    for name, column in scalars.items():
        if name != window.shift:
            links.same(column)
    source, result = names.index(window.source[0]), names.index(window.result[0])
    for index in range(len(names)):
        if index not in (source, result):
            links.same(blocks.start[index])
            links.same_shape(index)
    links.follows(result, window.result[1], is_contiguous=False)
    dim = window.source[1]
    links.same_shape(source, dim)
    if isinstance(window.taps, str):
        taps = scalars[window.taps]
    else:
        taps = blocks.size[names.index(window.taps[0])][:, window.taps[1]]
    stride, shift = scalars[window.stride][:-1], scalars[window.shift]
    size = blocks.size[source][:, dim]
    next_window = blocks.size[result][:-1, window.result[1]] * stride
    low, next_low = -shift[:-1], next_window - shift[1:]
    high, next_high = low + size[:-1], next_low + size[1:]
    last_tap = next_window - stride + (taps[:-1] - 1) * scalars[window.dilation][:-1]
    links.adjoins &= (low < high) & (next_low < next_high)
    links.adjoins &= (low <= next_low) & (high <= next_high)
    links.adjoins &= (last_tap < high) | (high == next_high)
    links.adjoins &= (next_window >= next_low) | (low == next_low)
    # The stride of a single element means nothing, and of two their distance is the step.
    apart, distance = np.diff(blocks.start[source]), next_low - low
    strides = blocks.stride[source][:, dim]
    alone = np.where(distance > 0, apart // np.maximum(distance, 1), strides[1:])
    step = np.where(size[:-1] > 1, strides[:-1], np.where(size[1:] > 1, strides[1:], alone))
    links.adjoins &= apart == step * distance
    links.grows(source, dim, step, distance)
    return links


def _joined(links: _Links, most_work: int | None = None, most_blocks: int = 1 << 62) -> Blocks:
    """Join the pieces that links connect, up to some work or number of pieces."""
    blocks = links.blocks
    limit = np.full(len(blocks), most_blocks)
    if most_work is not None:
        limit = np.clip(most_work // blocks.work, 1, most_blocks)
    first = np.flatnonzero(_cut(links, limit))
    if first.size == len(blocks):
        return blocks
    last = np.append(first[1:], len(blocks)) - 1
    joined = blocks.take(first)
    joined.work = np.add.reduceat(blocks.work, first)
    is_joined = last > first
    for field, (dim, step, distance) in links.grown.items():
        offset = np.concatenate([[0], np.cumsum(distance)])
        size = blocks.size[field][last, dim]
        joined.size[field][:, dim] = offset[last] - offset[first] + size
        joined.stride[field][is_joined, dim] = step[first[is_joined]]
    return joined


def _cut(links: _Links, most_blocks: Counts) -> NDArray[np.bool_]:
    """Return which pieces begin a joined one: runs with one step, and not too long.

    `most_blocks` are the pieces that may be joined from every one on.
    """
    n, adjoins = most_blocks.size, links.adjoins
    differs = np.zeros(n - 1, dtype=bool)
    for _, step, _ in links.grown.values():
        differs[1:] |= step[1:] != step[:-1]
    differs[1:] &= adjoins[1:] & adjoins[:-1]
    # A link behind one that is cut starts afresh: of consecutive changes, every second one cuts.
    boundaries = np.arange(n - 1)
    last_even = np.maximum.accumulate(np.where(differs, -1, boundaries))
    begins = np.ones(n, dtype=bool)
    begins[1:] = ~adjoins | (differs & ((boundaries - last_even) % 2 == 1))
    block = np.arange(n)
    first = np.maximum.accumulate(np.where(begins, block, 0))
    begins |= (block - first) % most_blocks[first] == 0
    return begins
