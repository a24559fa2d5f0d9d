"""A report that is being written, by a thread of its own.

Interrupts and signal handlers reach the main thread only, at any instruction. The engine's thread
therefore hands over finished, immutable records, each in one indivisible step, and only the
recording thread touches buffers and file. A run enters the report whole or not at all.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from tilescope.engine.errors import said
from tilescope.engine.recorder.runs import RunRecord, RunWriter
from tilescope.reports import ReportNotWritable, ReportWriter
from tilescope.reports.schema import notice

__all__ = ["LOSS_LOGGER", "FailureNote", "Recording", "warn_of_loss"]

#: Logger of warnings about lost reports.
LOSS_LOGGER = "tilescope.engine.recorder.loss"
#: Records are durable after at most this time and the time to write them; readers see a sign of
#: life at the same interval.
_TICK_S = 0.7
#: How often a caller that waits looks whether the thread is alive.
_PATIENCE_S = 0.5
#: Records that wait to be written: more would take too much memory.
_MOST_WAITING = 20_000
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


_Item = RunRecord | FailureNote | _Request


class _Desk:
    """What both threads know. It does not refer to the recording, whose end may end the report."""

    def __init__(self, writer: ReportWriter, runs: RunWriter) -> None:
        self.writer = writer
        self.runs = runs
        self.items: deque[_Item] = deque()
        self.wake: SimpleQueue[None] = SimpleQueue()
        self.path: Path | None = None
        self.lost = ""
        self.is_over = False


class Recording:
    """Takes records from an engine and keeps their report durable.

    Parameters
    ----------
    writer
        Writer of a report whose compilation is committed; only this object uses it from here on.
    runs
        Writes runs with it.
    """

    def __init__(self, writer: ReportWriter, runs: RunWriter) -> None:
        #: The operation in progress, or the last one if it was interrupted.
        self.unfinished = ""
        self._pid = os.getpid()
        self._desk = _Desk(writer, runs)
        self._n_waiting = 0
        self._waiting_bytes = 0
        self._thread = threading.Thread(
            target=_work, args=(self._desk,), name="tilescope-recording", daemon=True
        )
        self._thread.start()

    @property
    def path(self) -> Path | None:
        """Path of the sealed report; None before its end."""
        return self._desk.path

    @property
    def lost(self) -> str:
        """Reason why the report ended before the run; empty if it did not."""
        return self._desk.lost

    def put(self, record: RunRecord | FailureNote) -> None:
        """Hand over a record; it is durable within a second."""
        if self._desk.is_over or self._pid != os.getpid():
            return
        self._desk.items.append(record)
        self._n_waiting += 1
        if isinstance(record, RunRecord):
            self._waiting_bytes += record.own_bytes
        if self._n_waiting > _MOST_WAITING or self._waiting_bytes > _MOST_WAITING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Return when all records so far are durable, or the report is lost."""
        self._ask(_Request())
        self._n_waiting = self._waiting_bytes = 0

    def end(self, *, is_early: bool | None = None) -> None:
        """Seal the report; repeated calls are harmless.

        Parameters
        ----------
        is_early
            Whether an error ends the program; None if that depends on whether the last operation
            was interrupted.
        """
        if is_early is None:
            is_early = bool(self.unfinished)
        self._ask(_Request("end early" if is_early else "finish"))

    def _ask(self, request: _Request) -> None:
        """Wait until a request is done; an interrupt of the wait does not interrupt the work."""
        if self._pid != os.getpid() or self._desk.is_over:
            return
        self._desk.items.append(request)
        self._desk.wake.put(None)
        if threading.current_thread() is self._thread:  # called by a collection of garbage
            return
        while self._thread.is_alive():
            with contextlib.suppress(Empty):
                request.done.get(timeout=_PATIENCE_S)
                return
        if not self._desk.is_over:  # an exception came while it handled another one
            _lose(self._desk, f"The report {self._desk.writer.path} ended at its last commit.")


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
        item = desk.items.popleft()
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
    requests: list[_Request] = []
    is_changed = False
    try:
        while desk.items and not requests:
            item = desk.items.popleft()
            if isinstance(item, _Request):
                requests.append(item)
            elif isinstance(item, RunRecord):
                records.append(item)
            else:
                desk.runs.write(records)
                records = []
                row = {"severity": "error", "code": item.code, "message": item.message}
                desk.writer.add(notice, [row])
                is_changed = True
        if records or is_changed:
            desk.runs.write(records)
            desk.writer.commit("run", grows=True)
        for ending in (request.ending for request in requests if request.ending):
            desk.path = desk.writer.finish(ended_early=ending == "end early")
            desk.is_over = True
    finally:
        for request in requests:
            request.done.put(None)
    if requests and desk.items and not desk.is_over:  # another request may be among them
        desk.wake.put(None)


def _lose(desk: _Desk, sentence: str) -> None:
    """End the report at its last commit; the profiled program goes on."""
    desk.lost = sentence
    desk.writer.abandon()
    desk.is_over = True
    warn_of_loss(sentence)


def warn_of_loss(sentence: str) -> None:
    """Warn that a report is missing or ended before its run."""
    logging.getLogger(LOSS_LOGGER).warning("warning: %s", sentence)
