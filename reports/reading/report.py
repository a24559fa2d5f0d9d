"""A report opened for reading: statements on its tables, and its packed arrays."""

from __future__ import annotations

import shutil
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.chunks import PackedChunk, unpack
from tilescope.reports.integrity.constraints import Constraints
from tilescope.reports.integrity.digests import chain
from tilescope.reports.integrity.guard import GuardedConnection
from tilescope.reports.integrity.layout import ArrayLayout, read_layouts
from tilescope.reports.integrity.verification import is_small, verify_chunks
from tilescope.reports.integrity.verify import VerifiedTables
from tilescope.reports.reading.packed import PackedArray
from tilescope.reports.schema import ARRAYS, TABLES, TableSpec
from tilescope.reports.state import ReportState, State, state_after

__all__ = ["NewerRun", "Report"]

#: Blocks and milestones form the chain verified at opening.
_SEALED_OTHERWISE = {"milestone", "row_block"}
#: Tables that may differ between reports with the same data.
_NOT_CONTENT = {"milestone", "row_block", "wall_clock", "provenance", "engine_option"}
_CACHE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class NewerRun:
    """A run that began after a complete report of its directory and has none of its own.

    Parameters
    ----------
    path
        Its unfinished report.
    state
        The state of that.
    """

    path: Path
    state: ReportState

    @property
    def sentence(self) -> str:
        """The state of the newer run in one sentence."""
        return f"A newer run is in {self.path.name}. {self.state.sentence}".rstrip()

    def as_json(self) -> dict[str, object]:
        """Return path and state for JSON output."""
        return {"path": str(self.path)} | self.state.as_json()


class Report:
    """An open report; several threads may use it concurrently.

    ``path`` is its file. ``name`` is what messages call it: the path, unless whoever opened the
    report shows messages to people who must not learn where it is. ``newer_run`` is the newest run
    of the directory that was opened, if it is not in this report.
    """

    def __init__(
        self,
        connection: GuardedConnection,
        *,
        shown_path: Path | None = None,
        name: str | None = None,
        private_directory: Path | None = None,
    ) -> None:
        self.path = shown_path or connection.path
        self.name = str(self.path) if name is None else name
        self.is_copy = private_directory is not None
        self._connection = connection
        self._layouts: dict[str, ArrayLayout] | None = None
        self._cache: OrderedDict[tuple[bytes, str], np.ndarray] = OrderedDict()
        self._cached_bytes = 0
        self._damage = ""
        self._is_verified = False
        self.newer_run: NewerRun | None = None
        self._finalizer = weakref.finalize(self, _close, connection, private_directory)
        try:
            blocks, self.milestones = self._read_chain()
            self._tables = VerifiedTables(connection, blocks, self.name)
            self._constraints = Constraints(self._tables, self._layout, self.name)
            self._opened_state = state_after(self.milestones[-1], self.path)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether it is open."""
        return self._finalizer.alive

    @property
    def state(self) -> ReportState:
        """The state at this moment; damage counts once something has come upon it."""
        if self._damage:
            return ReportState(State.DAMAGED, None, self._damage)
        state = state_after(self.milestones[-1], self.path)
        # A running report is renamed at its end: what was read is from before.
        is_gone = state.sign_of_life is None and not state.is_complete
        return self._opened_state if is_gone else state

    @property
    def is_complete(self) -> bool:
        """Whether the run finished and sealed the report, and no damage is known."""
        return self.state.is_complete

    @property
    def is_verified(self) -> bool:
        """Whether all rows and chunks have been verified since opening."""
        return self._is_verified

    def rows(self, table: TableSpec, *names: str) -> list[tuple[Any, ...]]:
        """Return a table as rows of chosen columns, in order of the primary key.

        The table is read once, verified, and kept while the report is open.

        Parameters
        ----------
        table : TableSpec
            One of `tilescope.reports.schema`.
        *names : str
            Names of columns; all if none are given.

        Raises
        ------
        DamagedReport
            The table does not match its digests.
        ValueError
            The table has no such column.
        """
        return list(zip(*self.columns(table, *names), strict=True))

    def columns(self, table: TableSpec, *names: str) -> tuple[Sequence[Any], ...]:
        """Return chosen columns of a table, in order of the primary key; as `rows` otherwise."""
        with self._noting_damage():
            columns = self._tables.columns(table, *names)
            with self._connection.lock:
                self._constraints.check_table(table)
            return columns

    def column(self, table: TableSpec, name: str) -> Sequence[Any]:
        """Return one column of a table, in order of the primary key; as `rows` otherwise."""
        return self.columns(table, name)[0]

    def n_rows(self, table: TableSpec) -> int:
        """Return the number of rows that were sealed in a table, without reading them."""
        return self._tables.n_rows(table)

    def table(self, table: TableSpec) -> dict[str, list[Any]]:
        """Return a whole table as columns by name; as `rows` otherwise."""
        return dict(zip(table.place, map(list, self.columns(table)), strict=True))

    def array(self, name: str) -> PackedArray:
        """Return a packed array; it has no rows if the run ended before writing it.

        Parameters
        ----------
        name : str
            A name in `tilescope.reports.schema.ARRAYS`.

        Raises
        ------
        DamagedReport
            The array's chunks have gaps or overlap.
        """
        if name not in ARRAYS:
            raise ValueError(f"unknown packed array {name!r}")
        with self._connection.lock, self._noting_damage():
            layout = self._layout(name)
            self._constraints.check_array(layout)
        return PackedArray(layout, self._read_chunk)

    def _layout(self, name: str) -> ArrayLayout:
        return self._array_layouts()[name]

    def _array_layouts(self) -> dict[str, ArrayLayout]:
        with self._connection.lock:
            if self._layouts is None:
                self._layouts = read_layouts(self._tables, self.name)
            return self._layouts

    def verify(self) -> None:
        """Verify all rows and chunks against their digests.

        Reading verifies only the data it touches; call this for results based on digests alone.

        Raises
        ------
        DamagedReport
            Rows or chunks do not match their digests.
        """
        for _ in self.verification():
            pass

    def verification(self) -> Iterator[None]:
        """Verify all rows and chunks in small parts; a caller may pause or stop between two.

        Once all of an open report is verified, it is not verified again.

        Yields
        ------
        None
            After every part.

        Raises
        ------
        DamagedReport
            Rows or chunks do not match their digests.
        """
        if self._is_verified:
            return
        with self._noting_damage():
            for table in TABLES.values():
                if table.name not in _SEALED_OTHERWISE:
                    self._tables.columns(table)
                    yield
            yield from verify_chunks(self._connection, self._array_layouts(), self.name)
        self._is_verified = True

    def verify_if_small(self) -> None:
        """Verify the whole report if that takes some milliseconds; `state` tells of damage.

        The limits are in `tilescope.reports.integrity.verification`.
        """
        with suppress(DamagedReport), self._noting_damage():
            n_rows = sum(map(self.n_rows, TABLES.values()))
            if is_small(n_rows, self._array_layouts):
                self.verify()

    @property
    def schema_version(self) -> int:
        """Version of the schema that the file has; what later ones brought is null."""
        return self._connection.version

    def has_content_of(self, other: Report) -> bool:
        """Return whether two reports hold the same rows and chunks, as stored.

        Much faster than `verify` on both. It says nothing about their digests.

        Parameters
        ----------
        other : Report
            Another report; one of another version of the schema has other content.
        """
        content = [name for name in TABLES if name not in _NOT_CONTENT]
        for name in content:
            if name != "chunk" and self._stored(name) != other._stored(name):
                return False
        digests = [
            {row[0] for row in report._connection.rows("SELECT digest FROM chunk")}
            for report in (self, other)
        ]
        return digests[0] == digests[1] and all(
            self._stored_chunk(digest) == other._stored_chunk(digest) for digest in digests[0]
        )

    def _stored(self, name: str) -> list[tuple[Any, ...]]:
        if not self._connection.has_table(TABLES[name]):
            return []
        with self._connection.lock:
            return self._connection.rows(f'SELECT * FROM "{name}" NOT INDEXED ORDER BY 1')

    def _stored_chunk(self, digest: bytes) -> list[tuple[Any, ...]]:
        with self._connection.lock:
            return self._connection.rows("SELECT * FROM chunk WHERE digest = ?", (digest,))

    def integrity_problem(self) -> str | None:
        """Return SQLite's integrity error for the whole file, or None."""
        return self._connection.integrity_problem()

    def close(self) -> None:
        """Close the file and remove the private copy, if any."""
        self._finalizer()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            yield
        except DamagedReport as error:
            self._damage = self._damage or str(error)
            raise

    def _read_chunk(
        self, layout: ArrayLayout, place: tuple[int, int], shape: tuple[int, int]
    ) -> np.ndarray:
        with self._noting_damage():
            return self._chunk(layout, place, shape)

    def _chunk(
        self, layout: ArrayLayout, place: tuple[int, int], shape: tuple[int, int]
    ) -> np.ndarray:
        """Return the verified values of a chunk, given as band and column of chunks.

        They are taken from the cache if possible.
        """
        band, number = place
        digest, packed_digest = layout.digests[band][number], layout.packed_digests[band][number]
        dtype = layout.spec.dtype
        key = (digest, dtype)
        with self._connection.lock:
            values = self._cache.get(key)
            if values is not None and values.shape == shape:
                self._cache.move_to_end(key)
                return values
            rows = self._connection.rows(
                "SELECT digest, codec, raw_bytes, data FROM chunk WHERE digest = ?", (digest,)
            )
        where = f"array {layout.spec.name} in {self.name}"
        if len(rows) != 1 or [type(value) for value in rows[0]] != [bytes, str, int, bytes]:
            raise DamagedReport(f"A chunk of {where} is missing.")
        values = unpack(PackedChunk(*rows[0]), dtype, shape, where, packed_digest)
        if rows[0][0] != digest:
            raise DamagedReport(f"A chunk of {where} is missing.")
        with self._connection.lock:
            self._cached_bytes += values.nbytes if key not in self._cache else 0
            self._cache[key] = values
            while self._cached_bytes > _CACHE_BYTES and len(self._cache) > 1:
                _, oldest = self._cache.popitem(last=False)
                self._cached_bytes -= oldest.nbytes
        return values

    def _read_chain(self) -> tuple[list[tuple[Any, ...]], list[str]]:
        """Return the row blocks and milestones, after verifying the chain of their digests."""
        blocks = self._connection.rows("SELECT * FROM row_block NOT INDEXED ORDER BY row_block_id")
        seals = self._connection.rows("SELECT * FROM milestone NOT INDEXED ORDER BY milestone_id")
        kinds = [int, str, int, int, int, bytes]
        broken = DamagedReport(f"{self.name} is damaged: its chain of milestones is inconsistent.")
        if not seals or any([type(v) for v in block] != kinds for block in blocks):
            raise broken
        if any(block[1] not in TABLES for block in blocks):
            raise broken
        digest, n_sealed = b"", 0
        for number, seal in enumerate(seals):
            if [type(v) for v in seal] != [int, str, int, bytes] or seal[0] != number:
                raise broken
            _, name, n_row_blocks, sealed = seal
            if not n_sealed <= n_row_blocks <= len(blocks):
                raise broken
            digest = chain(digest, name, n_row_blocks, blocks[n_sealed:n_row_blocks])
            if digest != sealed:
                raise broken
            n_sealed = n_row_blocks
        if n_sealed != len(blocks):
            raise broken
        return blocks, [seal[1] for seal in seals]


def _close(connection: GuardedConnection, private_directory: Path | None) -> None:
    connection.close()
    if private_directory is not None:
        shutil.rmtree(private_directory, ignore_errors=True)
