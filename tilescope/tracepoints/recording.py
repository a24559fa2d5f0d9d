"""Channels and tracepoints: what programs call, and the one decision whether anything is recorded.

The first use of a channel in a process reads the environment. A process that is forked decides anew
and writes a trace of its own.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import threading
from itertools import count
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

from tilescope.tracepoints.options import TraceOptions

if TYPE_CHECKING:
    from types import TracebackType

    from tilescope.tracepoints.recorder import Recorder

__all__ = [
    "Channel",
    "Tracepoint",
    "channels",
    "close_trace",
    "create_channel",
    "current",
    "is_recording",
    "note_fact",
    "trace_id",
    "trace_path",
]

#: Kinds of records, as `tilescope.reports.schema.vocabulary.HOST_RECORDS` numbers them: nothing of
#: a report is imported before something is recorded.
_END = 1
_MARK = 2
#: Integers of a buffer that its thread hands over.
_LIMIT = 65_536
#: Labels of a channel that are known; a program that makes more repeats some in its trace.
_MOST_LABELS = 16_384
_log = logging.getLogger(__name__)
_Label = str | tuple[str, str]


class _Process:
    """What this process decided: its recorder, if it has one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_decided = False
        self.recorder: Recorder | None = None
        self.options: TraceOptions | None = None


_process = _Process()
_local = threading.local()
_channels: dict[str, Channel] = {}


class Channel:
    """A named group of tracepoints, which is recorded or not; made by `create_channel`."""

    __slots__ = ("_is_enabled", "is_on", "labels", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._is_enabled = True
        #: Whether tracepoints are recorded; None before the first use.
        self.is_on: bool | None = None
        self.labels = _Labels(self)

    @property
    def enabled(self) -> bool:
        """Whether the program wants it to be recorded."""
        return self._is_enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._is_enabled = bool(value)
        self.is_on = None

    def __repr__(self) -> str:
        return f"<Channel {self.name!r}, {'enabled' if self.enabled else 'disabled'}>"


class _Labels(dict[_Label, int]):
    """Codes of a channel's labels in the trace of this process, without or with metadata."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def __missing__(self, key: _Label) -> int:
        label, metadata = key if isinstance(key, tuple) else (key, None)
        if not isinstance(label, str):
            raise TypeError(f"Expected a string for 'label', got {label!r}.")
        recorder = _process.recorder
        if recorder is None:  # it has just ended
            return 0
        if len(self) >= _MOST_LABELS:
            self.clear()
        code = self[key] = recorder.label(self._channel.name, label, metadata)
        return code


def create_channel(name: str) -> Channel:
    """Return the channel of a name; all who ask for a name share it.

    Parameters
    ----------
    name
        Name of the channel, such as ``Poplar``.

    Raises
    ------
    TypeError
        When the name is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"Expected a string for 'name', got {name!r}.")
    return _channels.setdefault(name, Channel(name))


def channels() -> list[Channel]:
    """Return all channels of this process, in order of their creation."""
    return list(_channels.values())


class Tracepoint:
    """The time in a context; `begin`, `end` and `event` record without one.

    Parameters
    ----------
    channel
        The channel.
    label
        What is done.
    metadata
        JSON to show with it.
    """

    __slots__ = ("_buffer", "_code")

    _buffer: list[int]
    _code: int

    def __new__(cls, channel: Channel, label: str, metadata: str | None = None) -> Tracepoint:
        """Return a tracepoint, or one that does nothing."""
        if channel.is_on is False or not (channel.is_on or _decide(channel)):
            return _OFF
        self = object.__new__(cls)
        self._code = channel.labels[label if metadata is None else (label, _json(metadata))]
        return self

    def __enter__(self) -> Tracepoint:
        try:
            self._buffer = buffer = _local.buffer
        except AttributeError:
            self._buffer = buffer = _new_buffer()
        buffer.extend((self._code, perf_counter_ns()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # In a forked process this is a buffer that nobody takes.
        buffer = self._buffer
        buffer.extend((self._code | _END, perf_counter_ns()))
        if len(buffer) >= _LIMIT:
            _take(buffer)

    @staticmethod
    def begin(channel: Channel, label: str, metadata: str | None = None) -> None:
        """Record that something begins on this thread.

        Parameters
        ----------
        channel
            The channel.
        label
            What begins.
        metadata
            JSON to show with it.
        """
        if channel.is_on is not False and (channel.is_on or _decide(channel)):
            code = channel.labels[label if metadata is None else (label, _json(metadata))]
            _record(code)

    @staticmethod
    def end(channel: Channel, label: str) -> None:
        """Record that what began last with this label on this thread ends.

        Parameters
        ----------
        channel
            The channel.
        label
            What ends.
        """
        if channel.is_on is not False and (channel.is_on or _decide(channel)):
            _record(channel.labels[label] | _END)

    @staticmethod
    def event(channel: Channel, label: str, metadata: str | None = None) -> None:
        """Record a moment on this thread.

        Parameters
        ----------
        channel
            The channel.
        label
            What happens.
        metadata
            JSON to show with it.
        """
        if channel.is_on is not False and (channel.is_on or _decide(channel)):
            code = channel.labels[label if metadata is None else (label, _json(metadata))]
            _record(code | _MARK)


class _Off(Tracepoint):
    """A tracepoint that records nothing."""

    __slots__ = ()

    def __enter__(self) -> Tracepoint:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        pass


_OFF: Tracepoint = object.__new__(_Off)


def _record(code: int) -> None:
    try:
        buffer = _local.buffer
    except AttributeError:
        buffer = _new_buffer()
    buffer.extend((code, perf_counter_ns()))
    if len(buffer) >= _LIMIT:
        _take(buffer)


def _new_buffer() -> list[int]:
    """Return a buffer of this thread that the recorder takes."""
    from tilescope.tracepoints.recorder import Life

    recorder = _process.recorder
    if recorder is None:  # it has just ended
        return []
    _local.life = Life()
    buffer: list[int] = recorder.buffer(_local.life)
    _local.buffer = buffer
    return buffer


def _take(buffer: list[int]) -> None:
    """Hand a full buffer over; one that nobody takes any more is emptied."""
    recorder = _process.recorder
    if recorder is not None:
        recorder.take(buffer)
    if recorder is not None and recorder.is_closed:
        _turn_off()


def _json(metadata: str) -> str:
    """Return metadata that is JSON.

    Raises
    ------
    ValueError
        When it is not.
    """
    try:
        json.loads(metadata)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected JSON for 'metadata', got {str(metadata)[:80]!r}.") from error
    return metadata


def _decide(channel: Channel) -> bool:
    """Decide whether a channel is recorded, at its first use; return that."""
    with _process.lock:
        recorder = current()
        options = _process.options
        is_wanted = options is not None and (
            not options.channels or channel.name in options.channels
        )
        channel.is_on = recorder is not None and is_wanted and channel.enabled
        return channel.is_on


def current() -> Recorder | None:
    """Return the recorder of this process, which the first call starts if it is asked for."""
    if _process.is_decided:
        return _process.recorder
    with _process.lock:
        if not _process.is_decided:
            _process.options = TraceOptions.of()
            if _process.options is not None:
                _start(_process.options)
            _process.is_decided = True
    return _process.recorder


def _start(options: TraceOptions) -> None:
    """Start a trace; without one, the program goes on."""
    from tilescope.reports.errors import ReportNotWritable
    from tilescope.tracepoints.recorder import Recorder

    try:
        _process.recorder = Recorder(options)
    except ReportNotWritable as error:
        _log.warning("warning: nothing is traced. %s", error)
        return
    atexit.register(close_trace)
    workers = sys.modules.get("multiprocessing.util")  # processes of its own end without atexit
    if workers is not None:
        workers.Finalize(None, close_trace, exitpriority=0)


def is_recording() -> bool:
    """Return whether this process writes a trace."""
    recorder = current()
    return recorder is not None and not recorder.is_closed


def trace_path() -> Path | None:
    """Return the trace that this process writes or wrote; None if it has none."""
    recorder = current()
    return None if recorder is None else recorder.path


def trace_id() -> str | None:
    """Return the identity of the trace of this process; None if it has none."""
    recorder = current()
    return None if recorder is None else recorder.trace_id


_facts = count()


def note_fact(name: str, value: str) -> None:
    """Add a fact to the provenance of the trace, if there is one.

    Parameters
    ----------
    name
        What it is; the key is ``wall_``, the name and a number.
    value
        The fact.
    """
    recorder = current()
    if recorder is not None:
        recorder.fact(f"wall_{name}_{next(_facts)}", value)


def close_trace() -> None:
    """Write all that was recorded, and end the trace: nothing is recorded after it."""
    recorder = _process.recorder
    if recorder is not None:
        recorder.close()
    _process.is_decided = True
    _turn_off()


def _turn_off() -> None:
    for channel in channels():
        channel.is_on = False


def _after_fork_in_child() -> None:
    """Forget the parent's trace, whose file, locks and threads are not this process's."""
    global _process, _local  # noqa: PLW0603 - a new thread-local for the only thread that is left
    was_closed = _process.is_decided and (_process.recorder is None or _process.recorder.is_closed)
    _process = _Process()
    _process.is_decided = was_closed
    _local = threading.local()
    for channel in channels():
        channel.labels = _Labels(channel)
        channel.is_on = None


os.register_at_fork(after_in_child=_after_fork_in_child)
