"""Live bytes of every tile at its worst step, and what is live at a step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.kernels.placement import Lifetimes
from tilescope.engine.host.jit.entry import array_pass

__all__ = ["live_at", "peaks"]


@array_pass(
    "int64[:], int64[:], int64[:], int64[:], int64[:], int64[:]",
    writes="int64[:], int64[:], int64[:]",
)
def _peaks(tile_start, n_bytes, owner, first, start, end, change, peak, peak_step):  # type: ignore[no-untyped-def]
    n_steps = change.size - 1
    for tile in range(peak.size):
        is_used = False
        for i in range(tile_start[tile], tile_start[tile + 1]):
            if n_bytes[i] > 0:
                is_used = True
                for life in range(first[owner[i]], first[owner[i] + 1]):
                    change[min(start[life], n_steps)] += n_bytes[i]
                    change[min(end[life], n_steps)] -= n_bytes[i]
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


@array_pass(
    "int64[:], int64[:], int64[:], int64[:], int64[:], int64[:]",
    writes="bool[:]",
)
def _live_at(tile_start, step, owner, first, start, end, is_live):  # type: ignore[no-untyped-def]
    for tile in range(step.size):
        for i in range(tile_start[tile], tile_start[tile + 1]):
            for life in range(first[owner[i]], first[owner[i] + 1]):
                if start[life] <= step[tile] < end[life]:
                    is_live[i] = True


def peaks(
    tile_start: NDArray[np.int64], n_bytes: NDArray[Any], lifetimes: Lifetimes, n_steps: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each tile's peak of live bytes, and the first step at which it occurs.

    Parameters
    ----------
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First part of each tile.
    n_bytes : ndarray of integers, shape (n_parts,)
        Size of each part.
    lifetimes
        The lives of the parts.
    n_steps
        Number of steps.

    Returns
    -------
    tuple of ndarray of int64, shape (n_tiles,)
        Bytes, and steps.
    """
    peak, peak_step = np.zeros((2, tile_start.size - 1), np.int64)
    change = np.zeros(n_steps + 1, np.int64)
    _peaks(tile_start, n_bytes, *lifetimes, change, peak, peak_step)
    return peak, peak_step


def live_at(
    step: NDArray[np.int64], tile_start: NDArray[np.int64], lifetimes: Lifetimes
) -> NDArray[np.bool_]:
    """Return which parts are live at a step of their tile: ndarray of bool, shape (n_parts,).

    Parameters
    ----------
    step : ndarray of int64, shape (n_tiles,)
        The step that counts on each tile.
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First part of each tile.
    lifetimes
        The lives of the parts.
    """
    is_live = np.zeros(lifetimes.owner.size, np.bool_)
    _live_at(tile_start, step, *lifetimes, is_live)
    return is_live
