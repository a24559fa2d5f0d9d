"""The host's partitioner: blocks of a pattern in buckets of limited size.

A bucket takes blocks of its own part first. What is left goes to the next buckets with room, as
near as possible, so that buckets are passed around in few steps.
Source: graphcore/poplibs sdk-release-3.4, lib/popsparse/SparsePartitionerImpl.cpp (overflow goes to
other partitions, and the host counts the steps).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.planner.sparse.dynamic_plan import GROUP_PLACES, ROW_PLACES, DynamicPlan
from tilescope.engine.planner.sparse.pattern import BlockPattern

__all__ = ["Buckets", "fill_buckets", "read_buckets"]

Counts = NDArray[np.int64]


class Buckets(NamedTuple):
    """Where the blocks of a pattern are.

    Parameters
    ----------
    places : ndarray of uint16, shape (n_parts, n_places)
        See `tilescope.engine.codelets.popsparse.bucket`.
    slot : ndarray of int64, shape (n_blocks,)
        Place of every block of the pattern among the blocks of all buckets.
    steps
        Buckets that the farthest one with blocks of a part is behind the part's own.
    """

    places: NDArray[np.uint16]
    slot: Counts
    steps: int


def fill_buckets(name: str, plan: DynamicPlan, pattern: BlockPattern) -> Buckets:
    """Divide the blocks of a pattern among the buckets of a plan.

    Parameters
    ----------
    name
        Name of the weights, for messages.
    plan
        Of the product.
    pattern
        Of a matrix of the plan's shape.

    Raises
    ------
    BadGraph
        If there are more blocks than planned, or their places do not fit.
    """
    most, size = plan.shape.most_blocks, plan.shape.block_size
    if pattern.n_blocks > most:
        raise BadGraph(
            f"{name!r} takes up to {most * size**2} values, as planned, and the pattern has"
            f" {pattern.n_values}: prune it, or compile with a larger n_values"
        )
    part = plan.part_of(pattern)
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part, minlength=plan.n_parts))
    own = np.split(order, ends[:-1])
    filling = _Filling(plan, pattern)
    left = [filling.take(p, p, own[p]) for p in range(plan.n_parts)]
    steps = 0
    for p, overflow in enumerate(left):
        rest = overflow
        for step in range(1, plan.n_parts):
            if not rest.size:
                break
            fewer = filling.take(p, (p + step) % plan.n_parts, rest)
            steps = max(steps, step) if fewer.size < rest.size else steps
            rest = fewer
        if rest.size:
            raise BadGraph(
                f"{name!r}: the pattern has blocks in so many rows that their places do not fit the"
                f" {plan.n_places} of each of {plan.n_parts} buckets, and {rest.size} blocks are"
                " left: prune it, or compile with a larger n_values"
            )
    return Buckets(filling.places, filling.slot, steps)


class _Filling:
    """Buckets that are being filled."""

    def __init__(self, plan: DynamicPlan, pattern: BlockPattern) -> None:
        self._plan, self._pattern = plan, pattern
        self.places = np.zeros((plan.n_parts, plan.n_places), np.uint16)
        self.slot = np.zeros(pattern.n_blocks, np.int64)
        self._n_blocks = np.zeros(plan.n_parts, np.int64)
        self._n_places = np.zeros(plan.n_parts, np.int64)

    def take(self, part: int, bucket: int, blocks: Counts) -> Counts:
        """Add blocks of a part to a bucket, as many as fit, and return the others.

        Parameters
        ----------
        part, bucket
            Numbers of the part and of the bucket.
        blocks : ndarray of int64
            Blocks of the pattern, by row.
        """
        plan, pattern = self._plan, self._pattern
        room = plan.capacity - int(self._n_blocks[bucket])
        taken = blocks[:room]
        rows = pattern.rows[taken]
        is_first = np.diff(rows, prepend=-1) != 0
        needed = GROUP_PLACES + np.cumsum(1 + ROW_PLACES * is_first)
        fits = int(np.searchsorted(needed, plan.n_places - self._n_places[bucket], side="right"))
        taken, is_first = taken[:fits], is_first[:fits]
        if not taken.size:
            return blocks
        start = int(self._n_places[bucket])
        self._write(self.places[bucket, start : start + int(needed[fits - 1])], part, taken)
        first = bucket * plan.capacity + int(self._n_blocks[bucket])
        self.slot[taken] = first + np.arange(taken.size)
        self._n_places[bucket] += needed[fits - 1]
        self._n_blocks[bucket] += taken.size
        return blocks[taken.size :]

    def _write(self, places: NDArray[np.uint16], part: int, blocks: Counts) -> None:
        """Write the places of a group."""
        plan, pattern = self._plan, self._pattern
        rows = pattern.rows[blocks] - part // plan.y_parts * plan.rows
        columns = pattern.columns[blocks] - part % plan.y_parts * plan.columns
        start = np.flatnonzero(np.diff(rows, prepend=-1))
        places[:GROUP_PLACES] = part + 1, start.size
        row_at = GROUP_PLACES + start + ROW_PLACES * np.arange(start.size)
        places[row_at] = rows[start]
        places[row_at + 1] = np.diff(start, append=rows.size)
        row_number = np.cumsum(np.diff(rows, prepend=-1) != 0)
        places[GROUP_PLACES + np.arange(rows.size) + ROW_PLACES * row_number] = columns


def read_buckets(plan: DynamicPlan, places: NDArray[np.uint16]) -> tuple[BlockPattern, Counts]:
    """Return the pattern of places, and the slot of every one of its blocks.

    Parameters
    ----------
    plan
        Of the product.
    places : ndarray of uint16, shape (n_parts, n_places)
        As `fill_buckets` returns them.
    """
    rows, columns, slots = [], [], []
    for bucket, of_bucket in enumerate(places.astype(np.int64)):
        at, slot = 0, bucket * plan.capacity
        while at < of_bucket.size and of_bucket[at]:
            part, n_rows = int(of_bucket[at]) - 1, int(of_bucket[at + 1])
            at += GROUP_PLACES
            for _ in range(n_rows):
                row, n_blocks = of_bucket[at : at + ROW_PLACES]
                at += ROW_PLACES
                rows.append(np.full(n_blocks, row + part // plan.y_parts * plan.rows))
                columns.append(of_bucket[at : at + n_blocks] + part % plan.y_parts * plan.columns)
                slots.append(slot + np.arange(n_blocks))
                at, slot = at + n_blocks, slot + n_blocks
    none = [np.zeros(0, np.int64)]
    row, column, every = (np.concatenate(none + some) for some in (rows, columns, slots))
    shape = plan.shape
    pattern, order = BlockPattern.sorted_by_row(
        (shape.n_rows, shape.n_columns), shape.block_size, row, column
    )
    return pattern, every[order]
