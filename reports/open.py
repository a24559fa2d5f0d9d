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
from tilescope.reports.guard import GuardedConnection, unsupported
from tilescope.reports.report import Report
from tilescope.reports.schema import APPLICATION_ID, REPORT_NAME, SCHEMA_VERSION

__all__ = ["check_header", "find_leftovers", "has_side_file", "open_report"]

_SIDE_SUFFIXES = ("-wal", "-journal")
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_ATTEMPTS = 5


def open_report(path: Path | str, *, name: str | None = None) -> Report:
    """Open a report for reading; neither the file nor its directory changes.

    Parameters
    ----------
    path : Path or str
        A report file, or a directory. In a directory, opens ``profile.pop`` or, after killed runs,
        the newest incomplete report.
    name : str or None
        What messages call the report; None for its path.

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
    label = str(shown) if name is None else name
    try:
        for _ in range(_ATTEMPTS - 1):
            file = _find(shown, label)
            before = _state(file)
            try:
                return _open_file(file, name)
            except (FileNotFoundError, ReportError):
                if before == _state(file):
                    raise
                # An engine was writing it, or has just renamed it.
        return _open_file(_find(shown, label), name)
    except OSError as error:
        raise ReportNotFound(f"Cannot read {label}: {error.strerror}.") from error
    except ValueError as error:  # a NUL in the path
        raise ReportNotFound(f"Cannot read {label!r}: invalid file name.") from error


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
    return any(_side(file, suffix).exists() for suffix in _SIDE_SUFFIXES)


def _open_file(file: Path, name: str | None) -> Report:
    if has_side_file(file):
        return _open_copy(file, name)
    check_header(file, name)
    uri = f"file:{quote(str(file.absolute()))}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        report = Report(GuardedConnection(file, uri, flags, name or str(file)), name=name)
    except ReportError as error:
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file)) from error
        raise
    if has_side_file(file):  # an engine has just started to write
        report.close()
        return _open_copy(file, name)
    return report


def _find(path: Path, label: str) -> Path:
    if path.is_dir():
        candidates = [path / REPORT_NAME, *find_leftovers(path)]
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        raise ReportNotFound(
            f"No report in {label}: neither {REPORT_NAME} nor an incomplete report of a killed run."
            " Run a model with `tilescope run` first, or choose another directory."
        )
    if not path.exists():
        raise ReportNotFound(f"{label} does not exist. Expected a report file or its directory.")
    if not path.is_file():
        raise NotAReport(f"{label} is not a regular file. Expected a report file or its directory.")
    return path


def check_header(file: Path, name: str | None = None) -> None:
    """Validate the first bytes, before SQLite opens the file; ``name`` is as in `open_report`.

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
        header = stream.read(_HEADER_BYTES)
        size_bytes = os.fstat(stream.fileno()).st_size
    label = name or str(file)
    if not header:
        raise NotAReport(f"{label} is empty, not a report.")
    if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES:
        raise NotAReport(f"{label} is not a report: it lacks the header of an SQLite file.")
    if int.from_bytes(header[68:72]) != APPLICATION_ID:
        raise NotAReport(f"{label} is another program's SQLite file, not a report.")
    version = int.from_bytes(header[60:64])
    if version != SCHEMA_VERSION:
        raise unsupported(label, version)
    page_bytes = int.from_bytes(header[16:18])
    n_pages = int.from_bytes(header[28:32])
    if int.from_bytes(header[56:60]) != 1 or n_pages * page_bytes != size_bytes:
        raise DamagedReport(
            f"{label} is damaged: it has {size_bytes} bytes where its header declares"
            f" {n_pages * page_bytes}, or its text is not UTF-8. Copy it again from its source."
        )


def _open_copy(file: Path, name: str | None) -> Report:
    """Open a private copy of a file and its journal, which SQLite may modify."""
    directory = Path(tempfile.mkdtemp(prefix="tilescope-"))  # readable by this user only
    try:
        copy = _copy_steadily(file, directory, name or str(file))
        flags = apsw.SQLITE_OPEN_READWRITE
        connection = GuardedConnection(copy, str(copy), flags, name or str(file))
        return Report(connection, shown_path=file, name=name, private_directory=directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _copy_steadily(file: Path, directory: Path, label: str) -> Path:
    """Copy a consistent snapshot of a file and its journal while an engine may be writing."""
    copy = directory / file.name
    sources = [file, *(_side(file, suffix) for suffix in _SIDE_SUFFIXES)]
    for _ in range(_ATTEMPTS):
        before = _state(file)[0]
        for source in sources:
            target = directory / source.name
            target.unlink(missing_ok=True)
            if source == file or source.is_file():
                shutil.copyfile(source, target)
        # Between checkpoints the journal only grows, and its frames have checksums; only the file
        # itself must be unchanged.
        if before == _state(file)[0]:
            return copy
    raise ReportError(f"{label} changes too fast to copy. Try again in a moment.")


def _state(file: Path) -> list[tuple[int, int, int] | None]:
    """Return a fingerprint that changes with the file or its side files."""
    states: list[tuple[int, int, int] | None] = []
    for part in (file, *(_side(file, suffix) for suffix in _SIDE_SUFFIXES)):
        try:
            status = part.stat()
        except FileNotFoundError:
            states.append(None)
        else:
            states.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return states


def _side(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)
