"""A directory of cache entries that any number of processes read and write concurrently.

A file appears under its name atomically and is never changed afterwards, so readers need no lock.
A damaged file or an unusable directory costs a compilation, never the program. A directory or file
that another user may write to is not used.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.container import MALFORMED, Container, NotAnEntry, encode
from tilescope.engine.host.jit.code_files import CHOICE
from tilescope.private_folder import PARTIAL, NotPrivate, PrivateFolder, warn_once
from tilescope.reports.integrity.digests import DIGEST_BYTES

__all__ = ["CacheFolder"]

_DESCRIPTION = "description"

T = TypeVar("T")
Facts = Mapping[str, Any]
Arrays = dict[str, NDArray[Any]]

_log = logging.getLogger(__name__)
#: Directories for which a failed write has already been logged.
_warned: set[Path] = set()

#: Longer entries are not read.
_LARGEST_BYTES = 1 << 32
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
    maximum
        Entries that the directory may hold as this process stores its first one, or None for any
        number: the oldest ones beyond it are removed.
    most_bytes
        Bytes that all files of the directory may take, of any kind, or None for any number: those
        used longest ago are removed whenever an entry is stored.
    is_requested
        Whether the user named the directory, and is warned when it is not writable.
    """

    def __init__(
        self,
        directory: Path | str,
        kind: str,
        maximum: int | None = None,
        *,
        most_bytes: int | None = None,
        is_requested: bool = True,
    ) -> None:
        self._folder = PrivateFolder(Path(directory).expanduser())
        self.directory = self._folder.path
        self.kind = kind
        self._most = maximum
        self._most_bytes = most_bytes
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

        def of_all(entry: Container) -> T:
            arrays = {name: entry.array(name) for name in entry.names if name != _DESCRIPTION}
            return build(entry.facts, arrays)

        return self.open(description, of_all)

    def open(self, description: bytes, build: Callable[[Container], T]) -> T | None:
        """Return what is built of an entry whose arrays are read when they are asked for.

        All of the entry is verified before: what is read later is what was written.

        Parameters
        ----------
        description
            Compared byte by byte with the description stored in the entry.
        build
            Builds the result; raises `NotAnEntry` if it fails.
        """
        path = self.path_of(description)
        where = f"cached {self.kind} {path}"
        try:
            container = self._read(path.name)
            if container.array(_DESCRIPTION).tobytes() != description:
                _log.warning(
                    "warning: %s has the same name but describes something else (a false hit):"
                    " it is compiled again",
                    where,
                )
                return None
            container.check()
            entry = build(container)
        except (FileNotFoundError, NotADirectoryError):  # `store` reports the cause
            _log.info("no %s", where)
            return None
        except NotPrivate as error:
            if error.is_folder:
                self._warn(error)
            else:
                _log.warning(
                    "warning: %s is not usable and is replaced: it %s", where, error.problem
                )
            return None
        except (NotAnEntry, *MALFORMED) as error:
            _log.warning("warning: %s is not usable and is replaced: %s", where, error)
            return None
        except OSError as error:
            reason = error.strerror
            _log.warning("warning: %s is not readable and is replaced: %s", where, reason)
            return None
        _log.info("took %s", where)
        return entry

    def store(
        self, description: bytes, facts: Facts, arrays: Arrays, plain: Collection[str] = ()
    ) -> None:
        """Store an entry; warn once about an unwritable directory.

        Parameters
        ----------
        description
            What the entry is found by.
        facts, arrays
            Its content: JSON types, and arrays by name.
        plain
            Names of the arrays that are read in place, and therefore not packed.
        """
        own_arrays = {_DESCRIPTION: np.frombuffer(description, np.uint8)}
        path = self.path_of(description)
        try:
            content = encode(facts, {**own_arrays, **arrays}, plain)
            self._folder.write(path.name, content, is_durable=True)
        except NotPrivate as error:
            self._warn(error)
            return
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
        with contextlib.suppress(OSError, NotPrivate):
            self._sweep()

    def _read(self, name: str) -> Container:
        """Return an entry, whose file is mapped: it is never changed, only replaced."""
        with self._folder.open_file(name, _LARGEST_BYTES) as file:
            if not os.fstat(file.fileno()).st_size:
                raise NotAnEntry("it is empty")
            container = Container(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
            if self._most_bytes is not None:  # the entries used last are kept
                os.utime(file.fileno())
            return container

    def _warn(self, error: NotPrivate) -> None:
        choice = "name another directory" if self._is_requested else CHOICE
        warn_once(error, "cached compilations", choice, _log)

    def _sweep(self) -> None:
        """Remove what killed processes left, and once the oldest entries beyond a number."""
        names = self._folder.names()
        for name in names:
            if name.startswith(".") and name.endswith(PARTIAL):
                age_s = time.time() - self._folder.modified_ns(name) / 1e9
                if age_s > _ABANDONED_S:
                    self._folder.remove(name)
        if self._most is not None:
            entries = [name for name in names if name.endswith(f".{self.kind}")]
            excess = len(entries) - self._most
            if excess > 0:
                for name in sorted(entries, key=self._folder.modified_ns)[:excess]:
                    self._folder.remove(name)
            self._most = None
        if self._most_bytes is not None:
            self._remove_beyond(self._most_bytes, names)

    def _remove_beyond(self, most_bytes: int, names: Sequence[str]) -> None:
        """Remove the entries that were used longest ago, until the others take so many bytes."""
        entries = [name for name in names if not name.startswith(".")]
        sizes = {name: self._folder.n_bytes(name) for name in entries}
        excess = sum(sizes.values()) - most_bytes
        for name in sorted(entries, key=self._folder.modified_ns):
            if excess <= 0:
                return
            self._folder.remove(name)
            excess -= sizes[name]
