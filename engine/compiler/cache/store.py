"""A directory of cached entries that any number of processes read and write at once.

A file appears under its name in one step, whole, and is never changed afterwards; readers need no
lock. Whatever is wrong with a file or the directory costs a compilation, never the program.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.container import NotAnEntry, decode, encode
from tilescope.reports.digests import DIGEST_BYTES

__all__ = ["CacheFolder"]

T = TypeVar("T")
Facts = Mapping[str, Any]
Arrays = dict[str, NDArray[Any]]

_log = logging.getLogger(__name__)
#: What could not be written was said for these directories.
_warned: set[Path] = set()

_PARTIAL = ".part"
#: A partial file that is older was left by a process that was killed, seconds.
_ABANDONED_S = 3_600.0


class CacheFolder:
    """Entries of one kind, by the full description of what they are of.

    Parameters
    ----------
    directory
        Made when something is first kept. Files in it may be deleted at any time.
    kind
        Ends the names of its files, and stands in what is logged.
    """

    def __init__(self, directory: Path | str, kind: str) -> None:
        self.directory = Path(directory).expanduser()
        self.kind = kind

    def path_of(self, description: bytes) -> Path:
        """Return where the entry of a description is kept."""
        name = blake2b(description, digest_size=DIGEST_BYTES).hexdigest()
        return self.directory / f"{name}.{self.kind}"

    def load(self, description: bytes, build: Callable[[Facts, Arrays], T]) -> T | None:
        """Return what is kept for a description, or None; never raises for what is in a file.

        Parameters
        ----------
        description
            Compared with the entry's own, byte by byte.
        build
            Makes it of facts and arrays; raises `NotAnEntry` if it cannot.
        """
        path = self.path_of(description)
        where = f"cached {self.kind} {path}"
        try:
            facts, arrays = _read(path)
            if arrays.pop("description").tobytes() != description:
                _log.warning(
                    "warning: %s is of something else with the same name (a false hit):"
                    " it is made anew",
                    where,
                )
                return None
            found = build(facts, arrays)
        except (FileNotFoundError, NotADirectoryError):  # `store` says what is wrong
            _log.info("no %s", where)
            return None
        except (NotAnEntry, KeyError) as error:
            _log.warning("warning: %s is not usable and is replaced: %s", where, error)
            return None
        except OSError as error:
            reason = error.strerror
            _log.warning("warning: %s is not readable and is replaced: %s", where, reason)
            return None
        _log.info("took %s", where)
        return found

    def store(self, description: bytes, facts: Facts, arrays: Arrays) -> None:
        """Store an entry; warn once about a directory that is not writable."""
        own = {"description": np.frombuffer(description, np.uint8)}
        path = self.path_of(description)
        try:
            _write(path, encode(facts, {**own, **arrays}))
        except OSError as error:
            if self.directory not in _warned:
                _warned.add(self.directory)
                blocked = isinstance(error, FileExistsError | NotADirectoryError)
                _log.warning(
                    "warning: nothing can be kept in %s (%s): going on without",
                    self.directory,
                    "a file is in its place" if blocked else error.strerror,
                )
            return
        _log.info("kept %s %s", self.kind, path)
        _sweep(self.directory)


def _read(path: Path) -> tuple[Mapping[str, Any], dict[str, NDArray[Any]]]:
    # One question only: between two, another process may remove the file.
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotAnEntry("it is not a file")
    with path.open("rb") as file:
        return decode(file, os.fstat(file.fileno()).st_size)


def _write(path: Path, data: bytes) -> None:
    """Make a file appear whole under its name, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}.{secrets.token_hex(8)}{_PARTIAL}")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a directory
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _sweep(directory: Path) -> None:
    """Remove what killed processes left half written."""
    with contextlib.suppress(OSError):
        for partial in directory.glob(f".*{_PARTIAL}"):
            if time.time() - partial.stat().st_mtime > _ABANDONED_S:
                partial.unlink()
