"""Live bytes of every tile at its worst step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit.entry import array_pass

__all__ = ["peaks"]


@array_pass("int64[:], int64[:], int64[:], int64[:]", writes="int64[:], int64[:], int64[:]")
def _peaks(tile_start, n_bytes, start, end, change, peak, peak_step):  # type: ignore[no-untyped-def]
    n_steps = change.size - 1
    for tile in range(peak.size):
        is_used = False
        for i in range(tile_start[tile], tile_start[tile + 1]):
            if n_bytes[i] > 0:
                is_used = True
                change[min(start[i], n_steps)] += n_bytes[i]
                change[min(end[i], n_steps)] -= n_bytes[i]
        if not is_used:
            continue
        live = 0
        for step in range(n_steps):
            live += change[step]
            change[step] = 0
            if live > peak[tile]:
                peak[tile] = live
                peak_step[tile] = step
        change[n_steps] = 0


def peaks(
    tile_start: NDArray[np.int64],
    n_bytes: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    n_steps: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each tile's peak of live bytes, and the first step at which it occurs.

    Parameters
    ----------
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First part of each tile.
    n_bytes, start, end : ndarray of int64, shape (n_parts,)
        Size of each part, and its half-open range of steps.
    n_steps
        Number of steps.

    Returns
    -------
    tuple of ndarray of int64, shape (n_tiles,)
        Bytes, and steps.
    """
    peak, peak_step = np.zeros((2, tile_start.size - 1), np.int64)
    change = np.zeros(n_steps + 1, np.int64)
    _peaks(tile_start, n_bytes, start, end, change, peak, peak_step)
    return peak, peak_step
