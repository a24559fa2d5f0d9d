"""Scheduling of worker vertices on the contexts of their tile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.jit._jit import cached_jit

__all__ = ["list_schedule"]


@cached_jit
def _schedule(tile, cycles, n_tiles, n_contexts):  # type: ignore[no-untyped-def]
    busy = np.zeros((n_tiles, n_contexts), np.int64)
    n_used = np.zeros(n_tiles, np.int32)
    for v in range(tile.size):
        t = tile[v]
        least = n_used[t]
        if least < n_contexts:  # no context is less busy than an idle one
            n_used[t] = least + 1
            busy[t, least] = cycles[v]
        else:
            least = 0
            for c in range(1, n_contexts):
                if busy[t, c] < busy[t, least]:
                    least = c
            busy[t, least] += cycles[v]
    longest = np.zeros(n_tiles, np.int64)
    for t in range(n_tiles):
        for c in range(n_contexts):
            longest[t] = max(longest[t], busy[t, c])
    return longest * n_contexts


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
    longest: NDArray[np.int64] = _schedule(tile, cycles, n_tiles, n_contexts)
    return longest
