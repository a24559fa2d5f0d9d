"""Who may change a folder or a file.

A folder is checked as OpenSSH checks ``~/.ssh``: it and all folders above it belong to the user or
to root, and no other user may write to them. It is opened one folder at a time, so that nothing can
be exchanged between check and use.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
from pathlib import Path

__all__ = ["NotPrivate", "check_access", "foreign_owner", "open_folder", "warn_once"]

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)  # a descriptor that needs no right to read
_FOLDER = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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


def check_access(status: os.stat_result, path: Path, *, is_above: bool = False) -> None:
    """Check that no other user may change a folder or a file.

    Parameters
    ----------
    status
        Its status.
    path
        Its path.
    is_above
        Whether it is a folder above the one that is used: in a folder with the sticky bit, such as
        ``/tmp``, nobody changes the entries of others.

    Raises
    ------
    NotPrivate
        When another user may.
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


def open_folder(path: Path, *, is_created: bool) -> int:
    """Return the descriptor of a folder after a check of it and of all folders above it.

    Parameters
    ----------
    path
        The folder.
    is_created
        Whether to make what is missing, with mode 0700.

    Raises
    ------
    NotPrivate
        When another user may write to one of them.
    """
    folder, visited = os.open("/", _FOLDER), Path("/")
    absolute = path if path.is_absolute() else Path.cwd() / path
    names = list(reversed(absolute.parts[1:]))
    n_links = 0
    try:
        check_access(os.fstat(folder), visited, is_above=bool(names))
        while names:
            name = names.pop()
            status = _entry(name, folder, is_created=is_created)
            if stat.S_ISLNK(status.st_mode):
                if foreign_owner(status):
                    raise NotPrivate(
                        visited / name, f"belongs to {foreign_owner(status)}", is_folder=True
                    )
                n_links += 1
                if n_links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                target = os.readlink(name, dir_fd=folder)
                names.extend(part for part in reversed(Path(target).parts) if part != "/")
                is_absolute = target.startswith("/")
                following = os.open("/", _FOLDER) if is_absolute else os.dup(folder)
                visited = Path("/") if is_absolute else visited
            else:
                following = os.open(name, _FOLDER, dir_fd=folder)
                visited = visited.parent if name == ".." else visited / name
            os.close(folder)
            folder = following
            check_access(os.fstat(folder), visited, is_above=bool(names))
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
