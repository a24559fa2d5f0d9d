"""Traces by libpva's names: those of a host, and the runs of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pva.explained import Explained
from pva.lazy import LazyList
from pva.state import open_and_warn, warn_of_state
from tilescope.analyser import host
from tilescope.analyser.machine.target import target
from tilescope.analyser.time import runs as recorded
from tilescope.analyser.time.execution import steps
from tilescope.reports import NotAReport
from tilescope.reports.kind import Kind, report_kind
from tilescope.reports.state import is_trace_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.reports import Report as Opened

__all__ = [
    "Event",
    "HostProcess",
    "HostThread",
    "IpuProcess",
    "Process",
    "Thread",
    "Trace",
    "TraceNotSupported",
    "openTrace",
]


#: Numbers that an error names.
_LISTED = 5


class TraceNotSupported(ValueError):
    """A trace of a host that another program wrote, whose tables are not published."""


@dataclass(frozen=True)
class Event:
    """Something that took time, or a moment; times are in microseconds since the trace began.

    Those of a host's trace are integers.
    """

    label: str
    start: float
    duration: float
    _inside: Sequence[Event] = field(default=(), repr=False, compare=False)
    channel: str = ""
    timestamp: float = 0

    def children(self) -> Sequence[Event]:
        """Return the events in it, in order of their start."""
        return self._inside


class Thread(Explained):
    """A track of an IPU: 0 computes, 1 is input and output that overlap with it."""

    def __init__(self, opened: Opened, ipu_id: int, track: int) -> None:
        self._opened = opened
        self._ipu_id = ipu_id
        self.tid = track

    @cached_property
    def events(self) -> LazyList[Event]:
        """A run each, with its steps as children."""
        runs = recorded.runs(self._opened)
        return LazyList(len(runs), lambda index: self._run(runs[index]))

    def _run(self, run: recorded.Run) -> Event:
        """Return a run as an event."""
        ran = recorded.executed(self._opened, run.run_id)
        names = steps(self._opened).name
        kinds = steps(self._opened).kind
        per_microsecond = target(self._opened).clock_hz / 1e6
        rows = np.flatnonzero(ran.track[:, self._ipu_id] == self.tid)
        starts, ends = ran.start_cycle[rows, self._ipu_id], ran.end_cycle[rows, self._ipu_id]
        order = np.argsort(starts, kind="stable")
        inside = [
            Event(
                names[step_id] or kinds[step_id],
                start / per_microsecond,
                (end - start) / per_microsecond,
                timestamp=start / per_microsecond,
            )
            for step_id, start, end in zip(
                ran.step_id[rows][order].tolist(),
                starts[order].tolist(),
                ends[order].tolist(),
                strict=True,
            )
        ]
        duration = run.cycles_by_ipu[self._ipu_id] / per_microsecond
        start_us = run.start_cycle / per_microsecond
        return Event(run.name, start_us, duration, inside, timestamp=start_us)


class Process(Explained):
    """A process of a host, or an IPU."""

    pid: int

    @property
    def threads(self) -> Sequence[Thread | HostThread]:
        """Its threads."""
        raise NotImplementedError

    def thread(self, tid: int) -> Thread | HostThread:
        """Return the thread of a number.

        Raises
        ------
        KeyError
            When it has none of that number.
        """
        for thread in self.threads:
            if thread.tid == tid:
                return thread
        numbers = ", ".join(str(thread.tid) for thread in self.threads[:_LISTED])
        raise KeyError(f"process {self.pid} has no thread {tid}; it has {numbers or 'none'}")


class IpuProcess(Process):
    """An IPU, whose runs are a trace."""

    def __init__(self, opened: Opened, ipu_id: int) -> None:
        self._opened = opened
        self.pid = ipu_id

    @cached_property
    def threads(self) -> Sequence[Thread | HostThread]:
        """Its tracks."""
        tracks = recorded.tracks(self._opened, self.pid)
        return [Thread(self._opened, self.pid, track) for track in tracks]


class HostThread(Explained):
    """A thread of a process on its host."""

    def __init__(self, opened: Opened, thread: host.Thread) -> None:
        self._opened = opened
        self._thread = thread
        self.tid = thread.tid
        self.name = thread.name

    @cached_property
    def events(self) -> Sequence[Event]:
        """The events that are in no other, in order of their start."""
        rows = host.children(self._opened).of(-1)
        is_own = host.events(self._opened).thread_id[rows] == self._thread.thread_id
        return _host_events(self._opened, rows[is_own])


def _host_events(opened: Opened, rows: NDArray[np.int64]) -> Sequence[Event]:
    """Return events of a host's trace, which are made when they are looked at."""
    if not len(rows):
        return ()
    facts, found, inside = host.host_trace(opened), host.events(opened), host.children(opened)

    def event(number: int) -> Event:
        row = int(rows[number])
        label = found.label_id[row]
        start_ns, end_ns = int(found.start_ns[row]), int(found.end_ns[row])
        return Event(
            facts.labels[label],
            start_ns // 1_000,
            (end_ns - start_ns) // 1_000,
            _host_events(opened, inside.of(row)),
            facts.channels[facts.label_channel[label]],
            (facts.origin_ns + start_ns) // 1_000,
        )

    return LazyList(len(rows), event, is_kept=False)


class HostProcess(Process):
    """The process that wrote a trace of its host."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.pid = host.host_trace(opened).pid

    @cached_property
    def threads(self) -> Sequence[Thread | HostThread]:
        """Its threads, in order of their first event."""
        return [HostThread(self._opened, one) for one in host.host_trace(self._opened).threads]


class Trace(Explained):
    """A trace of a host, or the runs of a report on the time of its machine."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @cached_property
    def processes(self) -> list[Process]:
        """The process of the host, or the IPUs."""
        if report_kind(self._opened) is Kind.HOST_TRACE:
            return [HostProcess(self._opened)]
        return [IpuProcess(self._opened, ipu_id) for ipu_id in range(target(self._opened).n_ipus)]

    def process(self, pid: int) -> Process:
        """Return the process of a number.

        Raises
        ------
        KeyError
            When it has none of that number.
        """
        for process in self.processes:
            if process.pid == pid:
                return process
        numbers = ", ".join(str(process.pid) for process in self.processes[:_LISTED])
        raise KeyError(f"the trace has no process {pid}; it has {numbers or 'none'}")

    def close(self) -> None:
        """Close the file; what was read before stays readable."""
        self._opened.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def openTrace(path: str | PathLike[str]) -> Trace:
    """Open a trace of a host, ``*.pvti``, or the runs of a report as a trace.

    Raises
    ------
    ReportError
        When there is no report there, or it cannot be read.
    TraceNotSupported
        When it is a trace of a host that another program wrote.
    """
    if not is_trace_name(Path(path)):
        return Trace(open_and_warn(path))
    try:
        opened = host.open_trace(path)
    except NotAReport as error:
        if not Path(path).is_file():
            raise
        raise TraceNotSupported(
            f"{path} is not a trace that TileScope wrote: the tables of other programs' traces are"
            " not published. Run the program with TileScope's libpvti"
        ) from error
    warn_of_state(opened)
    return Trace(opened)
