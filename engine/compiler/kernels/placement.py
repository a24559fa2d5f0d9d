"""Where the parts of variables lie on each tile: first fit, swept over the program's steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.codelets._jit import cached_jit

__all__ = ["first_fit"]


@cached_jit
def _first_fit(tile_start, size, start, end, base):  # type: ignore[no-untyped-def]
    n_tiles = base.size
    offset = np.zeros(size.size, np.int64)
    highest = base.copy()
    for t in range(n_tiles):
        a, b = tile_start[t], tile_start[t + 1]
        live = np.empty(b - a, np.int64)  # parts in use, ascending by address
        n_live = 0
        for i in range(a, b):
            kept = 0
            for k in range(n_live):
                if end[live[k]] > start[i]:
                    live[kept] = live[k]
                    kept += 1
            n_live = kept
            at = base[t]
            slot = 0
            while slot < n_live and offset[live[slot]] - at < size[i]:
                after = offset[live[slot]] + size[live[slot]]
                at = max(at, after)
                slot += 1
            for k in range(n_live, slot, -1):
                live[k] = live[k - 1]
            live[slot] = i
            n_live += 1
            offset[i] = at
            highest[t] = max(highest[t], at + size[i])
    return offset, highest


def first_fit(
    tile_start: NDArray[np.int64],
    size: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    base: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Place parts so that none that live at one step overlap.

    Parameters
    ----------
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First part of each tile; parts are sorted by tile, then by `start`.
    size : ndarray of int64
        Bytes of each part, as they are to be aligned.
    start, end : ndarray of int64
        Steps at which each part lives, half-open.
    base : ndarray of int64, shape (n_tiles,)
        First free address of each tile.

    Returns
    -------
    offset : ndarray of int64
        Address of each part.
    highest : ndarray of int64, shape (n_tiles,)
        One past the highest address in use.
    """
    placed: tuple[NDArray[np.int64], NDArray[np.int64]] = _first_fit(
        tile_start, size, start, end, base
    )
    return placed
