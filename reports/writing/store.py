"""What a writer keeps in its file: rows, chunks, and the seals over both.

A commit seals all data so far under a milestone. A commit that *grows* leaves blocks and chunks
that are not full yet provisional: the next one takes them back, in the same transaction, and writes
fuller ones, so that many small commits leave as few blocks and chunks as a single large one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import apsw
import numpy as np

from tilescope.reports import schema
from tilescope.reports.integrity.chunks import (
    MAX_STORED_BYTES,
    PackedChunk,
    digest_packed,
    digest_values,
    pack,
    saturated_sum,
)
from tilescope.reports.integrity.digests import DIGEST_BYTES, ROWS_PER_BLOCK, chain, digest_columns
from tilescope.reports.schema import ARRAYS, TableSpec
from tilescope.reports.writing.array_buffer import ArrayBuffer
from tilescope.reports.writing.row_buffer import RowBuffer, RowMark
from tilescope.reports.writing.template import StoreState

__all__ = ["ReportStore"]

_OWN_TABLES = frozenset(("array", "array_chunk", "chunk", "row_block", "milestone"))
#: Tables with provisional rows after a growing commit, which are counted from the marks.
_PROVISIONAL = (schema.array_chunk, schema.chunk)

#: Arrays of sums over the tiles of every IPU, by the array that is summed.
_SUMS = {spec.sum_of: spec.name for spec in ARRAYS.values() if spec.sum_of is not None}

_Block = tuple[Any, ...]


class _Tail(NamedTuple):
    """The provisional end of a file: what the next transaction takes back."""

    marks: dict[str, RowMark]
    chunks: dict[bytes, PackedChunk]
    first_block_id: int
    milestone_id: int


class ReportStore:
    """Rows and arrays of one report, on a connection that writes it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._tables: dict[str, RowBuffer] = {}
        self._arrays: dict[str, ArrayBuffer] = {}
        #: Digest of the packed bytes of every stored chunk, by that of its values.
        self._packed_digests: dict[bytes, bytes] = {}
        #: Digest of the milestone before, and the lasting blocks since then.
        self._digest = b""
        self._section: list[_Block] = []
        self._n_row_blocks = 0
        self._tail: _Tail | None = None
        self._spare_chunks: dict[bytes, PackedChunk] = {}
        self._growing_milestone = ""
        #: IPUs, and tiles of one.
        self._machine: tuple[int, int] | None = None

    def state(self) -> StoreState:
        """Return what another process needs to go on, after a commit that does not grow.

        Raises
        ------
        ValueError
            When there is something that no commit has sealed.
        """
        seals = self._rows_of(schema.milestone)
        waiting = [buffer.table.name for buffer in self._tables.values() if buffer.rows]
        if self._growing_milestone or waiting != [schema.milestone.name] or len(seals.rows) != 1:
            raise ValueError("a report goes on after a commit that does not grow")
        arrays = {name: buffer.state() for name, buffer in self._arrays.items()}
        chunks = sorted(self._packed_digests.items())
        digests = np.frombuffer(b"".join(map(b"".join, chunks)), np.uint8)
        return StoreState(
            {name: buffer.state() for name, buffer in self._tables.items()},
            {name: state for name, state in arrays.items() if state is not None},
            digests.reshape(-1, 2 * DIGEST_BYTES),
            seals.rows[0],
            self._n_row_blocks,
            self._machine,
        )

    @classmethod
    def resumed(cls, connection: apsw.Connection, state: StoreState) -> ReportStore:
        """Return the store of a file that goes on."""
        store = cls(connection)
        for name, table in state.tables.items():
            store._tables[name] = RowBuffer.resumed(schema.TABLES[name], table)
        for name, array in state.arrays.items():
            store._arrays[name] = ArrayBuffer.resumed(ARRAYS[name], array)
        content = state.chunk_digests.tobytes()
        ends = range(2 * DIGEST_BYTES, len(content) + 1, 2 * DIGEST_BYTES)
        store._packed_digests = {
            content[end - 2 * DIGEST_BYTES : end - DIGEST_BYTES]: content[end - DIGEST_BYTES : end]
            for end in ends
        }
        store._machine = state.machine
        seals = store._rows_of(schema.milestone)
        seals.rows.append(tuple(state.milestone))
        seals.n_stored = 1
        store._digest = dict(zip(seals.names, state.milestone, strict=True))["digest"]
        store._n_row_blocks = state.n_row_blocks
        return store

    def table(self, table: TableSpec) -> RowBuffer:
        """Return the buffer of a table that a caller may add to."""
        if table.name in _OWN_TABLES:
            raise ValueError(f"table {table.name} is only written by append and commit")
        return self._rows_of(table)

    def array(self, name: str) -> ArrayBuffer:
        """Return the buffer of an array."""
        buffer = self._arrays.get(name)
        if buffer is None:
            if name not in ARRAYS:
                raise ValueError(f"unknown packed array {name!r}")
            buffer = self._arrays[name] = ArrayBuffer(ARRAYS[name])
        return buffer

    def note_machine(self) -> None:
        """Keep the size of the machine that was added last."""
        row, place = self._rows_of(schema.target).rows[-1], schema.target.place
        self._machine = row[place["n_ipus"]], row[place["tiles_per_ipu"]]

    def append(self, name: str, values: np.ndarray) -> int:
        """Append rows to an array, and their sums to the array that has them; return the first."""
        buffer = self.array(name)
        return self._appended(buffer, buffer.append(values), values)

    def pattern(self, name: str, values: np.ndarray) -> int:
        """Append a row to an array unless an equal one exists, as `append`; return its index."""
        buffer = self.array(name)
        n_rows = buffer.n_rows
        row = buffer.pattern(values)
        return row if row < n_rows else self._appended(buffer, row, values)

    def _appended(self, buffer: ArrayBuffer, first: int, values: np.ndarray) -> int:
        """Describe an array that has grown and write its full chunks; return the first row."""
        self.describe(buffer)
        sums = _SUMS.get(buffer.spec.name)
        if sums is not None and self._machine is not None:
            shape = (-1, *self._machine)
            by_tile = np.atleast_2d(np.asarray(values, buffer.spec.dtype))
            if by_tile.shape[1] == self._machine[0] * self._machine[1]:
                self.append(sums, by_tile.reshape(shape).sum(axis=2))
        return first

    def describe(self, buffer: ArrayBuffer) -> None:
        """Assign an array's id and row once it has values, so that ids ascend."""
        if buffer.array_id is not None or not buffer.n_rows:
            return
        rows, spec = self._rows_of(schema.array), buffer.spec
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

    def write_chunks(self, buffer: ArrayBuffer, *, everything: bool = False) -> None:
        """Write the full chunks of an array, and a partial one if `everything` is true."""
        for first_row, rows in buffer.blocks(everything=everything):
            self._begin()
            self._write_block(buffer, first_row, rows)

    def commit(self, milestone: str, *, grows: bool = False) -> None:
        """Write and seal all data so far in one durable transaction.

        Parameters
        ----------
        milestone
            Its name. After a growing commit, only commits of the same name may follow until one
            that does not grow.
        grows
            Whether more data of this milestone may follow.
        """
        if self._growing_milestone not in ("", milestone):
            raise ValueError(f"data of the milestone {self._growing_milestone!r} is still growing")
        self._begin()
        for buffer in self._arrays.values():
            self.write_chunks(buffer, everything=not grows)
        marks = {table.name: self._rows_of(table).mark() for table in _PROVISIONAL}
        chunks = self._write_partial_chunks() if grows else {}
        lasting, provisional = self._write_tables(marks, grows=grows)
        self._insert_blocks(lasting)
        first_block_id = self._n_row_blocks
        self._section += self._numbered(lasting, first_block_id - len(lasting))
        extra = self._numbered(provisional, first_block_id)
        self.connection.executemany(schema.row_block.insert, extra)
        n_row_blocks = first_block_id + len(extra)
        digest = chain(self._digest, milestone, n_row_blocks, [*self._section, *extra])
        seals = self._rows_of(schema.milestone)
        milestone_id = seals.next_id
        row = milestone_id, milestone, n_row_blocks, digest
        self.connection.execute(schema.milestone.insert, row)
        self.connection.execute("COMMIT")
        if grows:
            self._tail = _Tail(marks, chunks, first_block_id, milestone_id)
            self._growing_milestone = milestone
            return
        seals.add([dict(zip(seals.names, row, strict=True))])
        seals.n_stored += 1
        self._digest, self._section, self._growing_milestone = digest, [], ""

    def finish(self, milestone: str) -> None:
        """Make what is provisional last, and add the last milestone."""
        if self._growing_milestone:
            self.commit(self._growing_milestone)
        self.commit(milestone)

    def _begin(self) -> None:
        """Begin a transaction unless one is open, and take back the provisional end."""
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")
        tail, self._tail = self._tail, None
        if tail is None:
            return
        for table in _PROVISIONAL:
            buffer, mark = self._rows_of(table), tail.marks[table.name]
            self._delete_from(table, mark.next_id)
            buffer.reset(mark)
        self._delete_from(schema.row_block, tail.first_block_id)
        self._delete_from(schema.milestone, tail.milestone_id)
        for digest in tail.chunks:
            self._packed_digests.pop(digest, None)
        self._spare_chunks = tail.chunks

    def _delete_from(self, table: TableSpec, first_id: int) -> None:
        text = f'DELETE FROM "{table.name}" WHERE "{table.primary_key}" >= ?'
        self.connection.execute(text, (first_id,))

    def _write_partial_chunks(self) -> dict[bytes, PackedChunk]:
        """Write the chunks that are not full yet; return those that were not stored before."""
        before = set(self._packed_digests)
        chunks: dict[bytes, PackedChunk] = {}
        for buffer in self._arrays.values():
            first_row, rows = buffer.pending()
            if len(rows):
                chunks |= self._write_block(buffer, first_row, rows)
        self._spare_chunks = {}
        return {digest: chunk for digest, chunk in chunks.items() if digest not in before}

    def _write_tables(
        self, marks: dict[str, RowMark], *, grows: bool
    ) -> tuple[list[_Block], list[_Block]]:
        """Insert buffered rows; return the blocks that last, and the provisional ones."""
        lasting: list[_Block] = []
        provisional: list[_Block] = []
        # Earlier milestones are sealed like other rows; the current one by its own digest.
        for name, buffer in list(self._tables.items()):
            self.connection.executemany(buffer.table.insert, buffer.rows[buffer.n_stored :])
            buffer.n_stored = len(buffer.rows)
            n_rows = marks[name].n_rows if name in marks else len(buffer.rows)
            end = n_rows - n_rows % ROWS_PER_BLOCK if grows else len(buffer.rows)
            lasting += _blocks(buffer.table, buffer.rows[:end])
            provisional += _blocks(buffer.table, buffer.rows[end:])
            buffer.drop(end)
            if name in marks:
                marks[name] = marks[name].without(end)
        return lasting, provisional

    def _insert_blocks(self, blocks: list[_Block]) -> None:
        numbered = self._numbered(blocks, self._n_row_blocks)
        self.connection.executemany(schema.row_block.insert, numbered)
        self._n_row_blocks += len(numbered)

    def _numbered(self, blocks: list[_Block], first_id: int) -> list[_Block]:
        return [(first_id + number, *block) for number, block in enumerate(blocks)]

    def _write_block(
        self, buffer: ArrayBuffer, first_row: int, rows: np.ndarray
    ) -> dict[bytes, PackedChunk]:
        """Write a band of an array; return its chunks that were not stored before."""
        width = buffer.spec.chunk_columns
        starts = range(0, buffer.n_columns, width)
        parts = [np.ascontiguousarray(rows[:, start : start + width]) for start in starts]
        digests = [digest_values(part) for part in parts]
        new = {
            digest: self._spare_chunks.get(digest) or pack(part, digest)
            for digest, part in zip(digests, parts, strict=True)
            if digest not in self._packed_digests
        }
        if any(len(chunk.data) > MAX_STORED_BYTES for chunk in new.values()):
            middle = len(rows) // 2  # incompressible data: two chunks instead of one
            first = self._write_block(buffer, first_row, rows[:middle])
            return first | self._write_block(buffer, first_row + middle, rows[middle:])
        self._store(new.values())
        self._rows_of(schema.array_chunk).add_columns(
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
                "packed_digest": [self._packed_digests[digest] for digest in digests],
            }
        )
        return new

    def _store(self, chunks: Collection[PackedChunk]) -> None:
        """Insert chunks at once; the buffer keeps the columns that the digests of rows cover."""
        self._packed_digests.update((chunk.digest, digest_packed(chunk)) for chunk in chunks)
        buffer = self._rows_of(schema.chunk)
        first = len(buffer.rows)
        buffer.add(
            {
                "digest": chunk.digest,
                "codec": chunk.codec,
                "raw_bytes": chunk.raw_bytes,
                "data": b"",
            }
            for chunk in chunks
        )
        self.connection.executemany(
            schema.chunk.insert,
            [
                (*row[:-1], chunk.data)
                for row, chunk in zip(buffer.rows[first:], chunks, strict=True)
            ],
        )
        buffer.n_stored = len(buffer.rows)

    def _rows_of(self, table: TableSpec) -> RowBuffer:
        buffer = self._tables.get(table.name)
        if buffer is None:
            buffer = self._tables[table.name] = RowBuffer(table)
        return buffer


def _blocks(table: TableSpec, rows: list[tuple[Any, ...]]) -> list[_Block]:
    """Return (table, first id, last id, count, digest) of blocks of rows."""
    blocks = []
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        block = rows[start : start + ROWS_PER_BLOCK]
        columns = list(zip(*block, strict=True))[: len(table.digested)]
        digest = digest_columns(table, columns)
        blocks.append((table.name, block[0][0], block[-1][0], len(block), digest))
    return blocks
