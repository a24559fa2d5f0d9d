"""Creates the empty database of a report, and describes write failures."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw

from tilescope.reports.errors import ReportNotWritable

__all__ = ["PAGE_BYTES", "new_file", "refusal"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Every table and every chunk ends in a page that is not full: with pages of 4 KiB, reports of
#: 1.5 MB are 7 % larger. Those of large reports change by less than 4 %.
PAGE_BYTES = 2_048


def new_file(path: Path, content: bytes | None = None) -> apsw.Connection:
    """Create a database: an empty one, or one that begins as another."""
    if content is not None:
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # commits sync the log beside it only
    connection = apsw.Connection(
        str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    )
    connection.set_busy_timeout(2_000)
    # FULL: a commit is on the disk when it returns.
    for pragma in (f"page_size={PAGE_BYTES}", "synchronous=FULL", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def refusal(directory: Path, error: Exception) -> ReportNotWritable:
    """Return the error for a failed write."""
    advice = "Choose another directory."
    if isinstance(error, apsw.FullError) or getattr(error, "errno", None) in _FULL:
        cause, advice = "the disk is full", "Free some space or choose another directory."
    elif isinstance(error, MemoryError):
        cause, advice = "not enough memory on this computer", "Record fewer runs."
    elif isinstance(error, apsw.BusyError):
        cause = "its file system does not support locks"
    elif isinstance(error, OSError) and error.strerror:
        cause = error.strerror
    else:
        cause = str(error) or type(error).__name__
    return ReportNotWritable(f"Cannot write the report into {directory}: {cause}. {advice}")
