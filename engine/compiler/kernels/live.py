"""How many bytes live on every tile at every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.jit._jit import cached_jit

__all__ = ["live_bytes"]


@cached_jit
def _live(tile, n_bytes, start, end, live):  # type: ignore[no-untyped-def]
    n_steps, n_tiles = live.shape
    for i in range(tile.size):
        if start[i] < n_steps:
            live[start[i], tile[i]] += n_bytes[i]
        if end[i] < n_steps:
            live[end[i], tile[i]] -= n_bytes[i]
    for step in range(1, n_steps):
        for t in range(n_tiles):
            live[step, t] += live[step - 1, t]


def live_bytes(
    tile: NDArray[np.int64],
    n_bytes: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    shape: tuple[int, int],
) -> NDArray[np.int64]:
    """Return the bytes of parts live at each step on each tile.

    Parameters
    ----------
    tile, n_bytes, start, end : ndarray of int64, shape (n_parts,)
        Where each part lies, its size, and its half-open range of steps.
    shape
        Numbers of steps and of tiles.

    Returns
    -------
    ndarray of int64, shape (n_steps, n_tiles), bytes
    """
    live = np.zeros(shape, np.int64)
    _live(tile, n_bytes, start, end, live)
    return live
