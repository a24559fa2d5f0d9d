"""Opens a report: finds the file, validates its header, and opens it read-only."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from pathlib import Path
from urllib.parse import quote

import apsw

from tilescope.reports.errors import DamagedReport, NotAReport, ReportError, ReportNotFound
from tilescope.reports.file_header import read_header
from tilescope.reports.guard import GuardedConnection
from tilescope.reports.report import Report
from tilescope.reports.schema import REPORT_NAME
from tilescope.reports.side_files import SIDE_SUFFIXES, side_file
from tilescope.reports.snapshot import copy_snapshot

__all__ = ["check_header", "find_leftovers", "has_side_file", "open_report"]

_ATTEMPTS = 5


def open_report(path: Path | str) -> Report:
    """Open a report for reading; neither the file nor its directory changes.

    Parameters
    ----------
    path : Path or str
        A report file, or a directory. In a directory, opens ``profile.pop`` or, after killed runs,
        the newest incomplete report.

    Returns
    -------
    Report
        Close it, or use it as a context manager.

    Raises
    ------
    ReportNotFound
        The path does not exist, or the directory has no report.
    NotAReport
        The file is empty or belongs to another program.
    UnsupportedSchema
        The schema version is not supported.
    DamagedReport
        The file is inconsistent.
    """
    shown = Path(path)
    try:
        for _ in range(_ATTEMPTS - 1):
            file = _find(shown)
            before = _state(file)
            try:
                return _open_file(file)
            except (FileNotFoundError, ReportError):
                if before == _state(file):
                    raise
                # An engine was writing it, or has just renamed it.
        return _open_file(_find(shown))
    except OSError as error:
        raise ReportNotFound(f"Cannot read {shown}: {error.strerror}.") from error
    except ValueError as error:  # a NUL in the path
        raise ReportNotFound(f"Cannot read {str(shown)!r}: invalid file name.") from error


def find_leftovers(directory: Path) -> list[Path]:
    """Return the incomplete reports of killed or running engines in a directory, newest first."""
    found = []
    for file in directory.glob("profile_*.pop"):
        try:
            status = file.stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((status.st_mtime_ns, file))
    return [file for _, file in sorted(found, reverse=True)]


def has_side_file(file: Path) -> bool:
    """Return whether a non-empty SQLite journal belongs to the file."""
    return any(side_file(file, suffix).exists() for suffix in SIDE_SUFFIXES)


def _open_file(file: Path) -> Report:
    if has_side_file(file):
        return _open_copy(file)
    check_header(file)
    uri = f"file:{quote(str(file.absolute()))}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        report = Report(GuardedConnection(file, uri, flags, file))
    except ReportError as error:
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file)) from error
        raise
    if has_side_file(file):  # an engine has just started to write
        report.close()
        return _open_copy(file)
    return report


def _find(path: Path) -> Path:
    if path.is_dir():
        candidates = [path / REPORT_NAME, *find_leftovers(path)]
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        raise ReportNotFound(
            f"No report in {path}: neither {REPORT_NAME} nor an incomplete report of a killed run."
            " Run a model with `tilescope run` first, or choose another directory."
        )
    if not path.exists():
        raise ReportNotFound(f"{path} does not exist. Expected a report file or its directory.")
    if not path.is_file():
        raise NotAReport(f"{path} is not a regular file. Expected a report file or its directory.")
    return path


def check_header(file: Path) -> None:
    """Validate the first bytes of a report without side files, before SQLite opens it.

    Raises
    ------
    NotAReport
        The file is empty or belongs to another program.
    UnsupportedSchema
        The schema version is not supported.
    DamagedReport
        The file has another size than its header declares, or its text is not UTF-8.
    OSError
        The file cannot be read.
    """
    with file.open("rb") as stream:
        header = read_header(stream, file)
        size_bytes = os.fstat(stream.fileno()).st_size
    if header.declared_bytes != size_bytes:
        raise DamagedReport(
            f"{file} is damaged: it has {size_bytes:,} bytes where its header declares"
            f" {header.declared_bytes:,}. Copy it again from its source."
        )


def _open_copy(file: Path) -> Report:
    """Open a private copy of a file and its journal, which SQLite may modify."""
    directory = Path(tempfile.mkdtemp(prefix="tilescope-"))  # readable by this user only
    try:
        copy = copy_snapshot(file, directory)
        flags = apsw.SQLITE_OPEN_READWRITE
        connection = GuardedConnection(copy, str(copy), flags, file)
        return Report(connection, shown_path=file, private_directory=directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _state(file: Path) -> list[tuple[int, int, int] | None]:
    """Return a fingerprint that changes with the file or its side files."""
    states: list[tuple[int, int, int] | None] = []
    for part in (file, *(side_file(file, suffix) for suffix in SIDE_SUFFIXES)):
        try:
            status = part.stat()
        except FileNotFoundError:
            states.append(None)
        else:
            states.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return states
