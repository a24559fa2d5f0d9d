"""How much memory this computer has left, so that a large program ends with a sentence."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_bytes", "give_back", "keep_freed", "within_available"]

_MEMINFO = Path("/proc/meminfo")
_STATUS = Path("/proc/self/status")
_ENOUGH = 1 << 40
_CGROUP = Path("/sys/fs/cgroup")
#: Parameters of glibc's `mallopt`, and their values: the largest block that comes from the heap,
#: and how much free memory the end of the heap may have.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_HEAP_BLOCK_BYTES, _FREE_HEAP_BYTES = 32 << 20, 64 << 20


def available_bytes() -> int:
    """Return the memory that can be taken without pushing anything out, bytes.

    A container's own limit counts; a system that does not tell is taken to have enough.
    """
    return min(_of_system(), _of_container())


@contextlib.contextmanager
def within_available() -> Iterator[None]:
    """Let this process take no more than what is available now: then allocations fail.

    Without a limit the system would end the process, or another one, without a word.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _data_bytes() + available_bytes()
    lower = limit if soft == resource.RLIM_INFINITY else min(limit, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (lower, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def give_back() -> None:
    """Give the memory of objects that are gone back to the system: between stages of a large run.

    The C library keeps the memory of arrays for the next ones, after a compilation a third of all.
    A C library without `malloc_trim` decides by itself.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed() -> None:
    """Let the C library keep up to 64 MiB of freed memory for the next arrays, from now on.

    By default it gives the memory of an array back to the system as soon as that is freed, and the
    system clears every page of the next one. Libraries other than glibc decide by themselves.
    """
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _HEAP_BLOCK_BYTES)
        library.mallopt(_TRIM_THRESHOLD, _FREE_HEAP_BYTES)


def _data_bytes() -> int:
    """Return what counts against the limit already."""
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
        (line_,) = (line for line in lines if line.startswith("VmData:"))
        return int(line_.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return 0 if _MEMINFO.exists() else _ENOUGH


def _of_system() -> int:
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        (line_,) = (line for line in lines if line.startswith("MemAvailable:"))
        return int(line_.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return _ENOUGH


def _of_container() -> int:
    try:
        limit = int((_CGROUP / "memory.max").read_text(encoding="ascii"))
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        lines = (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines()
        counts = dict(line.split() for line in lines)
        # Files that were read stay in memory until it is needed for something else.
        used -= int(counts["inactive_file"]) + int(counts["active_file"])
    except (OSError, ValueError, KeyError):  # no container, or "max"
        return _ENOUGH
    return max(limit - used, 0)
