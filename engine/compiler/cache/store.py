"""A directory of cache entries that any number of processes read and write concurrently.

A file appears under its name atomically and is never changed afterwards, so readers need no lock.
A damaged file or an unusable directory costs a compilation, never the program.
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
#: Directories for which a failed write has already been logged.
_warned: set[Path] = set()

_PARTIAL = ".part"
#: Partial files older than this were left by a killed process, seconds.
_ABANDONED_S = 3_600.0


class CacheFolder:
    """Cache entries of one kind, keyed by their full description.

    Parameters
    ----------
    directory
        Created when the first entry is stored. Its files may be deleted at any time.
    kind
        Suffix of the file names, also used in log messages.
    most
        Entries that the directory may hold as this process stores its first one, or None for any
        number: the oldest ones beyond it are removed.
    is_requested
        Whether the user named the directory, and is warned when it is not writable.
    """

    def __init__(
        self,
        directory: Path | str,
        kind: str,
        most: int | None = None,
        *,
        is_requested: bool = True,
    ) -> None:
        self.directory = Path(directory).expanduser()
        self.kind = kind
        self._most = most
        self._is_requested = is_requested

    def path_of(self, description: bytes) -> Path:
        """Return the path of the entry for a description."""
        name = blake2b(description, digest_size=DIGEST_BYTES).hexdigest()
        return self.directory / f"{name}.{self.kind}"

    def load(self, description: bytes, build: Callable[[Facts, Arrays], T]) -> T | None:
        """Return the entry for a description, or None; a damaged file never raises.

        Parameters
        ----------
        description
            Compared byte by byte with the description stored in the entry.
        build
            Builds the result from facts and arrays; raises `NotAnEntry` if it fails.
        """
        path = self.path_of(description)
        where = f"cached {self.kind} {path}"
        try:
            facts, arrays = _read(path)
            if arrays.pop("description").tobytes() != description:
                _log.warning(
                    "warning: %s has the same name but describes something else (a false hit):"
                    " it is compiled again",
                    where,
                )
                return None
            found = build(facts, arrays)
        except (FileNotFoundError, NotADirectoryError):  # `store` reports the cause
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
        """Store an entry; warn once about an unwritable directory."""
        own = {"description": np.frombuffer(description, np.uint8)}
        path = self.path_of(description)
        try:
            _write(path, encode(facts, {**own, **arrays}))
        except OSError as error:
            if self.directory not in _warned:
                _warned.add(self.directory)
                blocked = isinstance(error, FileExistsError | NotADirectoryError)
                _log.log(
                    logging.WARNING if self._is_requested else logging.INFO,
                    "warning: cannot write to the cache directory %s (%s): continuing without it",
                    self.directory,
                    "a file has its name" if blocked else error.strerror,
                )
            return
        _log.info("kept %s %s", self.kind, path)
        _sweep(self.directory)
        if self._most is not None:
            _evict(self.directory, self.kind, self._most)
            self._most = None


def _read(path: Path) -> tuple[Mapping[str, Any], dict[str, NDArray[Any]]]:
    # A single call: between two, another process may remove the file.
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotAnEntry("it is not a file")
    with path.open("rb") as file:
        return decode(file, os.fstat(file.fileno()).st_size)


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically: it appears whole under its name, or not at all."""
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
    """Remove partial files left by killed processes."""
    with contextlib.suppress(OSError):
        for partial in directory.glob(f".*{_PARTIAL}"):
            if time.time() - partial.stat().st_mtime > _ABANDONED_S:
                partial.unlink()


def _evict(directory: Path, kind: str, most: int) -> None:
    """Remove the oldest entries of a kind beyond a number; another process may remove them too."""
    with contextlib.suppress(OSError):
        paths = list(directory.glob(f"*.{kind}"))
        if len(paths) > most:
            for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns)[:-most]:
                path.unlink(missing_ok=True)
