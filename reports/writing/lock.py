"""Locks that leave no file behind: one engine at a time writes in a directory, or one trace.

A host's trace locks its own file, so that any number of processes write theirs into a directory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

from tilescope.reports.errors import ReportInUse, ReportNotWritable

__all__ = ["DirectoryLock", "FileLock"]

#: Readers that ask for the state of a report share the lock for an instant.
_ATTEMPTS = 4
_PAUSE_S = 0.003


class DirectoryLock:
    """An exclusive lock on a directory, held until release or the end of the process."""

    def __init__(self, directory: Path) -> None:
        """Create the directory if needed and try to lock it, without waiting.

        Parameters
        ----------
        directory : Path
            Directory of the new report.

        Raises
        ------
        ReportInUse
            Another engine holds the lock.
        ReportNotWritable
            Creating or opening the directory failed.
        """
        try:
            self._new_directory = None if directory.exists() else directory
            directory.mkdir(parents=True, exist_ok=True)
            self._descriptor: int | None = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ReportNotWritable(
                f"Cannot write a report into {directory}: {error.strerror}."
                " Choose another directory with autoReport.directory or --report."
            ) from error
        try:
            _lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            self._descriptor = None
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise ReportInUse(
                    f"Another engine is writing a report into {directory}."
                    " Wait until it ends, or choose another directory."
                ) from error
            self.remove_new_directory()
            raise ReportNotWritable(
                f"Cannot write a report into {directory}: its file system does not support locks"
                f" ({error.strerror}). Choose a directory on another file system with"
                " autoReport.directory or --report."
            ) from error

    def remove_new_directory(self) -> None:
        """Remove the directory if it was created for this lock and is empty."""
        if self._new_directory is not None:
            with contextlib.suppress(OSError):
                self._new_directory.rmdir()

    def sync(self) -> None:
        """Flush renames in the directory to disk."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def release(self) -> None:
        """Release the lock; repeated calls are harmless."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close this process's handle only: after a fork, the parent keeps the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class FileLock:
    """An exclusive lock on a new file, held until release or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Create the file, and its directory if needed, and lock it.

        Parameters
        ----------
        path : Path
            The new file.

        Raises
        ------
        FileExistsError
            There is a file of that name.
        ReportNotWritable
            Creating or locking it failed.
        """
        self._directory = path.parent
        self._descriptor: int | None = None
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite's own locks end when a descriptor of the file is closed: this one stays open.
            flags = os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.forget()
            if isinstance(error, FileExistsError) and path.parent.is_dir():
                raise
            raise ReportNotWritable(
                f"Cannot write a trace into {path.parent}: {error.strerror}."
                " Choose another directory."
            ) from error

    def remove_new_directory(self) -> None:
        """Leave the directory: other processes may be about to write into it."""

    def sync(self) -> None:
        """Flush the file's name to disk."""
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Release the lock; repeated calls are harmless."""
        self.forget()

    def forget(self) -> None:
        """Close this process's handle: after a fork, the parent keeps the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int) -> None:
    """Lock a directory exclusively.

    Raises
    ------
    OSError
        Another process holds the lock, or locks are not supported.
    """
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
