"""One engine at a time writes in a directory: a lock that leaves no file behind."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tilescope.reports.errors import ReportInUse, ReportNotWritable

__all__ = ["DirectoryLock"]


class DirectoryLock:
    """An exclusive lock on a directory itself, held until released or until the process ends."""

    def __init__(self, directory: Path) -> None:
        """Make the directory if needed and lock it at once or not at all.

        Parameters
        ----------
        directory : Path
            Where a report will be written.

        Raises
        ------
        ReportInUse
            Another engine holds the lock.
        ReportNotWritable
            The directory can be neither made nor opened.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._descriptor: int | None = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ReportNotWritable(
                f"Cannot write a report into {directory}: {error.strerror}."
                " Choose another directory with autoReport.directory or --report."
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            self._descriptor = None
            raise ReportInUse(
                f"Another engine is writing a report into {directory}."
                " Wait until it has ended, or choose another directory."
            ) from error

    def sync(self) -> None:
        """Make what was renamed in the directory survive a loss of power."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def release(self) -> None:
        """Let the next engine in; more than once does no harm."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close this process's handle only: in a forked child the lock stays its parent's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
