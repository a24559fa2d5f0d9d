"""A directory lock that leaves no file behind: one engine at a time writes in a directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tilescope.reports.errors import ReportInUse, ReportNotWritable

__all__ = ["DirectoryLock"]


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
                " Wait until it ends, or choose another directory."
            ) from error

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
