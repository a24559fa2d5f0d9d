"""The recorder of a process: takes what threads buffered, and streams it into a trace.

A thread appends to a buffer of its own, without a lock. Twice a second a thread of the recorder
takes all buffers and commits; it alone touches the file, so that an interrupt of the program leaves
that whole. A thread whose buffer is full wakes it and waits: memory does not grow with the number
of events, even if the disk is slow.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilescope.reports.errors import ReportError
from tilescope.reports.kind import KIND_KEY, Kind
from tilescope.reports.schema import (
    host_channel,
    host_heatmap,
    host_heatmap_column,
    host_label,
    host_sample,
    host_series,
    host_thread,
    provenance,
)
from tilescope.reports.state import TRACE_SUFFIX
from tilescope.reports.writing.writer import ReportWriter

if TYPE_CHECKING:
    from tilescope.reports.schema import TableSpec
    from tilescope.tracepoints.options import TraceOptions

__all__ = ["KIND_BITS", "Buffer", "Recorder"]

#: A record is two integers: a code, which is 4 times the label plus the kind of the record, and the
#: time.
KIND_BITS = 2
_WIDTH = 2
_INTERVAL_S = 0.5
_PATIENCE_S = 1.0
#: Rows of series and heatmaps that are kept between two commits.
_MOST_ROWS = 32_768
_MOST_TEXT = 10_000
_LARGEST_NS = 2**53
_log = logging.getLogger(__name__)


class Buffer(list[int]):
    """Records of a thread that are not written yet, two integers each."""

    __slots__ = ("is_alive", "thread_id")

    def __init__(self, thread_id: int, life: Life) -> None:
        super().__init__()
        self.thread_id = thread_id
        self.is_alive = weakref.ref(life)


class Life:
    """What a thread holds while it lives, so that its buffer is dropped after it."""

    __slots__ = ("__weakref__",)


class Recorder:
    """Writes one trace, from a thread of its own.

    Parameters
    ----------
    options
        Where it goes, and how long.

    Raises
    ------
    ReportNotWritable
        The file cannot be written.
    """

    def __init__(self, options: TraceOptions) -> None:
        self.trace_id = secrets.token_hex(8)
        self._options = options
        self._writer = _create(options.directory)
        self.path = self._writer.path.absolute()
        self._origin_ns = time.perf_counter_ns()
        self._pid = os.getpid()
        #: Notified when buffers were taken.
        self._taken = threading.Condition()
        self._wake = threading.Event()
        self._is_ending = False
        #: Held while rows of tables are numbered; a signal may come in between.
        self._numbering = threading.RLock()
        self._is_numbering = False
        self._buffers: list[Buffer] = []
        self._rows: list[tuple[TableSpec, dict[str, Any]]] = []
        self._n_rows: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._has_news = False
        self._is_closed = False
        self._writer.add(provenance, self._provenance())
        self._writer.commit("trace", grows=True)  # whatever comes, the file says whose it is
        self._thread = threading.Thread(target=self._work, name="tilescope trace", daemon=True)
        self._thread.start()

    def buffer(self, life: Life) -> Buffer:
        """Return a new buffer of this thread.

        Parameters
        ----------
        life
            What ends with the thread.
        """
        thread = threading.current_thread()
        row = {"tid": threading.get_ident(), "name": _storable(thread.name)}
        buffer = Buffer(self._numbered(host_thread, row), life)
        self._buffers.append(buffer)
        return buffer

    def label(self, channel: str, label: str, metadata: str | None) -> int:
        """Return the code of a new label's begin."""
        with self._numbering:
            if channel not in self._channels:
                name = {"name": _storable(channel)}
                self._channels[channel] = self._numbered(host_channel, name)
            row = {
                "host_channel_id": self._channels[channel],
                "label": _storable(label),
                "metadata": metadata,
            }
            return self._numbered(host_label, row) << KIND_BITS

    def series(self, graph: str, unit: str, name: str) -> int:
        """Return the number of a new series."""
        texts = {"graph": graph, "unit": unit, "name": name}
        return self._numbered(host_series, {key: _storable(text) for key, text in texts.items()})

    def sample(self, series_id: int, value: float) -> None:
        """Record a number of a series, now."""
        moment = time.perf_counter_ns() - self._origin_ns
        stored = None if value != value else value  # noqa: PLR0124 - not a number
        row = {"host_series_id": series_id, "wall_ns": moment, "value": stored}
        self._numbered(host_sample, row)
        self._limit()

    def heatmap(self, name: str, unit: str, edges: bytes) -> int:
        """Return the number of a new heatmap."""
        row = {"name": _storable(name), "unit": _storable(unit), "edges": edges}
        return self._numbered(host_heatmap, row)

    def heatmap_column(self, heatmap_id: int, counts: bytes) -> None:
        """Record the counts of a heatmap's bins, now."""
        moment = time.perf_counter_ns() - self._origin_ns
        row = {"host_heatmap_id": heatmap_id, "wall_ns": moment, "counts": counts}
        self._numbered(host_heatmap_column, row)
        self._limit()

    def fact(self, key: str, value: str) -> None:
        """Add a fact to the trace's provenance; its key is new and begins with ``wall_``."""
        self._numbered(provenance, {"key": key, "value": _storable(value)})

    def take(self, buffer: list[int]) -> None:
        """Wait until the records of a full buffer are taken; some time at most.

        A buffer that is not this recorder's, or no longer, is emptied.
        """
        if not isinstance(buffer, Buffer) or all(buffer is not own for own in self._buffers):
            buffer.clear()
            return
        n_values = len(buffer)
        self._wait_until(lambda: len(buffer) < n_values)

    def close(self) -> None:
        """Commit and seal the trace; repeated calls are harmless, and so are those of a fork."""
        if self._pid == os.getpid() and self._thread is not threading.current_thread():
            self._is_ending = True
            self._wake.set()
            self._thread.join()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is written."""
        return self._is_closed

    def _wait_until(self, is_done: Callable[[], bool]) -> None:
        """Wake the recorder, and wait until something is so, or there is no trace any more.

        A signal's handler may wait here for what its own thread holds up, so that nobody waits
        longer than a second; who still has a full buffer then waits at its next record.
        """
        self._wake.set()
        with self._taken:
            self._taken.wait_for(lambda: is_done() or self._is_closed, _PATIENCE_S)

    def _work(self) -> None:
        """Take buffers when they are full, and commit twice a second, until the end."""
        began = committed = time.monotonic()
        end = began + (self._options.duration_s or float("inf"))
        try:
            while not self._is_closed:
                next_s = min(committed + _INTERVAL_S, end)
                self._wake.wait(max(0.0, next_s - time.monotonic()))
                self._wake.clear()
                now = time.monotonic()
                if self._is_ending or now >= end:
                    self._seal()
                elif now >= committed + _INTERVAL_S or len(self._rows) >= _MOST_ROWS:
                    self._commit()
                    committed = now
                else:
                    self._take_buffers()
                with self._taken:
                    self._taken.notify_all()
        except ReportError as error:
            self._fail(str(error))
        except BaseException as error:  # out of memory, or a bug: the program goes on
            self._fail(f"{type(error).__name__}: {error}")

    def _take_buffers(self) -> None:
        """Take all buffers; those of threads that have ended are dropped."""
        for buffer in tuple(self._buffers):
            is_alive = buffer.is_alive() is not None
            self._take(buffer)
            if not is_alive and not buffer:
                self._buffers.remove(buffer)

    def _commit(self) -> None:
        """Commit all that was recorded so far."""
        self._take_buffers()
        self._take_rows()
        if self._has_news:
            self._has_news = False
            self._writer.commit("trace", grows=True)
        self._writer.sign_life()

    def _seal(self) -> None:
        """Commit, and seal the file."""
        self._commit()
        self._writer.finish()
        self._is_closed = True
        self._buffers.clear()

    def _fail(self, sentence: str) -> None:
        """Record no more: the program goes on without a trace."""
        self._is_closed = True
        self._writer.abandon()
        self._buffers.clear()
        self._rows.clear()
        with self._taken:
            self._taken.notify_all()
        _log.warning("warning: the trace of this program ends here. %s", sentence)

    def _take(self, buffer: Buffer) -> None:
        """Hand the records of a buffer to the writer; its thread may append meanwhile."""
        n_values = len(buffer) // _WIDTH * _WIDTH
        if not n_values:
            return
        records = np.array(buffer[:n_values], np.int64).reshape(-1, _WIDTH)
        del buffer[:n_values]
        codes, times = records[:, 0], records[:, 1] - self._origin_ns
        self._writer.append_columns(
            "host_event",
            {
                "wall_ns": np.clip(times, 0, _LARGEST_NS),
                "kind": (codes & ((1 << KIND_BITS) - 1)).astype(np.int32),
                "host_label_id": (codes >> KIND_BITS).astype(np.int32),
                "host_thread_id": np.full(len(codes), buffer.thread_id, np.int32),
            },
        )
        self._has_news = True

    def _take_rows(self) -> None:
        """Hand rows of tables to the writer: after the records that refer to them."""
        with self._numbering:
            rows, self._rows = self._rows, []
        by_table: dict[str, list[dict[str, Any]]] = {}
        tables = {}
        for table, row in rows:
            tables[table.name] = table
            by_table.setdefault(table.name, []).append(row)
        for name, added in by_table.items():
            table = tables[name]
            added.sort(key=lambda row: row[table.primary_key])
            self._writer.add(table, added)
            self._has_news = True

    def _numbered(self, table: TableSpec, row: dict[str, Any]) -> int:
        """Keep a row for the next commit; return its number."""
        with self._numbering:
            self._is_numbering = True
            number = self._n_rows.get(table.name, 0)
            self._n_rows[table.name] = number + 1
            if not self._is_closed:
                self._rows.append((table, {table.primary_key: number, **row}))
            self._is_numbering = False
        return number

    def _limit(self) -> None:
        """Wait for a commit when many rows wait."""
        if len(self._rows) >= _MOST_ROWS and not self._is_numbering:
            self._wait_until(lambda: len(self._rows) < _MOST_ROWS)

    def _provenance(self) -> list[dict[str, Any]]:
        now_ns = time.time_ns() - (time.perf_counter_ns() - self._origin_ns)
        created = datetime.fromtimestamp(now_ns / 1e9, UTC).isoformat(timespec="milliseconds")
        program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
        facts = {
            KIND_KEY: Kind.HOST_TRACE,
            "tilescope_version": _version(),
            "python_version": ".".join(map(str, sys.version_info[:3])),
            "wall_created": created,
            "wall_trace_id": self.trace_id,
            "wall_program": program,
            "wall_host": socket.gethostname(),
            "wall_process_id": str(self._pid),
            "wall_origin_ns": str(now_ns),
            "wall_monotonic_origin_ns": str(self._origin_ns),
        }
        rows = [{"key": key, "value": _storable(text)} for key, text in facts.items()]
        self._n_rows[provenance.name] = len(rows)
        return [{provenance.primary_key: number, **row} for number, row in enumerate(rows)]


def _create(directory: Path) -> ReportWriter:
    """Return the writer of a new file named after date, time, time zone and process.

    Notes
    -----
    Source: names of files in public documents of libpvti, such as
    ``Tue_Nov_24_11:59:17_2020_GMT_4532.pvti``; later ones have no colons.
    """
    now = time.strftime("%a_%b_%d_%H_%M_%S_%Y_%Z")
    stem = f"{re.sub('[^A-Za-z0-9_+-]', '_', now)}_{os.getpid()}"
    number = 0
    while True:
        suffix = f"_{number}" if number else ""
        try:
            return ReportWriter.create_trace(directory / f"{stem}{suffix}{TRACE_SUFFIX}")
        except FileExistsError:
            number += 1


def _version() -> str:
    try:
        return version("tilescope")
    except PackageNotFoundError:
        return "unknown"


def _storable(text: str) -> str:
    """Return a text of bounded length."""
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
