"""Events: records of begins and ends in pairs, as trees by thread.

An end belongs to the last begin of its channel and label on its thread that has none. A begin
without an end lasts until the trace does. An end without a begin, which a forked process may
record, is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.host.trace import HostTrace, host_trace
from tilescope.reports.schema import HOST_EVENT_COLUMNS
from tilescope.reports.schema.vocabulary import HOST_RECORDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Children", "Events", "children", "events"]

_BEGIN, _END, _MARK = (HOST_RECORDS[name] for name in ("begin", "end", "mark"))
_Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """The events of a trace, by thread and start; an event precedes those in it.

    Attributes
    ----------
    thread_id, label_id : ndarray of int32, shape (n_events,)
        Rows of `HostTrace.threads` and `HostTrace.labels`.
    start_ns, end_ns : ndarray of int64, shape (n_events,), nanoseconds
        Since the trace began; equal for a mark.
    is_mark, is_open : ndarray of bool, shape (n_events,)
        Whether it is a moment; whether it had not ended when the trace did.
    depth, parent : ndarray of int32, shape (n_events,)
        Number of events around it on its thread, and the innermost of them; -1 for none.
    end_of_trace_ns
        Time of the last record.
    n_unmatched
        Ends without a begin.
    """

    thread_id: NDArray[np.int32]
    label_id: NDArray[np.int32]
    start_ns: _Integers
    end_ns: _Integers
    is_mark: NDArray[np.bool_]
    is_open: NDArray[np.bool_]
    depth: NDArray[np.int32]
    parent: NDArray[np.int32]
    end_of_trace_ns: int
    n_unmatched: int

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def duration_ns(self) -> _Integers:
        """Duration of every event, shape (n_events,), nanoseconds."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Children:
    """The events in every event, in order of their start.

    Attributes
    ----------
    row : ndarray of int64, shape (n_events,)
        Events by parent, those without one first.
    first : ndarray of int64, shape (n_events + 2,)
        Where those of an event begin in it, by its number plus one; those without a parent at 0.
    """

    row: _Integers
    first: _Integers

    def of(self, event: int) -> _Integers:
        """Return the events in an event; those of no event for -1."""
        return self.row[self.first[event + 1] : self.first[event + 2]]


@cached
def children(report: Report) -> Children:
    """Return the events in every event of a trace.

    Parameters
    ----------
    report
        An open trace.
    """
    parent = events(report).parent
    row = np.argsort(parent, kind="stable")
    first = np.searchsorted(parent[row], np.arange(-1, len(parent) + 1))
    return Children(row, first.astype(np.int64))


@cached
def events(report: Report) -> Events:
    """Return the events of a trace.

    Parameters
    ----------
    report
        An open trace.
    """
    columns = {
        name: report.array(f"host_event.{name}").read().ravel() for name in HOST_EVENT_COLUMNS
    }
    n_records = min(map(len, columns.values()))  # equal unless a writer is between two of them
    wall_ns, kind, label, thread = (columns[name][:n_records] for name in HOST_EVENT_COLUMNS)
    # Threads hand their records over in parts; within a thread, they are in order.
    order = _order(thread)
    wall_ns, kind, label, thread = wall_ns[order], kind[order], label[order], thread[order]
    last_ns = int(wall_ns.max()) if n_records else 0
    partner = _pairs(kind, _keys(host_trace(report), label, thread))
    is_event = (kind == _BEGIN) | (kind == _MARK)
    rows = np.flatnonzero(is_event)
    is_mark = kind[rows] == _MARK
    is_open = ~is_mark & (partner[rows] < 0)
    end_ns = np.where(is_open, last_ns, wall_ns[np.where(partner[rows] < 0, rows, partner[rows])])
    depth, parent = _trees(kind, thread, partner, rows)
    result = Events(
        thread[rows].astype(np.int32),
        label[rows].astype(np.int32),
        wall_ns[rows].astype(np.int64),
        np.maximum(end_ns, wall_ns[rows]),
        is_mark,
        is_open,
        depth,
        parent,
        last_ns,
        int(((kind == _END) & (partner < 0)).sum()),
    )
    for values in vars(result).values():
        if isinstance(values, np.ndarray):
            values.flags.writeable = False
    return result


def _keys(trace: HostTrace, label: NDArray[np.int32], thread: NDArray[np.int32]) -> _Integers:
    """Return a number for thread, channel and text of every record, shape (n_records,)."""
    numbers: dict[tuple[int, str], int] = {}
    key_of_label = np.array(
        [
            numbers.setdefault(pair, len(numbers))
            for pair in zip(trace.label_channel, trace.labels, strict=True)
        ],
        np.int64,
    )
    if not len(label):
        return np.zeros(0, np.int64)
    return thread.astype(np.int64) * len(numbers) + key_of_label[label]


def _pairs(kind: NDArray[np.int32], key: _Integers) -> _Integers:
    """Return the record of the end of every begin, and of the begin of every end; else -1.

    Parameters
    ----------
    kind : ndarray of int32, shape (n_records,)
        By thread, in order of time.
    key : ndarray of int64, shape (n_records,)
        Records of one key are paired.
    """
    partner = np.full(len(kind), -1, np.int64)
    spans = np.flatnonzero(kind != _MARK)
    if not len(spans):
        return partner
    spans = spans[_order(key[spans])]
    is_begin = kind[spans] == _BEGIN
    group = np.cumsum(np.concatenate([[0], np.diff(key[spans]) != 0]))
    level = _levels(is_begin, group)
    matched = level > 0
    spans, is_begin, group, level = (values[matched] for values in (spans, is_begin, group, level))
    # Begins and ends of one level alternate, and the last begin may lack its end.
    most = int(level.max(initial=0))
    if most > 1:  # without recursion, they are in that order
        order = _order(group * (most + 1) + level)
        spans, is_begin, group, level = (
            values[order] for values in (spans, is_begin, group, level)
        )
    is_pair = is_begin[:-1] & ~is_begin[1:] & (group[:-1] == group[1:]) & (level[:-1] == level[1:])
    begins, ends = spans[:-1][is_pair], spans[1:][is_pair]
    partner[begins], partner[ends] = ends, begins
    return partner


def _order(values: NDArray[Any]) -> _Integers:
    """Return the order that sorts values from 0 on and leaves equal ones as they are."""
    if (values[:-1] <= values[1:]).all():
        return np.arange(len(values))
    # NumPy sorts integers of 16 bits by radix, in a tenth of the time.
    is_narrow = int(values.max()) <= np.iinfo(np.uint16).max
    return np.argsort(values.astype(np.uint16) if is_narrow else values, kind="stable")


def _levels(is_begin: NDArray[np.bool_], group: _Integers) -> _Integers:
    """Return how many begins are open at every record, its own included; 0 for an unmatched end.

    Parameters
    ----------
    is_begin : ndarray of bool, shape (n,)
        By group, in order of time.
    group : ndarray of int64, shape (n,)
        Ascending from 0.
    """
    step = np.where(is_begin, 1, -1)
    total = np.cumsum(step)
    first = np.flatnonzero(np.concatenate([[True], np.diff(group) != 0]))
    before = total[first] - step[first]
    balance = total - before[group]
    # Groups are moved far below each other, so that the minimum so far is that of the group.
    far = 2 * len(step) + 1
    lowest = np.minimum(np.minimum.accumulate(balance - group * far) + group * far, 0)
    earlier = np.concatenate([[0], lowest[:-1]])
    earlier[first] = 0
    is_unmatched = ~is_begin & (lowest < earlier)
    level: _Integers = balance - lowest + np.where(is_begin, 0, 1)
    level[is_unmatched] = 0
    return level


def _trees(
    kind: NDArray[np.int32],
    thread: NDArray[np.int32],
    partner: _Integers,
    rows: _Integers,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return depth and parent of every event, shape (n_events,)."""
    n_events = len(rows)
    depth, parent = np.zeros(n_events, np.int32), np.full(n_events, -1, np.int32)
    if not n_events:
        return depth, parent
    step = np.where(kind == _BEGIN, 1, 0) - ((kind == _END) & (partner >= 0))
    before = np.cumsum(step) - step
    starts = np.flatnonzero(np.concatenate([[True], np.diff(thread) != 0]))
    run = np.cumsum(np.concatenate([[0], np.diff(thread) != 0]))
    before -= before[starts][run]
    depth[:] = before[rows]
    # Where all is nested, an event ends at the depth at which it began.
    ends = np.flatnonzero((kind == _END) & (partner >= 0))
    is_crossing = before[ends] - 1 != before[partner[ends]]
    crossing_runs = np.unique(run[ends[is_crossing]])
    is_nested = ~np.isin(run[rows], crossing_runs)
    _set_parents(np.flatnonzero(is_nested), depth, kind[rows] == _BEGIN, parent)
    for number in crossing_runs.tolist():
        stop = starts[number + 1] if number + 1 < len(starts) else len(kind)
        _set_crossing(range(int(starts[number]), int(stop)), kind, partner, rows, depth, parent)
    return depth, parent


def _set_parents(
    nested: _Integers,
    depth: NDArray[np.int32],
    is_span: NDArray[np.bool_],
    parent: NDArray[np.int32],
) -> None:
    """Set the parents of nested events: the last span before them that is one level up."""
    if not len(nested):
        return
    order = nested[np.argsort(depth[nested], kind="stable")]
    bounds = np.searchsorted(depth[order], np.arange(int(depth[nested].max()) + 2))
    above = order[: bounds[1]]
    for level in range(1, len(bounds) - 1):
        here = order[bounds[level] : bounds[level + 1]]
        above = above[is_span[above]]
        place = np.searchsorted(above, here) - 1
        parent[here] = above[place]
        above = here


def _set_crossing(
    records: range,
    kind: NDArray[np.int32],
    partner: _Integers,
    rows: _Integers,
    depth: NDArray[np.int32],
    parent: NDArray[np.int32],
) -> None:
    """Set depth and parent of a thread whose events cross: that of the last one still open."""
    event = int(np.searchsorted(rows, records.start))
    event_of: dict[int, int] = {}
    #: The open events as a list that each can leave: the one below and above it.
    below: dict[int, int] = {}
    above: dict[int, int] = {}
    top = -1
    kinds = kind[records.start : records.stop].tolist()
    partners = partner[records.start : records.stop].tolist()
    for record, what, other in zip(records, kinds, partners, strict=True):
        if what == _END:
            if other < 0:
                continue
            ended = event_of.pop(other)
            lower, upper = below.pop(ended), above.pop(ended, -1)
            if upper >= 0:
                below[upper] = lower
            else:
                top = lower
            if lower >= 0:
                if upper >= 0:
                    above[lower] = upper
                else:
                    above.pop(lower, None)
            continue
        parent[event] = top
        depth[event] = depth[top] + 1 if top >= 0 else 0
        if what == _BEGIN:
            event_of[record] = event
            below[event] = top
            if top >= 0:
                above[top] = event
            top = event
        event += 1
