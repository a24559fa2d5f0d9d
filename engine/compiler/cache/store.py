"""A directory of cached executables that any number of processes read and write at once.

A file appears under its name in one step, whole, and is never changed afterwards; readers need no
lock. Whatever is wrong with a file or the directory costs a compilation, never the program.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compiler.cache.container import NotAnEntry, decode, encode
from engine.compiler.cache.entry import Compiled
from engine.machine import Machine
from reports.digests import DIGEST_BYTES

__all__ = ["ExecutableCache"]

_log = logging.getLogger(__name__)
#: What could not be written was said for these directories.
_warned: set[Path] = set()

_PARTIAL = ".part"
#: A partial file that is older was left by a process that was killed, seconds.
_ABANDONED_S = 3_600.0


class ExecutableCache:
    """Executables by the full description of what they were compiled from.

    Parameters
    ----------
    directory
        Made when something is first kept. Files in it may be deleted at any time.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.expanduser()

    def path_of(self, description: bytes) -> Path:
        """Return where the executable of a description is kept."""
        name = blake2b(description, digest_size=DIGEST_BYTES).hexdigest()
        return self.directory / f"{name}.executable"

    def load(self, description: bytes, machine: Machine) -> Compiled | None:
        """Return what is kept for a description, or None; never raises for what is in a file."""
        path = self.path_of(description)
        try:
            facts, arrays = _read(path)
            if arrays.pop("description").tobytes() != description:
                _log.warning(
                    "warning: cached executable %s is of another program of the same name (a false"
                    " hit): compiling",
                    path,
                )
                return None
            found = Compiled.from_arrays(facts, arrays, machine)
        except FileNotFoundError:
            _log.info("no cached executable %s", path)
            return None
        except (NotAnEntry, KeyError) as error:
            _log.warning("warning: cached executable %s cannot be used, compiling: %s", path, error)
            return None
        except OSError as error:
            _log.warning(
                "warning: cached executable %s cannot be read, compiling: %s", path, error.strerror
            )
            return None
        _log.info("took cached executable %s", path)
        return found

    def store(self, description: bytes, compiled: Compiled) -> None:
        """Keep what was compiled; a directory that cannot be written is said once."""
        facts, arrays = compiled.to_arrays()
        own = {"description": np.frombuffer(description, np.uint8)}
        path = self.path_of(description)
        try:
            _write(path, encode(facts, {**own, **arrays}))
        except OSError as error:
            if self.directory not in _warned:
                _warned.add(self.directory)
                _log.warning(
                    "warning: executables cannot be kept in %s (%s): going on without",
                    self.directory,
                    error.strerror,
                )
            return
        _log.info("kept executable %s", path)
        _sweep(self.directory)


def _read(path: Path) -> tuple[Mapping[str, Any], dict[str, NDArray[Any]]]:
    if path.exists() and not path.is_file():
        raise NotAnEntry("it is no file")
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
