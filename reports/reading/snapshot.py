"""Private copies of reports that have side files: consistent, and no larger than needed."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from tilescope.reports.errors import NotAReport, ReportError
from tilescope.reports.reading.file_header import FileHeader, read_header
from tilescope.reports.reading.side_files import (
    journal_bytes,
    log_bytes,
    log_header,
    opened_side_file,
    side_file,
)

__all__ = ["copy_snapshot"]

#: How long to wait for a moment at which the file is not checkpointed.
_PATIENCE_S = 2.0
_PAUSE_S = 0.02
_COPY_BYTES = 16 * 1024 * 1024
#: Errors of systems that cannot copy within the kernel, or not between these files.
_NOT_IN_KERNEL = frozenset(
    (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM)
)

#: Returns how many bytes of an open side file are valid.
_Measure: TypeAlias = Callable[[int, FileHeader, Path], int]


def copy_snapshot(file: Path, directory: Path) -> Path:
    """Copy a report and its side files as of one moment, while an engine may be writing.

    Nothing is copied unless the header is that of a report. The valid start of a write-ahead file
    is copied, not the file.

    Parameters
    ----------
    file
        The report.
    directory
        An empty directory for the copies.

    Returns
    -------
    Path
        The copy of the report.

    Raises
    ------
    NotAReport
        The file is empty or belongs to another program.
    UnsupportedSchema
        The schema version is not supported.
    DamagedReport
        A side file does not belong to the report.
    ReportError
        The directory has no space, or the file changes too fast.
    OSError
        A file is not readable, or has gone.
    """
    copy = directory / file.name
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        before = _fingerprint(file)
        _copy_files(file, copy)
        if before == _fingerprint(file):
            return copy
        if time.monotonic() > deadline:
            raise ReportError(f"{file} changes too fast to copy. Try again in a moment.")
        time.sleep(_PAUSE_S)


def _fingerprint(file: Path) -> tuple[object, ...]:
    """Return what changes when the pages in a file may stop matching its write-ahead file.

    Pages reach the file at a checkpoint only. They stay in the log until the writer starts it anew,
    which changes its header, and until then a reader takes them from the log. The time of the file
    itself is no sign of a change: a writer touches it while it has nothing to write.
    """
    status = file.stat()
    log = side_file(file, "-wal")
    header = log_header(log)
    if header:
        return status.st_ino, header
    with file.open("rb") as stream:
        change_counter = stream.read(28)[24:]
    journal = _state(side_file(file, "-journal"))
    journal_time = status.st_mtime_ns if journal else None
    return status.st_ino, change_counter, status.st_size, _state(log), journal, journal_time


def _state(side: Path) -> tuple[int, int, int] | None:
    try:
        status = side.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _copy_files(file: Path, copy: Path) -> None:
    """Copy a report, then what is valid of its side files."""
    for name in (copy, side_file(copy, "-wal"), side_file(copy, "-journal")):
        name.unlink(missing_ok=True)
    with file.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:
            raise NotAReport(
                f"{file} is empty: its engine has just started, or ended before it wrote anything."
            )
        header = read_header(stream, file)
        _copy_range(stream.fileno(), copy, os.fstat(stream.fileno()).st_size, file)
    for suffix, measure in (("-wal", log_bytes), ("-journal", journal_bytes)):
        _copy_side_file(side_file(file, suffix), side_file(copy, suffix), measure, header, file)


def _copy_side_file(
    source: Path, target: Path, measure: _Measure, header: FileHeader, file: Path
) -> None:
    with opened_side_file(source) as descriptor:
        n_bytes = 0 if descriptor is None else measure(descriptor, header, file)
        if descriptor is not None and n_bytes:
            _copy_range(descriptor, target, n_bytes, file)


def _copy_range(descriptor: int, target: Path, n_bytes: int, file: Path) -> None:
    """Copy the first bytes of an open file; holes stay holes."""
    allocated_bytes = min(n_bytes, os.fstat(descriptor).st_blocks * 512)
    free_bytes = shutil.disk_usage(target.parent).free
    if allocated_bytes > free_bytes:
        raise _no_space(file, allocated_bytes)
    try:
        with target.open("wb", buffering=0) as stream:
            os.ftruncate(stream.fileno(), n_bytes)
            offset = 0
            while offset < n_bytes:
                try:
                    offset = os.lseek(descriptor, offset, os.SEEK_DATA)
                    end = min(os.lseek(descriptor, offset, os.SEEK_HOLE), n_bytes)
                except OSError as error:
                    if error.errno == errno.ENXIO:  # only a hole is left
                        return
                    end = n_bytes
                _copy_segment(descriptor, stream.fileno(), offset, end)
                offset = end
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _no_space(file, allocated_bytes) from error
        raise


def _copy_segment(source: int, target: int, offset: int, end: int) -> None:
    """Copy a range of bytes, within the kernel where the system can."""
    if hasattr(os, "copy_file_range"):
        try:
            while offset < end:
                n = os.copy_file_range(source, target, end - offset, offset, offset)
                if not n:  # the file has become shorter
                    return
                offset += n
        except OSError as error:
            if error.errno not in _NOT_IN_KERNEL:
                raise
    while offset < end:
        block = os.pread(source, min(end - offset, _COPY_BYTES), offset)
        if not block:
            return
        offset += os.pwrite(target, block, offset)


def _no_space(file: Path, n_bytes: int) -> ReportError:
    mebibytes = max(n_bytes >> 20, 1)
    return ReportError(
        f"Cannot open {file}: an unfinished report is read from a private copy, and"
        f" {tempfile.gettempdir()} lacks {mebibytes:,} MiB for it. Free some space, or set TMPDIR"
        " to another directory."
    )
