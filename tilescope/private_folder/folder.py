"""A folder by its descriptor: its files are read after a check, and appear whole."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from pathlib import Path
from typing import BinaryIO

from tilescope.private_folder.access import NotPrivate, check_access, open_folder

__all__ = ["PARTIAL", "PrivateFolder"]

#: Suffix of files that are being written.
PARTIAL = ".part"

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFolder:
    """A folder whose files are used only if no other user may have written them.

    Parameters
    ----------
    path
        The folder. It is made with mode 0700, and its files with mode 0600, when one is written.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._descriptor: int | None = None

    def open_file(self, name: str, largest_bytes: int) -> BinaryIO:
        """Return a file, open for reading.

        Parameters
        ----------
        name
            Name of the file in the folder.
        largest_bytes
            Largest size of a file that is used.

        Raises
        ------
        NotPrivate
            When another user may write to folder or file, or it is not a regular file, or too long.
        """
        descriptor = self._open_for_reading(name, largest_bytes)[0]
        return os.fdopen(descriptor, "rb")

    def read(self, name: str, largest_bytes: int) -> bytes:
        """Return the content of a file.

        Parameters
        ----------
        name
            Name of the file in the folder.
        largest_bytes
            Largest size of a file that is used.

        Raises
        ------
        NotPrivate
            When another user may write to folder or file, or it is not a regular file, or too long.
        """
        descriptor, n_bytes = self._open_for_reading(name, largest_bytes)
        try:
            content = os.read(descriptor, n_bytes)
            while len(content) < n_bytes:
                part = os.read(descriptor, n_bytes - len(content))
                if not part:
                    break
                content += part
        finally:
            os.close(descriptor)
        return content

    def write(self, name: str, content: bytes, *, is_durable: bool = False) -> None:
        """Write a file, which appears under its name at once and whole.

        Parameters
        ----------
        name
            Name of the file in the folder.
        content
            Its content.
        is_durable
            Whether to return only when it is on the disk.

        Raises
        ------
        NotPrivate
            When another user may write to the folder.
        """
        try:
            self._write(self._open(is_created=True), name, content, is_durable)
        except FileNotFoundError:  # the folder was removed meanwhile
            self._descriptor = None
            self._write(self._open(is_created=True), name, content, is_durable)

    def names(self) -> list[str]:
        """Return the names of its entries.

        Raises
        ------
        NotPrivate
            When another user may write to the folder.
        """
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._open())
        try:
            return os.listdir(folder)
        finally:
            os.close(folder)

    def modified_ns(self, name: str) -> int:
        """Return when an entry changed last, nanoseconds; 0 if it is missing.

        Raises
        ------
        NotPrivate
            When another user may write to the folder.
        """
        status = self._status(name)
        return 0 if status is None else status.st_mtime_ns

    def n_bytes(self, name: str) -> int:
        """Return the size of an entry; 0 if it is missing.

        Raises
        ------
        NotPrivate
            When another user may write to the folder.
        """
        status = self._status(name)
        return 0 if status is None else status.st_size

    def remove(self, name: str) -> None:
        """Remove a file; another process may have removed it.

        Raises
        ------
        NotPrivate
            When another user may write to the folder.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._open())

    def _status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry; None if it is missing."""
        try:
            return os.stat(name, dir_fd=self._open(), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def make(self) -> None:
        """Make the folder if it is missing, and check it.

        Raises
        ------
        NotPrivate
            When another user may write to the folder.
        """
        self._open(is_created=True)

    def _open(self, *, is_created: bool = False) -> int:
        """Return the descriptor of the folder, checked once."""
        if self._descriptor is None:
            descriptor = open_folder(self.path, is_created=is_created)
            # Closed with this object only: another thread may be using an earlier one.
            weakref.finalize(self, os.close, descriptor)
            self._descriptor = descriptor
        return self._descriptor

    def _open_for_reading(self, name: str, largest_bytes: int) -> tuple[int, int]:
        """Return the descriptor and the size of a file that is fit for use."""
        path, folder = self.path / name, self._open()
        try:
            descriptor = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket or a device
                raise NotPrivate(path, "is not a file") from None
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotPrivate(path, "is not a file")
            check_access(status, path)
            if status.st_size > largest_bytes:
                raise NotPrivate(path, f"is longer than {largest_bytes:,} bytes")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, status.st_size

    def _write(self, folder: int, name: str, content: bytes, is_durable: bool) -> None:
        """Write a file in an open folder under another name, and rename it."""
        partial = f".{name[:80]}.{os.getpid()}.{os.urandom(8).hex()}{PARTIAL}"
        descriptor = os.open(partial, _CREATE, 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                os.fchmod(descriptor, 0o600)  # whatever the umask
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
                if is_durable:
                    os.fsync(descriptor)
            os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial, dir_fd=folder)
            raise
        if is_durable:
            with contextlib.suppress(OSError):  # some file systems cannot sync a directory
                _sync(folder)


def _sync(folder: int) -> None:
    """Flush the entries of a folder to the disk."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
