"""The one definition of figures that the engine and the analyser share, as pure functions.

The engine applies them to an executable, `tilescope.analyser.figures` to a report.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["bytes_past", "fits", "missing_bytes", "parallel_efficiency", "tile_balance"]


def bytes_past(end: NDArray[np.int64], limit_bytes: int) -> NDArray[np.int64]:
    """Return how far each end reaches past a limit, int64, bytes; 0 where it does not."""
    return np.asarray(np.maximum(end - limit_bytes, 0))


def missing_bytes(
    highest: NDArray[np.int64],
    code_end: NDArray[np.int64],
    capacity_bytes: int,
    executable_bytes: int,
) -> NDArray[np.int64]:
    """Return the bytes that tiles lack; 0 where a tile fits.

    A tile fits when its highest address is within its memory and its code within the memory that
    code can be executed from. A tile that lacks both needs the larger amount.

    Parameters
    ----------
    highest : ndarray of int64, shape (n_tiles,), bytes
        One past the highest address in use.
    code_end : ndarray of int64, shape (n_tiles,), bytes
        One past the highest address of code.
    capacity_bytes
        What programs may use of a tile's memory.
    executable_bytes
        Length of the region that code can be executed from.

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

    Over several steps it is weighted by the maximum: both cycles are summed over them.

    Parameters
    ----------
    busy_cycles
        Sum over the tiles, idle ones included.
    busiest_cycles
        Of the busiest tile.
    n_tiles
        Tiles that take part, idle ones included.

    Returns
    -------
    float or None
        None where no tile is busy.
    """
    offered = busiest_cycles * n_tiles
    return busy_cycles / offered if offered else None


def parallel_efficiency(active_cycles: float, cycles: float, n_tiles: int) -> float | None:
    """Return the share of all tiles' time in which they compute or exchange, 0 to 1.

    Parameters
    ----------
    active_cycles
        In which tiles compute or exchange, summed over tiles.
    cycles
        How long it took.
    n_tiles
        Tiles that could have taken part.

    Returns
    -------
    float or None
        None where no time passed.
    """
    offered = cycles * n_tiles
    return active_cycles / offered if offered else None
