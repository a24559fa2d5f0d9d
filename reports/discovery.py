"""Finds the reports below given paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from tilescope.reports.errors import ReportError, UnsupportedSchema
from tilescope.reports.reading.open import check_header, has_side_file
from tilescope.reports.schema import REPORT_NAME
from tilescope.reports.state import is_unfinished_name

__all__ = ["FoundReport", "find_reports"]

_MAX_DEPTH = 6
_MAX_DIRECTORIES = 200_000


@dataclass(frozen=True)
class FoundReport:
    """A report file found on disk, not opened yet.

    ``report_id`` is short and stable for a path. ``is_complete_guess`` depends on the file name
    only, ``is_damaged_guess`` on size and header; they serve order and links.
    `tilescope.reports.report_state` gives the state.
    """

    report_id: str
    label: str
    path: Path
    is_complete_guess: bool
    size_bytes: int
    mtime: float
    is_damaged_guess: bool = False


def find_reports(paths: Sequence[Path | str]) -> list[FoundReport]:
    """Return the reports at and below some paths, without duplicates, in order of the paths.

    Parameters
    ----------
    paths : sequence of Path or str
        Report files of any name, and directories, which are searched six levels deep without
        following links to directories, at most 200,000 directories for each path. Missing paths
        are ignored.
    """
    reports: dict[Path, FoundReport] = {}
    for path in map(Path, paths):
        for file in _files(path):
            entry = _describe(file, path)
            if entry is not None:
                reports.setdefault(entry.path, entry)
    return list(reports.values())


def _files(root: Path) -> Iterator[Path]:
    try:
        is_directory = root.is_dir()
    except OSError:  # a name that is too long, or a folder that may not be searched
        return
    if not is_directory:
        yield root
        return
    for visited, (directory, subdirectories, names) in enumerate(os.walk(root), start=1):
        here = Path(directory)
        depth = len(here.relative_to(root).parts)
        if depth >= _MAX_DEPTH or visited >= _MAX_DIRECTORIES:
            subdirectories.clear()
        subdirectories.sort()
        subdirectories[:] = [name for name in subdirectories if not name.startswith(".")]
        for name in sorted(names):
            if name == REPORT_NAME or is_unfinished_name(here / name):
                yield here / name


def _describe(file: Path, root: Path) -> FoundReport | None:
    try:
        path = file.resolve()
        status = path.stat()
    except (OSError, ValueError, RuntimeError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    is_complete = not is_unfinished_name(path)
    identity = blake2b(os.fsencode(path), digest_size=6).hexdigest()
    label = _label(file, root, is_complete)
    is_damaged = is_complete and _is_damaged(path)
    return FoundReport(
        identity, label, path, is_complete, status.st_size, status.st_mtime, is_damaged
    )


def _is_damaged(path: Path) -> bool:
    """Return whether a file with a complete report's name is damaged, or no report."""
    if has_side_file(path):  # an engine writes it
        return False
    try:
        check_header(path)
    except UnsupportedSchema:
        return False
    except (ReportError, OSError):
        return True
    return False


def _label(file: Path, root: Path, is_complete: bool) -> str:
    """Return a label unique among the reports: the directory below the given path."""
    if file == root:
        label = file.resolve().parent.name if file.name == REPORT_NAME else file.name
    else:
        label = "/".join((root.resolve().name, *file.parent.relative_to(root).parts))
    text = "".join(c if c.isprintable() else "�" for c in label or file.name)
    return text if is_complete else f"{text} ({file.name})"
