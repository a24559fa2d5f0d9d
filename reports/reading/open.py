"""Opens a report: finds the file, validates its header, and opens it read-only."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import apsw

from tilescope.reports.errors import (
    DamagedReport,
    NotAReport,
    ReportError,
    ReportNotFound,
)
from tilescope.reports.integrity.guard import GuardedConnection
from tilescope.reports.reading.file_header import read_header
from tilescope.reports.reading.report import NewerRun, Report
from tilescope.reports.reading.side_files import SIDE_SUFFIXES, side_file
from tilescope.reports.schema import REPORT_NAME, provenance
from tilescope.reports.state import (
    ReportState,
    State,
    has_begun,
    is_unfinished_name,
    sign_of_life,
    state_after,
    unfinished_reports,
)

__all__ = ["check_header", "has_side_file", "open_report", "regular_file", "report_state"]

_ATTEMPTS = 5
#: Unfinished reports of a directory that are looked at.
_MOST_UNFINISHED = 16
#: Files of a directory whose dates are looked at.
_MOST_FILES = 1_000


def open_report(path: Path | str, *, name: str | None = None) -> Report:
    """Open a report for reading; neither the file nor its directory changes.

    Parameters
    ----------
    path : Path or str
        A report file, or a directory. In a directory, opens ``profile.pop``, whose
        `Report.newer_run` tells of an unfinished run after it; without one, the newest unfinished
        report that holds a compilation.
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
    given_path = Path(path)
    label = str(given_path) if name is None else name
    try:
        if given_path.is_dir():
            return _open_directory(given_path, name)
        file = regular_file(given_path)
        if file.is_symlink():  # its side files and its lock are beside the file itself
            return _open_steadily(file.resolve(), label)
        return _open_steadily(file, name)
    except OSError as error:
        raise ReportNotFound(f"Cannot read {label}: {error.strerror}.") from error
    except ValueError as error:  # a NUL in the path
        raise ReportNotFound(f"Cannot read {label!r}: invalid file name.") from error
    except ReportError as error:  # files below name themselves by their path
        error.args = (str(error).replace(str(given_path), label),)
        raise


def _open_steadily(file: Path, name: str | None) -> Report:
    """Open a file; again while it changes, since an engine writes it or has just renamed it."""
    for _ in range(_ATTEMPTS - 1):
        before = _state(file)
        try:
            return _open_file(file, name)
        except (FileNotFoundError, ReportError):
            if before == _state(file):
                raise
    return _open_file(file, name)


def has_side_file(file: Path) -> bool:
    """Return whether a non-empty SQLite journal belongs to the file."""
    return any(side_file(file, suffix).exists() for suffix in SIDE_SUFFIXES)


def _open_file(file: Path, name: str | None) -> Report:
    if has_side_file(file):
        return _open_copy(file, name)
    check_header(file)
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


def _open_directory(directory: Path, name: str | None) -> Report:
    """Open the complete report of a directory, else the newest unfinished one with data."""
    for _ in range(_ATTEMPTS):
        final = directory / REPORT_NAME
        if final.is_file():
            report = _open_steadily(final, name)
            report.newer_run = _newer_run(directory, report)
            return report
        try:
            return _open_unfinished(unfinished_reports(directory), name)
        except FileNotFoundError:
            continue  # its engine has just finished
    raise ReportNotFound(
        f"No report in {directory}: neither {REPORT_NAME} nor an unfinished report of a run."
        " Run a model with `tilescope run` first, or choose another directory."
    )


def _open_unfinished(files: Sequence[Path], name: str | None) -> Report:
    """Open the first file that holds a compilation; the first one if none does.

    Raises
    ------
    FileNotFoundError
        No file is left.
    ReportError
        None can be read: the error of the first.
    """
    problem: Exception = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    empty: Report | None = None
    with_content = [file for file in files[:_MOST_FILES] if _has_content(file)]
    for file in (with_content or files)[:_MOST_UNFINISHED]:
        try:
            report = _open_steadily(file, name)
        except (FileNotFoundError, ReportError) as error:
            problem = error if isinstance(problem, FileNotFoundError) else problem
            continue
        if has_begun(report.milestones):
            if empty is not None:
                empty.close()
            return report
        if empty is None:
            empty = report
        else:
            report.close()
    if empty is not None:
        return empty
    raise problem


def _newer_run(directory: Path, report: Report) -> NewerRun | None:
    """Return the newest unfinished run after a complete report that holds data or still runs."""
    with_content = filter(_has_content, unfinished_reports(directory)[:_MOST_FILES])
    for file in islice(with_content, _MOST_UNFINISHED):
        state = state_after("", file)
        if state.state is State.RUNNING:
            return NewerRun(file, state)
        try:
            with open_report(file) as candidate:
                if not has_begun(candidate.milestones) or not _is_newer(candidate, report):
                    continue
                if candidate.state.is_complete:  # sealed, and not renamed
                    candidate.verify()
                return NewerRun(file, candidate.state)
        except DamagedReport as error:
            if (sign_of_life(file) or 0.0) > report.path.stat().st_mtime:
                return NewerRun(file, ReportState(State.DAMAGED, None, str(error)))
        except ReportError:  # renamed just now, or of an older version
            continue
    return None


def _has_content(file: Path) -> bool:
    """Return whether a file holds anything, or an engine may just be starting it."""
    try:
        return file.stat().st_size > 0 or has_side_file(file)
    except OSError:
        return False


def _is_newer(run: Report, other: Report) -> bool:
    """Return whether a report was begun after another, by their own words if both have some.

    Copies of files have other dates than their originals.
    """
    begun = [_begun(report) for report in (run, other)]
    if all(begun) and begun[0] != begun[1]:
        return begun[0] > begun[1]
    return (sign_of_life(run.path) or 0.0) > (sign_of_life(other.path) or 0.0)


def _begun(report: Report) -> str:
    """Return when a report was begun; empty if it does not say."""
    try:
        return str(dict(report.rows(provenance, "key", "value")).get("wall_created", ""))
    except DamagedReport:
        return ""


def report_state(file: Path, *, verify: bool = False) -> ReportState | None:
    """Return the state of a report file; None if it holds no data and no engine writes it.

    Parameters
    ----------
    file : Path
        A report file, not a directory.
    verify : bool
        Whether to verify all of the file unless it is being written; opening verifies the chain of
        digests only.

    Raises
    ------
    ReportNotFound, NotAReport, UnsupportedSchema
        It cannot be a report of this version.
    """
    try:
        with open_report(file) as report:
            state = report.state
            if verify and state.state is not State.RUNNING:
                report.verify()
            return None if _is_idle_start(report, state) else state
    except NotAReport:
        if is_unfinished_name(file):  # empty: an engine has just begun, or was killed then
            state = state_after("", file)
            return state if state.state is State.RUNNING else None
        raise
    except DamagedReport as error:
        return ReportState(State.DAMAGED, None, str(error))


def _is_idle_start(report: Report, state: ReportState) -> bool:
    return not has_begun(report.milestones) and state.state is not State.RUNNING


def regular_file(path: Path) -> Path:
    """Return a path if it leads to a regular file.

    Raises
    ------
    ReportNotFound
        Nothing is there.
    NotAReport
        Something else is there, such as a directory or a pipe.
    """
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


def _open_copy(file: Path, name: str | None) -> Report:
    """Open a private copy of a file and its journal, which SQLite may modify."""
    from tilescope.reports.reading.snapshot import copy_snapshot

    directory = Path(tempfile.mkdtemp(prefix="tilescope-"))  # readable by this user only
    try:
        copy = copy_snapshot(file, directory)
        flags = apsw.SQLITE_OPEN_READWRITE
        connection = GuardedConnection(copy, str(copy), flags, name or str(file))
        return Report(connection, shown_path=file, name=name, private_directory=directory)
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
