"""Traces: the runs of a report as processes, threads and events, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pva.explained import Explained
from pva.lazy import LazyList
from pva.state import open_and_warn
from tilescope.analyser.machine.target import target
from tilescope.analyser.time import runs as recorded
from tilescope.analyser.time.execution import steps

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["Event", "Process", "Thread", "Trace", "TraceNotSupported", "openTrace"]


class TraceNotSupported(ValueError):
    """A trace of the host, which is not supported yet."""


@dataclass(frozen=True)
class Event:
    """Something that took time: a run, or a step in it; times are in microseconds."""

    label: str
    start: float
    duration: float
    _inside: tuple[Event, ...] = field(default=(), repr=False)

    def children(self) -> list[Event]:
        """Return the events in it, in order of their start."""
        return list(self._inside)


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
        inside = tuple(
            Event(
                names[step_id] or kinds[step_id],
                start / per_microsecond,
                (end - start) / per_microsecond,
            )
            for step_id, start, end in zip(
                ran.step_id[rows][order].tolist(),
                starts[order].tolist(),
                ends[order].tolist(),
                strict=True,
            )
        )
        duration = run.cycles_by_ipu[self._ipu_id] / per_microsecond
        return Event(run.name, run.start_cycle / per_microsecond, duration, inside)


class Process(Explained):
    """An IPU."""

    def __init__(self, opened: Opened, ipu_id: int) -> None:
        self._opened = opened
        self.pid = ipu_id

    @cached_property
    def threads(self) -> list[Thread]:
        """Its tracks."""
        tracks = recorded.tracks(self._opened, self.pid)
        return [Thread(self._opened, self.pid, track) for track in tracks]


class Trace(Explained):
    """The runs of a report on the time of its machine."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @cached_property
    def processes(self) -> list[Process]:
        """The IPUs."""
        return [Process(self._opened, ipu_id) for ipu_id in range(target(self._opened).n_ipus)]

    def close(self) -> None:
        """Close the file; what was read before stays readable."""
        self._opened.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def openTrace(path: str | PathLike[str]) -> Trace:
    """Open the runs of a report as a trace.

    Raises
    ------
    ReportError
        When there is no report there, or it cannot be read.
    TraceNotSupported
        When it is a trace of the host, ``*.pvti``.
    """
    if Path(path).suffix == ".pvti":
        raise TraceNotSupported(
            f"{path} is a trace of the host, which is not supported yet: pass a profile.pop, whose"
            " runs are read as a trace"
        )
    return Trace(open_and_warn(path))
