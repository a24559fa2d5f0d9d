"""Buckets: the sparse data of a tile in a dynamic product, and how vertices walk through it.

A bucket has room for a number of blocks, whose values and places the host changes between runs.
Places are groups, one for each part of the matrix with blocks in the bucket: the number of the part
from 1, the number of rows of blocks, and for every row its place in the part, the number of its
blocks, and their columns in the part. A group of 0 ends them. Blocks are in the order of places.
A vertex multiplies the blocks of its tile's own part, and passes others over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit

__all__ = ["Work", "count_of", "work_of"]

Counts = NDArray[np.int64]

#: What a vertex counts, in one number: blocks, groups that it passes over, and rows.
_FOREIGN, _ROWS = 1 << 24, 1 << 40


@jit
def count_of(rows, blocks, foreign):  # type: ignore[no-untyped-def]
    """Return what a vertex did as one number: rows and blocks of its part, and other groups."""
    return rows * _ROWS + foreign * _FOREIGN + blocks


class Work(NamedTuple):
    """What vertices did: ndarrays of int64, shape (n_vertices,).

    Parameters
    ----------
    rows, blocks
        Rows of blocks, and blocks, of the vertex's part of the matrix.
    foreign
        Groups of other parts.
    """

    rows: Counts
    blocks: Counts
    foreign: Counts


def work_of(batch: Batch) -> Work:
    """Return what the vertices of a batch counted."""
    counts = batch.counts
    return Work(counts // _ROWS, counts % _FOREIGN, counts % _ROWS // _FOREIGN)
