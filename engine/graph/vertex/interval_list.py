"""Lists of intervals: fields of which a vertex has several, of lengths of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import shown, whole_numbers
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.vertex.regions import Regions, blocks, check_variable, regions_of

if TYPE_CHECKING:
    from tilescope.engine.graph.variable import Variable

__all__ = ["interval_lists", "lists_of"]


def interval_lists(
    variable: Variable,
    first: ArrayLike,
    start: ArrayLike,
    size: ArrayLike,
) -> Regions:
    """Return lists of intervals, for fields of that kind.

    Parameters
    ----------
    variable
        The variable they are on.
    first : array of int, shape (n_vertices + 1,)
        Place of every vertex's first interval among all, and the number of intervals.
    start : ndarray of int64, shape (n_intervals,)
        First elements.
    size : ndarray of int64, shape (n_intervals,), or int
        Numbers of elements.

    Raises
    ------
    BadGraph
        When lengths do not match, or a vertex has no intervals.
    """
    check_variable(variable)
    where = f"Lists of intervals on {variable.name!r}"
    first_intervals = np.atleast_1d(whole_numbers(f"{where}: the first intervals", first))
    n_intervals = int(np.size(start))
    ends = int(first_intervals[0]), int(first_intervals[-1])
    if (
        first_intervals.ndim != 1
        or ends != (0, n_intervals)
        or (np.diff(first_intervals) < 0).any()
    ):
        raise BadGraph(
            f"{where}: the first intervals of vertices must ascend from 0 to the number of all"
            f" intervals, {n_intervals}, got {shown(first_intervals.tolist())}"
        )
    _check_none_empty(where, np.diff(first_intervals))
    sizes = whole_numbers(f"{where}: the sizes", size)
    every = blocks(variable, np.asarray(start), [sizes], [1], n_intervals)
    return Regions(
        variable, every.start, every.size, every.stride, np.array(first_intervals, order="C")
    )


def _check_none_empty(where: str, counts: NDArray[np.int64]) -> None:
    if not counts.all():
        vertex = int(np.flatnonzero(counts == 0)[0])
        raise BadGraph(f"{where}: vertex {vertex} has no intervals: give at least one")


def lists_of(where: str, connected: object, n_vertices: int) -> Regions:
    """Return the regions of a field that is a list of intervals, given as such or as slices.

    Parameters
    ----------
    where
        The field, for messages.
    connected
        Regions of `interval_lists`; or, per vertex, a list of contiguous slices of one variable.
    n_vertices
        Number of vertices.

    Raises
    ------
    BadGraph
        When a vertex has no intervals, or a slice is not contiguous or on another variable.
    """
    if hasattr(connected, "stride"):
        return connected  # type: ignore[return-value] # regions, or an object that looks like them
    lists: list[Any] = list(connected) if isinstance(connected, list | tuple) else [connected]
    if not lists or not all(isinstance(intervals, list | tuple) for intervals in lists):
        raise BadGraph(
            f"{where} takes a list of slices per vertex, as [[x.slice(0, 0, 4)], …], or"
            " engine.graph.interval_lists"
        )
    if len(lists) != n_vertices:
        raise BadGraph(f"{where} has {len(lists)} lists for {n_vertices} vertices: give one each")
    counts = np.array([len(intervals) for intervals in lists], np.int64)
    _check_none_empty(where, counts)
    slices = [interval for intervals in lists for interval in intervals]
    regions = regions_of(where, slices, len(slices), 1)
    if (regions.stride[regions.size > 1] != 1).any():
        row = int(np.flatnonzero(((regions.stride != 1) & (regions.size > 1)).any(axis=1))[0])
        raise BadGraph(
            f"{where}: a slice of {regions.variable.name!r} of shape {tuple(slices[row].shape)} is"
            " not contiguous: give its contiguous parts"
        )
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Regions(regions.variable, regions.start, regions.size, regions.stride, first)
