"""Overlap tests for runs of elements, by a sweep in memory order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit.entry import array_pass

__all__ = ["first_read_of_write", "first_shared_write"]


@array_pass("int64[:], int64[:]", writes="int64[:]")
def _shared_write(start, length, pair):  # type: ignore[no-untyped-def]
    last = 0
    for i in range(1, start.size):
        if start[i] < start[last] + length[last]:
            pair[0], pair[1] = last, i
            return
        if start[i] + length[i] > start[last] + length[last]:
            last = i


@array_pass("int64[:], int64[:], int64[:], int64[:], int64[:], int64[:]", writes="int64[:]")
def _read_of_write(  # type: ignore[no-untyped-def]
    vertex, start, length, first, write_vertex, write_start, pair
):
    for i in range(start.size):
        k = first[i]
        while k < write_start.size and write_start[k] < start[i] + length[i]:
            if write_vertex[k] != vertex[i]:
                pair[0], pair[1] = i, k
                return
            k += 1


def first_shared_write(
    start: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[int, int] | None:
    """Return the first two runs that overlap, or None.

    Parameters
    ----------
    start, length : ndarray of int64, shape (n,)
        Runs in ascending order of their start.
    """
    pair = np.full(2, -1)
    _shared_write(start, length, pair)
    return None if pair[0] < 0 else (int(pair[0]), int(pair[1]))


def first_read_of_write(
    reads: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    writes: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> tuple[int, int] | None:
    """Return the first run that one vertex reads and another writes, or None.

    Parameters
    ----------
    reads, writes
        Vertex, start and length of runs: ndarrays of int64; written runs ascend and do not
        overlap.

    Returns
    -------
    tuple of int
        Indices of the run read and the run written.
    """
    vertex, start, length = reads
    write_vertex, write_start, write_length = writes
    first = np.searchsorted(write_start + write_length, start, side="right")
    pair = np.full(2, -1)
    _read_of_write(vertex, start, length, first, write_vertex, write_start, pair)
    return None if pair[0] < 0 else (int(pair[0]), int(pair[1]))
