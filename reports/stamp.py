"""Stamps of report files: what changes when a file does."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

__all__ = ["Stamp", "file_stamp", "stamp_text"]

#: Inode, time of modification in ns, size in bytes.
Stamp = tuple[int, int, int]


def file_stamp(path: Path) -> Stamp:
    """Return an identity that changes when the file is replaced; zeros for a missing file.

    What a running engine has committed lies in the log beside its report, so that counts too.
    """
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    try:
        log = path.with_name(f"{path.name}-wal").stat()
    except OSError:
        return (status.st_ino, status.st_mtime_ns, status.st_size)
    newest = max(status.st_mtime_ns, log.st_mtime_ns)
    return (status.st_ino, newest, status.st_size + log.st_size)


def stamp_text(stamp: Stamp) -> str:
    """Return a stamp as a text without numbers of the file system, which are nobody's business."""
    return blake2b(repr(stamp).encode(), digest_size=8).hexdigest()
