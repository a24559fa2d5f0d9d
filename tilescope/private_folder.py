"""Folders that only their user may change: caches of code and of compilations, and logs.

What is in such a folder is used as if this process had written it, compiled code included. A folder
is checked as OpenSSH checks ``~/.ssh``: it and all folders above it belong to the user or to root,
and no other user may write to them. Everything is reached by the descriptor of a checked folder, so
that nothing can be exchanged between check and use.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import weakref
from pathlib import Path
from typing import BinaryIO

__all__ = ["PARTIAL", "NotPrivate", "PrivateFolder", "foreign_owner", "warn_once"]

#: Suffix of files that are being written.
PARTIAL = ".part"

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)  # a descriptor that needs no right to read
_FOLDER = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40
#: Paths that were reported in this process.
_reported: set[Path] = set()


class NotPrivate(Exception):
    """A folder or file is not used, since another user may have put it there.

    Parameters
    ----------
    path
        The folder or file at fault: for a folder, it or one above it.
    problem
        What is wrong with it, as a verb and its object.
    remedy
        A command that repairs a folder; empty if another one must be chosen.
    is_folder
        Whether the folder is not used, rather than one file in it.
    """

    code = "not_private"
    exit_code = 2

    def __init__(
        self, path: Path, problem: str, remedy: str = "", *, is_folder: bool = False
    ) -> None:
        super().__init__(f"{path} {problem}")
        self.path, self.problem, self.remedy, self.is_folder = path, problem, remedy, is_folder

    def advice(self, setting: str) -> str:
        """Return what is wrong and what to do, as a sentence without its full stop.

        Parameters
        ----------
        setting
            How to choose another folder, as an imperative.
        """
        if not self.is_folder:
            return f"{self}; remove it"
        return f"{self}; {f'run `{self.remedy}`, or ' if self.remedy else ''}{setting}"


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
        try:
            return os.stat(name, dir_fd=self._open(), follow_symlinks=False).st_mtime_ns
        except FileNotFoundError:
            return 0

    def remove(self, name: str) -> None:
        """Remove a file; another process may have removed it.

        Raises
        ------
        NotPrivate
            When another user may write to the folder.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._open())

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
            descriptor = _open_folder(self.path, is_created=is_created)
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
            _check_access(status, path)
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


def warn_once(error: NotPrivate, kind: str, setting: str, log: logging.Logger) -> None:
    """Log that a folder or file is not used and why, once per process and path at fault.

    Parameters
    ----------
    error
        What is wrong.
    kind
        What is not used, such as ``cached plans``.
    setting
        How to choose another folder, as an imperative.
    log
        The logger.
    """
    if error.path in _reported:
        return
    _reported.add(error.path)
    log.warning("warning: continuing without %s: %s", kind, error.advice(setting))


def foreign_owner(status: os.stat_result) -> str:
    """Return who owns a file or folder, as ``user 1000``; empty for this user and root."""
    owner = status.st_uid
    return "" if owner in (0, os.geteuid()) else f"user {owner}"


def _check_access(status: os.stat_result, path: Path, *, is_above: bool = False) -> None:
    """Raise NotPrivate if another user may change something.

    In a folder with the sticky bit, such as ``/tmp``, nobody changes the entries of others.
    """
    is_folder = stat.S_ISDIR(status.st_mode)
    owner = foreign_owner(status)
    if owner:
        remedy = "" if is_above else f"chown {os.geteuid()} {path}"
        raise NotPrivate(path, f"belongs to {owner}", remedy, is_folder=is_folder)
    is_shared = bool(status.st_mode & _OTHERS_WRITE) and not stat.S_ISLNK(status.st_mode)
    if is_shared and not (is_above and status.st_mode & stat.S_ISVTX):
        remedy = f"chmod go-w {path}"
        raise NotPrivate(path, "may be written by other users", remedy, is_folder=is_folder)


def _open_folder(path: Path, *, is_created: bool) -> int:
    """Return the descriptor of a folder after a check of it and of all folders above it."""
    folder, shown = os.open("/", _FOLDER), Path("/")
    whole = path if path.is_absolute() else Path.cwd() / path
    names = list(reversed(whole.parts[1:]))
    n_links = 0
    try:
        _check_access(os.fstat(folder), shown, is_above=bool(names))
        while names:
            name = names.pop()
            status = _entry(name, folder, is_created=is_created)
            if stat.S_ISLNK(status.st_mode):
                if foreign_owner(status):
                    raise NotPrivate(
                        shown / name, f"belongs to {foreign_owner(status)}", is_folder=True
                    )
                n_links += 1
                if n_links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                target = os.readlink(name, dir_fd=folder)
                names.extend(part for part in reversed(Path(target).parts) if part != "/")
                is_absolute = target.startswith("/")
                following = os.open("/", _FOLDER) if is_absolute else os.dup(folder)
                shown = Path("/") if is_absolute else shown
            else:
                following = os.open(name, _FOLDER, dir_fd=folder)
                shown = shown.parent if name == ".." else shown / name
            os.close(folder)
            folder = following
            _check_access(os.fstat(folder), shown, is_above=bool(names))
    except BaseException:
        os.close(folder)
        raise
    return folder


def _entry(name: str, folder: int, *, is_created: bool) -> os.stat_result:
    """Return the status of an entry of a folder, which is made as a folder if it is missing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if not is_created:
            raise
    with contextlib.suppress(FileExistsError):  # another process was first
        os.mkdir(name, 0o700, dir_fd=folder)
        os.chmod(name, 0o700, dir_fd=folder)  # whatever the umask
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _sync(folder: int) -> None:
    """Flush the entries of a folder to the disk."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
