"""What a trace says of itself: its process, its clock, its threads and labels."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.reports.schema import host_channel, host_label, host_thread, provenance

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["HostTrace", "Thread", "host_trace", "open_trace"]


@dataclass(frozen=True)
class Thread:
    """A thread that recorded something."""

    thread_id: int
    tid: int
    name: str


@dataclass(frozen=True)
class HostTrace:
    """The facts of a trace.

    Attributes
    ----------
    trace_id
        Identity of the trace; profiles that the process wrote state it.
    pid
        Number of the process.
    program
        Name of the program's file.
    host
        Name of the computer.
    origin_ns
        When the trace began, nanoseconds since 1970; 0 if it does not say.
    monotonic_origin_ns
        The same on the monotonic clock of the computer, which its processes share.
    threads
        In order of their first record.
    channels
        Names of the channels.
    label_channel
        Number of the channel of every label.
    labels
        Texts of the labels.
    metadata
        JSON of every label, or None.
    """

    trace_id: str
    pid: int
    program: str
    host: str
    origin_ns: int
    monotonic_origin_ns: int
    threads: tuple[Thread, ...]
    channels: tuple[str, ...]
    label_channel: tuple[int, ...]
    labels: tuple[str, ...]
    metadata: tuple[str | None, ...]


def open_trace(path: str | PathLike[str]) -> Report:
    """Open a trace of a host for reading.

    Parameters
    ----------
    path
        A ``*.pvti``, which may still be written.

    Raises
    ------
    ReportError
        When there is no trace, or it is damaged, foreign, of another version, or a profile.
    """
    from tilescope.reports import open_report
    from tilescope.reports.kind import Kind, require_kind

    report = open_report(Path(path))
    try:
        require_kind(report, [Kind.HOST_TRACE])
    except BaseException:
        report.close()
        raise
    return report


@cached
def host_trace(report: Report) -> HostTrace:
    """Return the facts of a trace.

    Parameters
    ----------
    report
        An open trace.
    """
    facts = dict(report.rows(provenance, "key", "value"))
    threads = report.rows(host_thread, "host_thread_id", "tid", "name")
    label_channel, labels, metadata = report.columns(
        host_label, "host_channel_id", "label", "metadata"
    )
    return HostTrace(
        facts.get("wall_trace_id", ""),
        _whole(facts.get("wall_process_id", "")),
        facts.get("wall_program", ""),
        facts.get("wall_host", ""),
        _whole(facts.get("wall_origin_ns", "")),
        _whole(facts.get("wall_monotonic_origin_ns", "")),
        tuple(Thread(*row) for row in threads),
        tuple(report.column(host_channel, "name")),
        tuple(label_channel),
        tuple(labels),
        tuple(metadata),
    )


def _whole(text: str) -> int:
    """Return a number of the provenance, which readers do not trust."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
