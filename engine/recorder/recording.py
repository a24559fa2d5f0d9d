"""A report that is being written, by a thread of its own.

Interrupts and signal handlers reach the main thread only, at any instruction. The engine's thread
therefore hands over finished, immutable records, each in one indivisible step, and only the
recording thread touches buffers and file. A run enters the report whole or not at all.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from tilescope.engine.channels import POPLAR
from tilescope.engine.errors import said
from tilescope.engine.recorder.runs import RunRecord, RunWriter
from tilescope.engine.recorder.training import StepRecord, StepWriter
from tilescope.reports import ReportNotWritable, ReportWriter
from tilescope.reports.schema import notice
from tilescope.tracepoints import Tracepoint

__all__ = ["FailureNote", "Recording", "warn_of_loss", "without_warnings_of_loss"]

#: Logger of warnings about lost reports.
_LOSS_LOGGER = "tilescope.engine.recorder.loss"
#: Records are written at this interval, and readers see a sign of life.
_TICK_S = 0.6
#: A caller waits if its records would take longer than this to be durable.
_LATEST_S = 0.85
#: While many records are written, there is a commit at this interval.
_COMMIT_S = 0.25
#: How often a caller that waits looks whether the thread is alive.
_PATIENCE_S = 0.5
#: Records that wait to be written: more would take too much memory, and too long to be durable.
_MOST_WAITING = 20_000
_MOST_WAITING_ENTRIES = 1 << 18
_MOST_WAITING_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class FailureNote:
    """A failure that the report mentions: a stable code and a sentence."""

    code: str
    message: str


@dataclass(frozen=True)
class _Request:
    """A demand on the thread; it puts None into ``done`` once all earlier records are durable.

    ``ending`` is empty to go on, else ``finish`` or ``end early``.
    """

    ending: str = ""
    done: SimpleQueue[None] = field(default_factory=SimpleQueue)


#: What is handed over, with the time at which it was.
_Item = tuple[float, RunRecord | StepRecord | FailureNote | _Request]


class _Desk:
    """What both threads know. It does not refer to the recording, whose end may end the report."""

    def __init__(self, writer: ReportWriter, runs: RunWriter) -> None:
        self.writer = writer
        self.runs = runs
        self.steps = StepWriter(writer)
        #: Runs that the thread has taken, which are numbered in this order.
        self.n_runs = 0
        self.pid = os.getpid()
        self.items: deque[_Item] = deque()
        self.wake: SimpleQueue[None] = SimpleQueue()
        #: When the oldest record that is being written was handed over.
        self.writing_since: float | None = None
        #: The operation in progress, or the last one if it was interrupted.
        self.unfinished = "Starting the engine"
        self.path: Path | None = None
        self.lost = ""
        self.is_over = False
        self.thread = threading.Thread(
            target=_work, args=(self,), name="tilescope-recording", daemon=True
        )

    def ask(self, request: _Request) -> None:
        """Wait until a request is done; an interrupt of the wait does not interrupt the work."""
        if self.pid != os.getpid() or self.is_over:
            return
        self.items.append((time.monotonic(), request))
        self.wake.put(None)
        if threading.current_thread() is self.thread:  # called by a collection of garbage
            return
        while self.thread.is_alive():
            with contextlib.suppress(Empty):
                request.done.get(timeout=_PATIENCE_S)
                return
        if not self.is_over:  # an exception came while it handled another one
            _lose(self, f"The report {self.writer.path} ended at its last commit.")

    def end(self, *, is_early: bool | None) -> None:
        """Seal the report; None takes the last operation's interruption for an early end."""
        if is_early is None:
            is_early = bool(self.unfinished)
        self.ask(_Request("end early" if is_early else "finish"))

    def age_s(self, now: float) -> float:
        """Return for how long the oldest record has been waiting to be durable."""
        oldest = self.writing_since
        if oldest is None:
            try:
                oldest = self.items[0][0]
            except IndexError:
                return 0.0
        return now - oldest


class Recording:
    """Takes records from an engine and keeps their report durable.

    Without a call of `end`, the report ends when this object is collected, or with the program.

    Parameters
    ----------
    writer
        Writer of a report whose compilation is committed; only this object uses it from here on.
    runs
        Writes runs with it.
    """

    def __init__(self, writer: ReportWriter, runs: RunWriter) -> None:
        self._desk = _Desk(writer, runs)
        self._n_waiting = 0
        self._waiting_entries = 0
        self._waiting_bytes = 0
        # At the end of the program, the recording thread is still alive, and seals the report.
        finalizer = weakref.finalize(self, _end_unattended, self._desk)
        workers = sys.modules.get("multiprocessing.util")
        if workers is not None:  # its processes skip other finalizers
            workers.Finalize(None, finalizer, exitpriority=10)
        self._desk.thread.start()

    @property
    def path(self) -> Path | None:
        """Path of the sealed report; None before its end."""
        return self._desk.path

    @property
    def written_path(self) -> Path:
        """Path of the report that is being written, or was sealed."""
        return self._desk.path or self._desk.writer.path

    @property
    def lost(self) -> str:
        """Reason why the report ended before the run; empty if it did not."""
        return self._desk.lost

    @property
    def unfinished(self) -> str:
        """The operation in progress, or the last one if it was interrupted; else empty."""
        return self._desk.unfinished

    @unfinished.setter
    def unfinished(self, operation: str) -> None:
        self._desk.unfinished = operation

    def put(self, record: RunRecord | StepRecord | FailureNote) -> None:
        """Hand over a record; it is durable within a second, for which this call may wait."""
        desk, now = self._desk, time.monotonic()
        if desk.is_over or desk.pid != os.getpid():
            return
        desk.items.append((now, record))
        self._n_waiting += 1
        if isinstance(record, RunRecord):
            self._waiting_entries += record.n_entries
            self._waiting_bytes += record.own_bytes
        is_much = (
            self._n_waiting > _MOST_WAITING
            or self._waiting_entries > _MOST_WAITING_ENTRIES
            or self._waiting_bytes > _MOST_WAITING_BYTES
        )
        if is_much or desk.age_s(now) > _LATEST_S:
            self.flush()

    def flush(self) -> None:
        """Return when all records so far are durable, or the report is lost."""
        self._desk.ask(_Request())
        self._n_waiting = self._waiting_entries = self._waiting_bytes = 0

    def end(self, *, is_early: bool | None = None) -> None:
        """Seal the report; repeated calls are harmless.

        Parameters
        ----------
        is_early
            Whether an error ends the program; None if that depends on whether the last operation
            was interrupted.
        """
        self._desk.end(is_early=is_early)


def _end_unattended(desk: _Desk) -> None:
    """Seal the report of an engine that nobody closed, at its collection or at the program's end.

    An exception that ends the program ends the report early. Interactive sessions and test runners
    set the same mark for exceptions that do not.
    """
    is_marked = getattr(sys, "last_value", None) is not None
    is_uncaught = is_marked and not hasattr(sys, "ps1") and "pytest" not in sys.modules
    desk.end(is_early=is_uncaught or None)


def _work(desk: _Desk) -> None:
    """Write what is handed over until the report ends."""
    try:
        while not desk.is_over:
            with contextlib.suppress(Empty):
                desk.wake.get(timeout=_TICK_S)
            _write_waiting(desk)
            desk.writer.sign_life()
    except ReportNotWritable as error:
        _lose(desk, str(error))
    except BaseException as error:  # out of memory, or a bug: the program goes on
        _lose(desk, f"The report {desk.writer.path} ended at its last commit: {said(error)}")
    while desk.items:  # of callers that came too late
        _, item = desk.items.popleft()
        if isinstance(item, _Request):
            item.done.put(None)


def _write_waiting(desk: _Desk) -> None:
    """Write and commit all records that wait, then answer requests.

    Raises
    ------
    ReportNotWritable
        A write failed.
    """
    records: list[RunRecord] = []
    steps: list[tuple[StepRecord, int | None]] = []
    requests: list[_Request] = []
    is_changed = False
    try:
        while desk.items and not requests:
            desk.writing_since = desk.writing_since or desk.items[0][0]
            _, item = desk.items.popleft()
            if isinstance(item, _Request):
                requests.append(item)
            elif isinstance(item, RunRecord):
                records.append(item)
                desk.n_runs += 1
            elif isinstance(item, StepRecord):
                steps.append((item, desk.n_runs - 1 if item.has_run and desk.n_runs else None))
            else:
                _write_runs(desk, records)
                records = []
                row = {"severity": "error", "code": item.code, "message": item.message}
                desk.writer.add(notice, [row])
                is_changed = True
        if records or steps or is_changed:
            with Tracepoint(POPLAR, "report.write runs"):
                _write_runs(desk, records)
                desk.steps.write(steps)
                desk.writer.commit("run", grows=True)
        desk.writing_since = None
        for ending in (request.ending for request in requests if request.ending):
            with Tracepoint(POPLAR, "report.seal"):
                desk.path = desk.writer.finish(ended_early=ending == "end early")
            desk.is_over = True
    finally:
        for request in requests:
            request.done.put(None)
    if requests and desk.items and not desk.is_over:  # another request may be among them
        desk.wake.put(None)


def _write_runs(desk: _Desk, records: Sequence[RunRecord]) -> None:
    """Write runs, with a commit whenever that takes long.

    Raises
    ------
    ReportNotWritable
        A write failed.
    """
    committed_at = time.monotonic()
    for _ in desk.runs.write(records):
        if time.monotonic() - committed_at > _COMMIT_S:
            desk.writer.commit("run", grows=True)
            committed_at = time.monotonic()


def _lose(desk: _Desk, sentence: str) -> None:
    """End the report at its last commit; the profiled program goes on."""
    desk.lost = sentence
    desk.writer.abandon()
    desk.is_over = True
    warn_of_loss(sentence)


def warn_of_loss(sentence: str) -> None:
    """Warn that a report is missing or ended before its run."""
    logging.getLogger(_LOSS_LOGGER).warning("warning: %s", sentence)


@contextmanager
def without_warnings_of_loss() -> Iterator[None]:
    """Keep engines from warning of lost reports, for a caller that says it otherwise."""
    logger = logging.getLogger(_LOSS_LOGGER)
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False
