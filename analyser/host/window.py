"""The events of a window of time, at the detail that can be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.host.events import events

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.reports import Report

__all__ = ["window"]


def window(report: Report, start_ns: int, end_ns: int, *, least_ns: int = 0) -> NDArray[np.int64]:
    """Return the events that touch a window, as rows of `events`, in their order.

    Parameters
    ----------
    report
        An open trace.
    start_ns, end_ns
        The window, nanoseconds since the trace began.
    least_ns
        Of shorter events of a thread and depth, only the first of every such time is returned, as
        a chart shows one of them in a pixel.

    Returns
    -------
    ndarray of int64, shape (n_events,)

    Raises
    ------
    BadQuestion
        When the window ends before it starts, or `least_ns` is negative.
    """
    if end_ns < start_ns or least_ns < 0:
        raise BadQuestion(
            f"The window from {start_ns} to {end_ns} ns at {least_ns} ns is invalid:"
            " give an end after its start, and a detail of 0 or more."
        )
    found = events(report)
    rows = np.flatnonzero((found.start_ns < end_ns) & (found.end_ns >= start_ns))
    if least_ns == 0 or not len(rows):
        return rows
    lasting = found.end_ns[rows] - found.start_ns[rows] >= least_ns
    pixel = (np.maximum(found.start_ns[rows], start_ns) - start_ns) // least_ns
    place = np.stack([found.thread_id[rows], found.depth[rows], pixel])
    place[:, lasting] = -1 - np.arange(int(lasting.sum()))
    _, firsts = np.unique(place, axis=1, return_index=True)
    return rows[np.sort(firsts)]
