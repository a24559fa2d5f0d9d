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

from tilescope.engine.graph.codelet import Codelet

__all__ = ["MOST_JOINED", "Blocks", "join"]

Counts = NDArray[np.int64]

#: Elements of all fields that are joined at most: 256 KiB in floats, and enough pieces of a
#: large batch for all threads. The pieces do not depend on the number of threads.
MOST_JOINED = 1 << 16


@dataclass
class Blocks:
    """The regions of a batch on the host: starts, sizes and strides by field, and the scalars.

    Parameters
    ----------
    start, size, stride
        By field: ndarrays of int64, shapes (n,), (n, n_dims) and (n, n_dims), elements.
    scalars
        Ndarrays of shape (n,).
    n_elements : ndarray of int64, shape (n,)
        Elements of all fields.
    """

    start: list[Counts]
    size: list[Counts]
    stride: list[Counts]
    scalars: list[NDArray[Any]]
    n_elements: Counts

    def __len__(self) -> int:
        """Return the number of pieces."""
        return self.n_elements.size

    def take(self, rows: NDArray[np.intp]) -> Blocks:
        """Return some of the pieces, in that order."""
        return Blocks(
            [column[rows] for column in self.start],
            [column[rows] for column in self.size],
            [column[rows] for column in self.stride],
            [column[rows] for column in self.scalars],
            self.n_elements[rows],
        )


def join(codelet: Codelet, blocks: Blocks) -> Blocks:
    """Return the pieces in which the host computes a batch: its vertices, joined where they adjoin.

    Every element is computed from the same elements as before.
    """
    dims = codelet.independent
    if not dims or len(blocks) < 2:
        return blocks
    written = [field.is_written for field in codelet.fields]
    order = blocks.start[0]
    if (order[1:] < order[:-1]).any():
        blocks = blocks.take(np.argsort(order, kind="stable"))
    for places in reversed(dims):
        # Along the innermost dimension, results stay contiguous.
        unit = [
            field.is_vector or (is_written and places is dims[-1])
            for field, is_written in zip(codelet.fields, written, strict=True)
        ]
        blocks = _along(places, unit, blocks)
    return blocks


def _along(places: Sequence[int], unit: Sequence[bool], blocks: Blocks) -> Blocks:
    """Join neighbours along one dimension, whose place in every field is given."""
    if len(blocks) < 2:
        return blocks
    adjoins, steps = _links(places, unit, blocks)
    first = np.flatnonzero(_cut(adjoins, steps, blocks.n_elements))
    if first.size == len(blocks):
        return blocks
    joined = blocks.take(first)
    joined.n_elements = np.add.reduceat(blocks.n_elements, first)
    is_joined = np.diff(first, append=len(blocks)) > 1
    for field, place in enumerate(places):
        if place < 0:
            continue
        joined.size[field][:, place] = np.add.reduceat(blocks.size[field][:, place], first)
        stride = joined.stride[field]
        own = first[is_joined]
        stride[is_joined, place] = steps[field][own]
    return joined


def _links(
    places: Sequence[int], unit: Sequence[bool], blocks: Blocks
) -> tuple[NDArray[np.bool_], list[Counts]]:
    """Return whether each piece is continued by the next, and its step by field, elements."""
    n_links = len(blocks) - 1
    adjoins = np.ones(n_links, dtype=bool)
    for scalar in blocks.scalars:
        adjoins &= scalar[1:] == scalar[:-1]
    steps: list[Counts] = []
    length: Counts | None = None
    for place, is_unit, start, size, stride in zip(
        places, unit, blocks.start, blocks.size, blocks.stride, strict=True
    ):
        # The stride of a single element means nothing.
        strides = np.where(size > 1, stride, 0)
        for d in range(size.shape[1]):
            if d != place:
                adjoins &= (size[1:, d] == size[:-1, d]) & (strides[1:, d] == strides[:-1, d])
        apart = np.diff(start)
        if place < 0:
            adjoins &= apart == 0
            steps.append(np.zeros(n_links, np.int64))
            continue
        own = size[:, place]
        step = np.where(own[:-1] > 1, strides[:-1, place], apart)
        adjoins &= apart == step * own[:-1]
        adjoins &= (own[1:] == 1) | (strides[1:, place] == step)
        adjoins &= (step == 1) | (not is_unit)
        if length is not None:
            adjoins &= own[:-1] == length[:-1]
            adjoins &= own[1:] == length[1:]
        length = own
        steps.append(step)
    return adjoins, steps


def _cut(
    adjoins: NDArray[np.bool_], steps: Sequence[Counts], n_elements: Counts
) -> NDArray[np.bool_]:
    """Return which pieces begin a joined one: runs with one step, and not too long."""
    n = n_elements.size
    differs = np.zeros(n - 1, dtype=bool)
    for step in steps:
        differs[1:] |= step[1:] != step[:-1]
    differs[1:] &= adjoins[1:] & adjoins[:-1]
    # A link behind one that is cut starts afresh: of consecutive changes, every second one cuts.
    place = np.arange(n - 1)
    last_even = np.maximum.accumulate(np.where(differs, -1, place))
    begins = np.ones(n, dtype=bool)
    begins[1:] = ~adjoins | (differs & ((place - last_even) % 2 == 1))
    piece = np.arange(n)
    first = np.maximum.accumulate(np.where(begins, piece, 0))
    most = np.maximum(1, MOST_JOINED // n_elements[first])
    begins |= (piece - first) % most == 0
    return begins
