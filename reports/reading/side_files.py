"""SQLite's side files of a report: what of a write-ahead file or rollback journal is valid."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tilescope.reports.errors import DamagedReport
from tilescope.reports.reading.file_header import FileHeader

__all__ = [
    "SIDE_SUFFIXES",
    "journal_bytes",
    "log_bytes",
    "log_header",
    "opened_side_file",
    "side_file",
]

SIDE_SUFFIXES = ("-wal", "-journal")
_LOG_HEADER = struct.Struct(">8I")
_LOG_MAGIC = (0x377F0682, 0x377F0683)
_LOG_VERSION = 3_007_000
_FRAME_HEADER_BYTES = 24
_FRAMES_AT_ONCE = 256
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_HEADER = struct.Struct(">8s5I")
#: Headers and padding of a journal, beside its pages.
_JOURNAL_SPARE_BYTES = 1024 * 1024


def side_file(file: Path, suffix: str) -> Path:
    """Return the side file of a report with one of `SIDE_SUFFIXES`."""
    return file.with_name(file.name + suffix)


@contextmanager
def opened_side_file(side: Path) -> Iterator[int | None]:
    """Open a side file and yield its descriptor; None if it is missing or not a regular file."""
    try:
        # A pipe without a writer would block.
        descriptor = os.open(side, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def log_header(log: Path) -> bytes:
    """Return the header of a write-ahead file; empty if the file is missing or has none.

    It changes whenever a writer starts the file anew, after a checkpoint.
    """
    with opened_side_file(log) as descriptor:
        header = b"" if descriptor is None else os.pread(descriptor, _LOG_HEADER.size, 0)
    return header if len(header) == _LOG_HEADER.size else b""


def log_bytes(descriptor: int, header: FileHeader, file: Path) -> int:
    """Return the length of the valid start of a write-ahead file; 0 if SQLite would ignore it.

    The rest belongs to an earlier use of the file, is still being written, or is no log at all.

    Parameters
    ----------
    descriptor
        The open write-ahead file.
    header
        Header of the report.
    file
        Name of the report in errors.

    Raises
    ------
    DamagedReport
        It belongs to a file with pages of another size.
    """
    start = os.pread(descriptor, _LOG_HEADER.size, 0)
    if len(start) < _LOG_HEADER.size:
        return 0
    page_bytes: int
    magic, version, page_bytes, *_, first, second = _LOG_HEADER.unpack(start)
    if magic not in _LOG_MAGIC or version != _LOG_VERSION:
        return 0
    if (first, second) != _log_checksum(start, is_big_endian=bool(magic & 1)):
        return 0
    if page_bytes != header.page_bytes:
        raise DamagedReport(
            f"{file} is damaged: its -wal file has pages of {page_bytes} bytes where the report has"
            f" {header.page_bytes}. Copy both files again from their source."
        )
    salts = start[16:24]
    frame_bytes = _FRAME_HEADER_BYTES + page_bytes
    # The writer's checkpoint may have emptied the file since its header was read.
    n_frames = max(os.fstat(descriptor).st_size - _LOG_HEADER.size, 0) // frame_bytes
    for first_frame in range(0, n_frames, _FRAMES_AT_ONCE):
        n = min(_FRAMES_AT_ONCE, n_frames - first_frame)
        offset = _LOG_HEADER.size + first_frame * frame_bytes
        block = os.pread(descriptor, n * frame_bytes, offset)
        frames = np.frombuffer(block, np.uint8, len(block) // frame_bytes * frame_bytes)
        frames = frames.reshape(-1, frame_bytes)
        is_valid = (frames[:, 8:16] == np.frombuffer(salts, np.uint8)).all(axis=1)
        if len(frames) < n or not is_valid.all():
            n_valid = first_frame + int(np.argmin(np.append(is_valid, False)))
            return _LOG_HEADER.size + n_valid * frame_bytes
    return _LOG_HEADER.size + n_frames * frame_bytes


def _log_checksum(start: bytes, *, is_big_endian: bool) -> tuple[int, int]:
    """Return the checksum of a header of a write-ahead file.

    Source: SQLite, "The WAL File Format", section 4.2.
    """
    words = struct.unpack(">6I" if is_big_endian else "<6I", start[:24])
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def journal_bytes(descriptor: int, header: FileHeader, file: Path) -> int:
    """Return the length of a rollback journal; 0 if SQLite would ignore it.

    Parameters
    ----------
    descriptor
        The open journal.
    header
        Header of the report.
    file
        Name of the report in errors.

    Raises
    ------
    DamagedReport
        It is larger than the report explains, or names files outside its directory.
    """
    start = os.pread(descriptor, _JOURNAL_HEADER.size, 0)
    if len(start) < _JOURNAL_HEADER.size or not start.startswith(_JOURNAL_MAGIC):
        return 0
    *_, n_pages, _, page_bytes = _JOURNAL_HEADER.unpack(start)
    size_bytes = os.fstat(descriptor).st_size
    limit_bytes = 2 * (n_pages + 1) * (header.page_bytes + 8) + _JOURNAL_SPARE_BYTES
    # A journal that ends like this names another one, which SQLite would open and might delete.
    ends_in_name = os.pread(descriptor, 8, max(size_bytes - 8, 0)) == _JOURNAL_MAGIC
    if page_bytes != header.page_bytes or size_bytes > limit_bytes or ends_in_name:
        raise DamagedReport(
            f"{file} is damaged: its -journal file does not belong to it. Copy the report again"
            " from its source."
        )
    return size_bytes
