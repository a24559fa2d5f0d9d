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

_LARGEST = 2**62


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
    lasts = found.end_ns[rows] - found.start_ns[rows] >= least_ns
    short = rows[~lasts]
    pixel = (np.maximum(found.start_ns[short], start_ns) - start_ns) // least_ns
    lane = found.thread_id[short].astype(np.int64) * (int(found.depth.max()) + 1)
    lane += found.depth[short]
    n_pixels = int(pixel.max(initial=0)) + 1
    if n_pixels * (int(lane.max(initial=0)) + 1) < _LARGEST:
        _, firsts = np.unique(lane * n_pixels + pixel, return_index=True)
    else:
        _, firsts = np.unique(np.stack([lane, pixel]), axis=1, return_index=True)
    return np.sort(np.concatenate([rows[lasts], short[firsts]]))
