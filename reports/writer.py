"""The writer: stores rows and packed arrays in one crash-safe file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from tilescope.reports import schema
from tilescope.reports.array_buffer import ArrayBuffer
from tilescope.reports.chunks import (
    MAX_STORED_BYTES,
    PackedChunk,
    digest_values,
    pack,
    saturated_sum,
)
from tilescope.reports.digests import ROWS_PER_BLOCK, chain, digest_columns
from tilescope.reports.errors import ReportNotWritable
from tilescope.reports.lock import DirectoryLock
from tilescope.reports.new_file import new_file, refusal
from tilescope.reports.row_buffer import RowBuffer
from tilescope.reports.schema import (
    APPLICATION_ID,
    ARRAYS,
    REPORT_NAME,
    SCHEMA_VERSION,
    TABLES,
    TableSpec,
)

__all__ = ["ReportWriter"]
_CHECKPOINT_PAGES = 16_384
_OWN_TABLES = frozenset(("array", "array_chunk", "chunk", "row_block", "milestone"))
_live: weakref.WeakSet[ReportWriter] = weakref.WeakSet()


class ReportWriter:
    """Writes one report; committed data survives a crash of the process.

    After a disk failure, the first call raises `ReportNotWritable`. Later calls do nothing, so that
    the recorded run can continue, and `finish` raises the error again.
    """

    def __init__(self, path: Path, lock: DirectoryLock, connection: apsw.Connection) -> None:
        self.path = path
        self._lock = lock
        self._connection: apsw.Connection | None = connection
        self._pid = os.getpid()
        self._failure: ReportNotWritable | None = None
        self._tables: dict[str, RowBuffer] = {}
        self._arrays: dict[str, ArrayBuffer] = {}
        self._known_chunks: set[bytes] = set()
        self._chain = b""
        self._n_row_blocks = 0
        _live.add(self)

    @classmethod
    def create(cls, directory: Path | str) -> ReportWriter:
        """Create the directory if needed, lock it and start a report.

        Parameters
        ----------
        directory : Path or str
            Directory of the finished ``profile.pop``.

        Raises
        ------
        ReportInUse
            Another engine is writing in the directory.
        ReportNotWritable
            Permission denied, disk full, or no directory.
        """
        directory = Path(directory)
        lock = DirectoryLock(directory)
        path = directory / f"profile_{secrets.token_hex(4)}.pop"
        writer = None
        try:
            writer = cls(path, lock, new_file(path))
            writer._create_tables()
        except (apsw.Error, OSError) as error:
            if writer is not None:
                writer.abandon()
            lock.release()
            for suffix in ("", "-journal", "-wal", "-shm"):
                with contextlib.suppress(OSError):
                    Path(f"{path}{suffix}").unlink(missing_ok=True)
            raise refusal(directory, error) from error
        return writer

    @property
    def has_failed(self) -> bool:
        """Whether a write failed; nothing is recorded any more."""
        return self._failure is not None

    def add(self, table: TableSpec, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows to a table.

        Parameters
        ----------
        table : TableSpec
            One of `tilescope.reports.schema`, except tables of arrays and digests.
        rows : iterable of mappings
            Column name to value. Identities are optional: by default, rows are numbered from 0.
            They must ascend across calls.

        Raises
        ------
        ValueError
            A column is missing, unknown or of the wrong type: a bug in the caller.
        """
        self._check_owner()
        if not self.has_failed:
            self._table(table).add(rows)

    def add_columns(
        self, table: TableSpec, columns: Mapping[str, Sequence[Any] | np.ndarray | int | str | None]
    ) -> None:
        """Add rows given as columns; a scalar number, string or None applies to every row.

        Parameters
        ----------
        table : TableSpec
            As for `add`.
        columns : mapping of column name to sequence, ndarray of shape (n_rows,), number or text
            At least one sequence; identities are optional as in `add`.

        Raises
        ------
        ValueError
            A column is missing, unknown or of the wrong length or type: a bug in the caller.
        """
        self._check_owner()
        if not self.has_failed:
            self._table(table).add_columns(columns)

    def append(self, array_name: str, values: np.ndarray) -> int:
        """Append rows to a packed array and return the index of the first.

        Parameters
        ----------
        array_name : str
            A name in `tilescope.reports.schema.ARRAYS`.
        values : ndarray, shape (n_rows,), or for arrays per tile (n_rows, n_tiles) or (n_tiles,)
            Cast to the array's type; no value may change.

        Raises
        ------
        ValueError
            The shape or a value does not fit: a bug in the caller.
        ReportNotWritable
            A write failed.
        """
        self._check_owner()
        buffer = self._array(array_name)
        first = buffer.append(values)
        self._describe(buffer)
        self._guard(lambda: self._write_chunks(buffer))
        return first

    def append_columns(self, group: str, columns: Mapping[str, np.ndarray | Sequence[int]]) -> None:
        """Append rows to a group of plain arrays, such as ``cost``, given as columns.

        Parameters
        ----------
        group : str
            What comes before the dot in the arrays' names.
        columns : mapping of column name to ndarray or sequence, shape (n_rows,)
            All columns of the group.

        Raises
        ------
        ValueError
            A column is missing, unknown or of another length: a bug in the caller.
        ReportNotWritable
            A write failed.
        """
        prefix = f"{group}."
        wanted = {
            name.removeprefix(prefix)
            for name, spec in ARRAYS.items()
            if name.startswith(prefix) and spec.columns == "one"
        }
        lengths = {len(values) for values in columns.values()}
        if set(columns) != wanted or len(lengths) > 1:
            raise ValueError(f"columns of {group}: expected {sorted(wanted)}, all of one length")
        for name, values in columns.items():
            self.append(f"{group}.{name}", np.asarray(values))

    def pattern(self, array_name: str, values: np.ndarray) -> int:
        """Append one row unless `pattern` appended an equal row before; return its index.

        Parameters
        ----------
        array_name : str
            A name in `tilescope.reports.schema.ARRAYS` with a value per tile.
        values : ndarray, shape (n_tiles,)
            The row.

        Raises
        ------
        ValueError
            The shape or a value does not fit: a bug in the caller.
        ReportNotWritable
            A write failed.
        """
        self._check_owner()
        buffer = self._array(array_name)
        row = buffer.pattern(values)
        self._describe(buffer)
        self._guard(lambda: self._write_chunks(buffer))
        return row

    def commit(self, milestone: str) -> None:
        """Write all data so far durably, and record a milestone.

        Parameters
        ----------
        milestone : str
            Such as ``compiled`` or ``run``; ``finished`` is reserved for `finish`.

        Raises
        ------
        ReportNotWritable
            A write failed; the file still has all earlier commits.
        """
        self._check_owner()
        if milestone == "finished":
            raise ValueError("the milestone 'finished' is reserved for finish()")
        self._guard(lambda: self._commit(milestone))

    def finish(self) -> Path:
        """Seal the report as ``profile.pop``, one self-contained file, and return its path.

        Raises
        ------
        ReportNotWritable
            A write failed, now or earlier; the incomplete file keeps all commits.
        """
        self._check_owner()
        if self._failure is not None:
            raise ReportNotWritable(str(self._failure))
        if self._connection is None:
            raise ValueError("the report is finished or abandoned")
        final = self.path.with_name(REPORT_NAME)
        self._guard(lambda: self._seal(final))
        self.path = final
        return final

    def abandon(self) -> None:
        """Close the file, incomplete; repeated calls and calls after `finish` are harmless."""
        if self._pid != os.getpid() or self._connection is None:
            return
        connection, self._connection = self._connection, None
        with contextlib.suppress(apsw.Error, OSError):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        with contextlib.suppress(apsw.Error, OSError):
            connection.close()
        self._lock.release()

    def __enter__(self) -> ReportWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.abandon()

    def _create_tables(self) -> None:
        """Write the header fields and tables in one transaction: no file has a partial schema."""
        connection = self._open_connection()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        for table in TABLES.values():
            connection.execute(table.create)
        self._commit("created")
        # From here on, the file identifies itself without its -wal.
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}").fetchall()

    def _commit(self, milestone: str) -> None:
        connection = self._open_connection()
        for buffer in self._arrays.values():
            self._write_chunks(buffer, everything=True)
        self._begin()
        blocks: list[tuple[Any, ...]] = []
        for name, rows in self._tables.items():
            if name != "milestone":
                blocks.extend(self._write_rows(rows))
        # Earlier milestones; their rows are already written.
        blocks.extend(self._write_rows(self._table(schema.milestone, own=True), insert=False))
        numbered = [(self._n_row_blocks + i, *block) for i, block in enumerate(blocks)]
        connection.executemany(schema.row_block.insert, numbered)
        self._n_row_blocks += len(numbered)
        self._chain = chain(self._chain, milestone, self._n_row_blocks, numbered)
        seal = self._table(schema.milestone, own=True)
        seal.add([{"name": milestone, "n_row_blocks": self._n_row_blocks, "digest": self._chain}])
        connection.execute(schema.milestone.insert, seal.rows[-1])
        connection.execute("COMMIT")

    def _describe(self, buffer: ArrayBuffer) -> None:
        """Assign an array's id and row once it has values, so that ids ascend."""
        if buffer.array_id is not None or not buffer.n_rows:
            return
        rows, spec = self._table(schema.array, own=True), buffer.spec
        buffer.array_id = rows.next_id
        rows.add(
            [
                {
                    "name": spec.name,
                    "dtype": spec.dtype,
                    "n_columns": buffer.n_columns,
                    "chunk_rows": spec.chunk_rows,
                    "chunk_columns": spec.chunk_columns,
                }
            ]
        )

    def _write_rows(self, buffer: RowBuffer, *, insert: bool = True) -> list[tuple[Any, ...]]:
        """Insert a table's buffered rows; return (table, first id, last id, count, digest)."""
        rows, name = buffer.take(), buffer.table.name
        if insert and name != "chunk":  # chunks are inserted when packed
            self._open_connection().executemany(buffer.table.insert, rows)
        blocks = []
        for start in range(0, len(rows), ROWS_PER_BLOCK):
            block = rows[start : start + ROWS_PER_BLOCK]
            columns = list(zip(*block, strict=True))[: len(buffer.table.digested)]
            digest = digest_columns(buffer.table, columns)
            blocks.append((name, block[0][0], block[-1][0], len(block), digest))
        return blocks

    def _write_chunks(self, buffer: ArrayBuffer, *, everything: bool = False) -> None:
        for first_row, rows in buffer.blocks(everything=everything):
            self._begin()
            self._write_block(buffer, first_row, rows)

    def _write_block(self, buffer: ArrayBuffer, first_row: int, rows: np.ndarray) -> None:
        width = buffer.spec.chunk_columns
        starts = range(0, buffer.n_columns, width)
        parts = [np.ascontiguousarray(rows[:, start : start + width]) for start in starts]
        digests = [digest_values(part) for part in parts]
        new = {
            digest: pack(part, digest)
            for digest, part in zip(digests, parts, strict=True)
            if digest not in self._known_chunks
        }
        if any(len(chunk.data) > MAX_STORED_BYTES for chunk in new.values()):
            middle = len(rows) // 2  # incompressible data: two chunks instead of one
            self._write_block(buffer, first_row, rows[:middle])
            self._write_block(buffer, first_row + middle, rows[middle:])
            return
        self._store(new.values())
        self._table(schema.array_chunk, own=True).add_columns(
            {
                "array_id": buffer.array_id,
                "row_start": first_row,
                "n_rows": len(rows),
                "column_start": starts,
                "n_columns": [part.shape[1] for part in parts],
                "digest": digests,
                "minimum": [int(part.min()) for part in parts],
                "maximum": [int(part.max()) for part in parts],
                "total": [saturated_sum(part) for part in parts],
            }
        )

    def _store(self, chunks: Collection[PackedChunk]) -> None:
        self._known_chunks.update(chunk.digest for chunk in chunks)
        waiting = self._table(schema.chunk, own=True)
        # The bytes are written at once; the buffer keeps the columns that the digest covers.
        waiting.add(
            {
                "digest": chunk.digest,
                "codec": chunk.codec,
                "raw_bytes": chunk.raw_bytes,
                "data": b"",
            }
            for chunk in chunks
        )
        first = len(waiting.rows) - len(chunks)
        self._open_connection().executemany(
            schema.chunk.insert,
            [
                (*row[:-1], chunk.data)
                for row, chunk in zip(waiting.rows[first:], chunks, strict=True)
            ],
        )

    def _seal(self, final: Path) -> None:
        connection = self._open_connection()
        self._commit("finished")
        connection.execute("PRAGMA synchronous=FULL")  # makes the checkpoint durable
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        connection.close()
        self._connection = None
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(self.path, final)
        self._lock.sync()
        self._lock.release()

    def _table(self, table: TableSpec, *, own: bool = False) -> RowBuffer:
        if table.name in _OWN_TABLES and not own:
            raise ValueError(f"table {table.name} is only written by append and commit")
        buffer = self._tables.get(table.name)
        if buffer is None:
            buffer = self._tables[table.name] = RowBuffer(table)
        return buffer

    def _array(self, name: str) -> ArrayBuffer:
        buffer = self._arrays.get(name)
        if buffer is None:
            if name not in ARRAYS:
                raise ValueError(f"unknown packed array {name!r}")
            buffer = self._arrays[name] = ArrayBuffer(ARRAYS[name])
        return buffer

    def _begin(self) -> None:
        connection = self._open_connection()
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")

    def _open_connection(self) -> apsw.Connection:
        if self._connection is None:
            raise ValueError("the report is finished or abandoned")
        return self._connection

    def _check_owner(self) -> None:
        if self._pid != os.getpid():
            raise ReportNotWritable(
                f"The report {self.path} belongs to process {self._pid};"
                " a forked process must not write to it."
            )

    def _guard(self, work: Callable[[], None]) -> None:
        """Run work on the file; turn the first failed write into a report error."""
        if self._failure is not None:
            return
        try:
            work()
        except apsw.ConstraintError as error:
            self.abandon()
            raise ValueError(f"two rows violate a unique constraint: {error}") from error
        except (apsw.Error, OSError) as error:
            self._failure = refusal(self.path.parent, error)
            self.abandon()
            raise self._failure from error


def _after_fork_in_child() -> None:
    """Keep a forked child from closing its parent's file, which would remove its journal."""
    for writer in list(_live):
        if writer._connection is not None:
            # Never destroyed in this process, not even at exit.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer._connection))
            writer._lock.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
