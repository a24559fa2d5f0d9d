"""The tile mapping of a variable that is mapped view by view."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.mapping.mapping import runs_of
from tilescope.engine.graph.tensor.tensor import Tensor

__all__ = ["overlaid"]

Intervals = tuple[NDArray[np.int64], NDArray[np.int32]]


def overlaid(base: Intervals, view: Tensor, intervals: Intervals) -> Intervals:
    """Return the mapping of a variable after a view on it is mapped.

    Parameters
    ----------
    base : (ndarray of int64, ndarray of int32)
        Starts and tiles of the variable's intervals so far, ascending from 0; -1 where it has
        none.
    view
        A view that shows no element twice.
    intervals : (ndarray of int64, ndarray of int32)
        Starts and tiles in the logical order of the view, ascending from 0.

    Returns
    -------
    starts, tiles : ndarray of int64, ndarray of int32
        As `base`.

    Raises
    ------
    BadGraph
        If the view shows an element twice.
    """
    variable = view.variable
    start, end, tile = _in_memory(view, *intervals)
    if (start[1:] < end[:-1]).any():
        raise BadGraph(
            f"The view of {variable.name!r} to map shows an element twice: map one that does not"
            " broadcast"
        )
    cuts = np.union1d(base[0], np.append(start, end))
    cuts = cuts[cuts < variable.n_elements]
    base_tiles = base[1][np.searchsorted(base[0], cuts, side="right") - 1]
    within = np.searchsorted(start, cuts, side="right") - 1
    is_shown = (within >= 0) & (cuts < end[within])
    return cuts, np.where(is_shown, tile[within], base_tiles).astype(np.int32)


def _in_memory(
    view: Tensor, starts: NDArray[np.int64], tiles: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Return start, end and tile of a view's intervals in memory, ascending."""
    first, length = runs_of(view)
    cuts = np.union1d(starts, np.arange(first.size, dtype=np.int64) * length)
    start = first[cuts // length] + cuts % length
    end = start + np.diff(np.append(cuts, view.n_elements))
    tile = tiles[np.searchsorted(starts, cuts, side="right") - 1]
    order = np.argsort(start, kind="stable")
    return start[order], end[order], tile[order]
