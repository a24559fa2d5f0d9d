"""Figures of a trace: by label, and by thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.host.events import Events, events
from tilescope.analyser.host.trace import Thread, host_trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.reports import Report

__all__ = [
    "ChannelFigures",
    "LabelFigures",
    "ThreadFigures",
    "channel_figures",
    "label_figures",
    "thread_figures",
]


@dataclass(frozen=True)
class LabelFigures:
    """The events of one channel and label, over all threads; times are nanoseconds.

    Attributes
    ----------
    n_events
        Events with a duration.
    n_marks
        Moments.
    total_ns, self_ns
        Sum of durations, and without what is in these events. An event in another one of its label
        counts in the total of both.
    mean_ns, least_ns, most_ns, p50_ns, p99_ns
        Of the durations; percentiles are durations that occurred (nearest rank). 0 for moments.
    """

    channel: str
    label: str
    n_events: int
    n_marks: int
    total_ns: int
    self_ns: int
    mean_ns: float
    least_ns: int
    most_ns: int
    p50_ns: int
    p99_ns: int


@dataclass(frozen=True)
class ChannelFigures:
    """The events of one channel, over all threads.

    Attributes
    ----------
    n_labels, n_events, n_marks
        Different labels; events with a duration, and moments.
    self_ns
        Their time without what is in them, nanoseconds; times of all channels add up.
    """

    channel: str
    n_labels: int
    n_events: int
    n_marks: int
    self_ns: int


@dataclass(frozen=True)
class ThreadFigures:
    """The events of one thread.

    Attributes
    ----------
    n_events
        Events, moments included.
    busy_ns
        Time in which at least one event lasts, nanoseconds.
    utilisation
        Of the time of the trace, from its first record to its last; 0 if that takes no time.
    """

    thread: Thread
    n_events: int
    busy_ns: int
    utilisation: float


@cached
def label_figures(report: Report) -> tuple[LabelFigures, ...]:
    """Return the figures of all labels, most time of their own first.

    Parameters
    ----------
    report
        An open trace.
    """
    trace, found = host_trace(report), events(report)
    numbers: dict[tuple[str, str], int] = {}
    group_of_label = np.array(
        [
            numbers.setdefault((trace.channels[channel], label), len(numbers))
            for channel, label in zip(trace.label_channel, trace.labels, strict=True)
        ],
        np.int64,
    )
    if not len(found):
        return ()
    n_groups = len(numbers)
    group = group_of_label[found.label_id]
    spans = np.flatnonzero(~found.is_mark)
    marks = np.bincount(group[found.is_mark], minlength=n_groups)
    duration = found.duration_ns
    own = np.zeros(n_groups, np.int64)
    np.add.at(own, group[spans], _self_ns(found)[spans])
    order = spans[np.lexsort((duration[spans], group[spans]))]
    sorted_ns = duration[order]
    counts = np.bincount(group[spans], minlength=n_groups)
    firsts = np.concatenate([[0], np.cumsum(counts)])
    sums = np.concatenate([[0], np.cumsum(sorted_ns)])
    figures = []
    for (channel, label), number in numbers.items():
        first, n_events = int(firsts[number]), int(counts[number])
        if not n_events and not marks[number]:
            continue
        durations = sorted_ns[first : first + n_events]
        total = int(sums[first + n_events] - sums[first])
        figures.append(
            LabelFigures(
                channel,
                label,
                n_events,
                int(marks[number]),
                total,
                int(own[number]),
                total / n_events if n_events else 0.0,
                int(durations[0]) if n_events else 0,
                int(durations[-1]) if n_events else 0,
                _percentile(durations, 50),
                _percentile(durations, 99),
            )
        )
    return tuple(sorted(figures, key=lambda f: (-f.self_ns, -f.n_marks, f.channel, f.label)))


@cached
def channel_figures(report: Report) -> tuple[ChannelFigures, ...]:
    """Return the figures of all channels with events, most time of their own first.

    Parameters
    ----------
    report
        An open trace.
    """
    by_channel: dict[str, list[LabelFigures]] = {}
    for figures in label_figures(report):
        by_channel.setdefault(figures.channel, []).append(figures)
    rows = [
        ChannelFigures(
            channel,
            len(labels),
            sum(one.n_events for one in labels),
            sum(one.n_marks for one in labels),
            sum(one.self_ns for one in labels),
        )
        for channel, labels in by_channel.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.self_ns, row.channel)))


@cached
def thread_figures(report: Report) -> tuple[ThreadFigures, ...]:
    """Return the figures of all threads, in order of their first record.

    Parameters
    ----------
    report
        An open trace.
    """
    trace, found = host_trace(report), events(report)
    first_ns = int(found.start_ns.min()) if len(found) else 0
    lasts_ns = found.end_of_trace_ns - first_ns
    counts = np.bincount(found.thread_id, minlength=len(trace.threads))
    figures = []
    for thread in trace.threads:
        start = int(np.searchsorted(found.thread_id, thread.thread_id))
        rows = slice(start, start + int(counts[thread.thread_id]))
        busy_ns = _union_ns(found.start_ns[rows], found.end_ns[rows])
        share = busy_ns / lasts_ns if lasts_ns > 0 else 0.0
        figures.append(ThreadFigures(thread, int(counts[thread.thread_id]), busy_ns, share))
    return tuple(figures)


def _self_ns(found: Events) -> NDArray[np.int64]:
    """Return the time of every event that no event in it takes, shape (n_events,)."""
    own = found.duration_ns.copy()
    inside = np.flatnonzero(found.parent >= 0)
    around = found.parent[inside]
    overlap = np.minimum(found.end_ns[inside], found.end_ns[around]) - found.start_ns[inside]
    np.subtract.at(own, around, np.maximum(overlap, 0))
    return np.maximum(own, 0)


def _union_ns(start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> int:
    """Return the time that at least one of some events covers; starts ascend."""
    if not len(start_ns):
        return 0
    reached = np.maximum.accumulate(end_ns)
    begun = np.concatenate([[start_ns[0]], np.maximum(start_ns[1:], reached[:-1])])
    return int(np.maximum(end_ns - begun, 0).sum())


def _percentile(durations: NDArray[np.int64], percent: int) -> int:
    """Return the nearest rank of ascending durations; 0 if there are none."""
    n_durations = len(durations)
    return int(durations[-(-n_durations * percent // 100) - 1]) if n_durations else 0
