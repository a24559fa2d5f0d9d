"""The header of a report file, validated before SQLite reads the file or anything is copied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tilescope.reports.errors import DamagedReport, NotAReport
from tilescope.reports.integrity.guard import unsupported
from tilescope.reports.schema import APPLICATION_ID, OLDEST_VERSION, SCHEMA_VERSION

__all__ = ["FileHeader", "read_header"]

_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True)
class FileHeader:
    """The size of the pages of a file, and the number of pages that it declares."""

    page_bytes: int
    n_pages: int

    @property
    def declared_bytes(self) -> int:
        """Size of the file as its header declares it."""
        return self.page_bytes * self.n_pages


def read_header(stream: BinaryIO, file: Path) -> FileHeader:
    """Return the header of an open report file.

    Parameters
    ----------
    stream
        The file, at its beginning.
    file
        Its name in errors.

    Raises
    ------
    NotAReport
        The file is empty or belongs to another program.
    UnsupportedSchema
        The schema version is not supported.
    DamagedReport
        The size of its pages is invalid, or its text is not UTF-8.
    """
    header = stream.read(_HEADER_BYTES)
    if not header:
        raise NotAReport(f"{file} is empty, not a report.")
    if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES:
        raise NotAReport(f"{file} is not a report: it lacks the header of an SQLite file.")
    if int.from_bytes(header[68:72]) != APPLICATION_ID:
        raise NotAReport(f"{file} is another program's SQLite file, not a report.")
    version = int.from_bytes(header[60:64])
    if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise unsupported(str(file), version)
    page_bytes = int.from_bytes(header[16:18])
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    if not 512 <= page_bytes <= 65_536 or page_bytes & (page_bytes - 1):
        raise DamagedReport(f"{file} is damaged: its header declares pages of {page_bytes} bytes.")
    if int.from_bytes(header[56:60]) != 1:
        raise DamagedReport(f"{file} is damaged: its text is not UTF-8.")
    return FileHeader(page_bytes, int.from_bytes(header[28:32]))
