"""Scheduling of worker vertices on the contexts of their tile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit.entry import array_pass

__all__ = ["list_schedule"]


@array_pass("int32[:], int64[:]", writes="int64[:, :], int64[:]")
def _schedule(tile, cycles, busy, n_used):  # type: ignore[no-untyped-def]
    """Add the instructions of every vertex to a context of its tile."""
    n_contexts = busy.shape[1]
    for v in range(tile.size):
        t = tile[v]
        minimum = n_used[t]
        if minimum < n_contexts:  # no context is less busy than an idle one
            n_used[t] = minimum + 1
            busy[t, minimum] = cycles[v]
        else:
            minimum = 0
            for c in range(1, n_contexts):
                if busy[t, c] < busy[t, minimum]:
                    minimum = c
            busy[t, minimum] += cycles[v]


def list_schedule(
    tile: NDArray[np.int32], cycles: NDArray[np.int64], n_tiles: int, n_contexts: int
) -> NDArray[np.int64]:
    """Return each tile's cycles when every worker vertex goes to the least busy context.

    Parameters
    ----------
    tile : ndarray of int32, shape (n_vertices,)
        Tile of each vertex.
    cycles : ndarray of int64, shape (n_vertices,)
        Instructions of each vertex; a context issues every `n_contexts` cycles.

    Returns
    -------
    ndarray of int64, shape (n_tiles,)
        Longest context times the number of contexts.
    """
    busy = np.zeros((n_tiles, n_contexts), np.int64)
    _schedule(tile, cycles, busy, np.zeros(n_tiles, np.int64))
    return np.asarray(busy.max(axis=1, initial=0) * n_contexts)
