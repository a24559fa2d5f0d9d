"""Definitions of the figures that the engine and the analyser share, as pure functions.

The engine applies them to an executable, `tilescope.analyser.time.figures` to a report.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["bytes_past", "fits", "missing_bytes", "parallel_efficiency", "tile_balance"]


def bytes_past(end: NDArray[np.int64], limit_bytes: int) -> NDArray[np.int64]:
    """Return the bytes of every end past a limit, int64; 0 within the limit."""
    return np.asarray(np.maximum(end - limit_bytes, 0))


def missing_bytes(
    highest: NDArray[np.int64],
    code_end: NDArray[np.int64],
    capacity_bytes: int,
    executable_bytes: int,
) -> NDArray[np.int64]:
    """Return the bytes that tiles lack; 0 if a tile fits.

    A tile fits if its highest address is within its memory and its code is within executable
    memory. If both overflow, the larger amount counts.

    Parameters
    ----------
    highest : ndarray of int64, shape (n_tiles,), bytes
        One past the highest address in use.
    code_end : ndarray of int64, shape (n_tiles,), bytes
        One past the highest address of code.
    capacity_bytes
        Memory per tile available to programs.
    executable_bytes
        Size of executable memory.

    Returns
    -------
    ndarray of int64, shape (n_tiles,), bytes
    """
    return np.asarray(
        np.maximum(
            bytes_past(highest, capacity_bytes),
            bytes_past(code_end, executable_bytes),
        )
    )


def fits(
    highest: NDArray[np.int64],
    code_end: NDArray[np.int64],
    capacity_bytes: int,
    executable_bytes: int,
) -> NDArray[np.bool_]:
    """Return which tiles fit, bool of shape (n_tiles,); parameters as in `missing_bytes`."""
    return np.asarray(missing_bytes(highest, code_end, capacity_bytes, executable_bytes) == 0)


def tile_balance(busy_cycles: float, busiest_cycles: float, n_tiles: int) -> float | None:
    """Return the tile balance: mean over maximum of tiles' busy cycles, 0 to 1.

    For several steps, both cycles are summed, which weights the steps by their maximum.

    Parameters
    ----------
    busy_cycles
        Sum over tiles.
    busiest_cycles
        Cycles of the busiest tile.
    n_tiles
        Participating tiles, including idle ones.

    Returns
    -------
    float or None
        None if no tile is busy.
    """
    offered = busiest_cycles * n_tiles
    return busy_cycles / offered if offered else None


def parallel_efficiency(active_cycles: float, cycles: float, n_tiles: int) -> float | None:
    """Return the share of tile time spent computing or exchanging, 0 to 1.

    Parameters
    ----------
    active_cycles
        Cycles of compute and exchange, summed over tiles.
    cycles
        Elapsed cycles.
    n_tiles
        Available tiles.

    Returns
    -------
    float or None
        None if no time passed.
    """
    offered = cycles * n_tiles
    return active_cycles / offered if offered else None
