"""Reads what is sound in a report whose seals are broken: blocks of rows and chunks of arrays.

Every block of rows and every chunk has a digest of its own, so that each can be judged by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import Any

import numpy as np

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.chunks import PackedChunk, unpack
from tilescope.reports.integrity.digests import digest_columns, kinds_of
from tilescope.reports.integrity.guard import GuardedConnection
from tilescope.reports.schema import (
    ARRAYS,
    ArraySpec,
    TableSpec,
    array,
    array_chunk,
    row_block,
)

__all__ = ["Salvage", "SalvagedArray"]

_CACHED_CHUNKS = 64

_Row = tuple[Any, ...]


class SalvagedArray:
    """The sound rows of a packed array; some may be missing.

    Parameters
    ----------
    salvage
        Where the chunks come from.
    spec
        Definition of the array.
    n_columns
        Values of a row.
    bands
        First row and chunks (column start, number of columns, digest) of rows that were stored
        together, in order.
    """

    def __init__(
        self,
        salvage: Salvage,
        spec: ArraySpec,
        n_columns: int,
        bands: list[tuple[int, int, list[_Row]]],
    ) -> None:
        self._salvage = salvage
        self.spec = spec
        self.n_columns = n_columns
        self._bands = bands
        self._starts = [first for first, _, _ in bands]

    def prefix(self) -> list[np.ndarray]:
        """Return the sound rows from the first one to the first that is missing, in parts."""
        parts: list[np.ndarray] = []
        end = 0
        for first, n_rows, chunks in self._bands:
            values = self._values(n_rows, chunks) if first == end else None
            if values is None:
                break
            parts.append(values)
            end += n_rows
        return parts

    @property
    def n_rows(self) -> int:
        """Rows up to the last that was stored, missing ones included."""
        return max((first + n_rows for first, n_rows, _ in self._bands), default=0)

    def read(self, first: int, stop: int) -> np.ndarray | None:
        """Return rows of a plain column, shape (stop - first,); None if some are missing."""
        parts = []
        row = first
        band = max(0, bisect_right(self._starts, first) - 1)
        while row < stop:
            if band >= len(self._bands):
                return None
            start, n_rows, chunks = self._bands[band]
            values = self._values(n_rows, chunks) if start <= row < start + n_rows else None
            if values is None:
                return None
            part = values[row - start : stop - start, 0]
            parts.append(part)
            row += len(part)
            band += 1
        return np.concatenate(parts) if parts else np.zeros(0, self.spec.dtype)

    def _values(self, n_rows: int, chunks: list[_Row]) -> np.ndarray | None:
        """Return the rows of a band, shape (n_rows, n_columns); None if a chunk is missing."""
        parts, end = [], 0
        for column_start, n_columns, digest in chunks:
            values = self._salvage.chunk(self.spec, digest, (n_rows, n_columns))
            if values is None or column_start != end:
                return None
            parts.append(values)
            end += n_columns
        if end != self.n_columns:
            return None
        return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


class Salvage:
    """The sound parts of a report file.

    Parameters
    ----------
    connection
        Connection to a private copy of the file.
    """

    def __init__(self, connection: GuardedConnection) -> None:
        self._connection = connection
        self._blocks: dict[str, list[_Row]] = {}
        for block in self._readable(row_block)[0]:
            self._blocks.setdefault(block[1], []).append(block)
        self._chunk_ids = self._ids_of_chunks()
        self._cache: OrderedDict[tuple[bytes, str, tuple[int, int]], np.ndarray] = OrderedDict()

    def rows(self, table: TableSpec) -> tuple[list[_Row], int]:
        """Return the rows of a table that match their digests, and the number of the others."""
        stored = table.as_of(self._connection.version)
        rows, n_stored = self._readable(stored)
        ids = [row[0] for row in rows]
        sound: list[_Row] = []
        for _, _, first_id, last_id, n_rows, digest in self._blocks.get(table.name, []):
            block = rows[bisect_left(ids, first_id) : bisect_right(ids, last_id)]
            if 0 < n_rows == len(block):
                columns = list(zip(*block, strict=True))
                if digest_columns(stored, columns) == digest:
                    sound += block
        nulls = (None,) * (len(table.digested) - len(stored.digested))
        sound = [(*row, *nulls) for row in sound]
        unique = {row[0]: row for row in sound}
        n_sealed = sum(block[4] for block in self._blocks.get(table.name, []))
        return [unique[key] for key in sorted(unique)], max(n_sealed, n_stored) - len(unique)

    def readable(self, table: TableSpec) -> list[_Row]:
        """Return the rows of a table that can be read, whether they match their digests or not."""
        return self._readable(table.as_of(self._connection.version))[0]

    def arrays(self) -> dict[str, SalvagedArray]:
        """Return all arrays that are described soundly, by name."""
        bands: dict[int, dict[int, list[_Row]]] = {}
        for row in self.rows(array_chunk)[0]:
            bands.setdefault(row[1], {}).setdefault(row[2], []).append(row)
        salvaged = {}
        for array_id, name, dtype, n_columns, *_ in self.rows(array)[0]:
            spec = ARRAYS.get(name)
            if spec is None or spec.dtype != dtype:
                continue
            salvaged[name] = SalvagedArray(
                self,
                spec,
                n_columns,
                [
                    (first, parts[0][3], [(part[4], part[5], part[6]) for part in parts])
                    for first, parts in sorted(bands.get(array_id, {}).items())
                    if len({part[3] for part in parts}) == 1
                ],
            )
        return salvaged

    def chunk(self, spec: ArraySpec, digest: bytes, shape: tuple[int, int]) -> np.ndarray | None:
        """Return the values of a chunk; None if it is missing or damaged."""
        key = digest, spec.dtype, shape
        values = self._cache.get(key)
        if values is not None:
            self._cache.move_to_end(key)
            return values
        rows, _ = self._connection.readable_rows(
            "SELECT digest, codec, raw_bytes, data FROM chunk NOT INDEXED WHERE chunk_id = ?",
            (self._chunk_ids.get(digest, -1),),
        )
        if len(rows) != 1 or [type(value) for value in rows[0]] != [bytes, str, int, bytes]:
            return None
        try:
            values = unpack(PackedChunk(*rows[0]), spec.dtype, shape, f"array {spec.name}")
        except DamagedReport:
            return None
        self._cache[key] = values
        if len(self._cache) > _CACHED_CHUNKS:
            self._cache.popitem(last=False)
        return values

    def _ids_of_chunks(self) -> dict[bytes, int]:
        text = "SELECT chunk_id, digest FROM chunk NOT INDEXED ORDER BY chunk_id"
        rows, _ = self._connection.readable_rows(text)
        return {
            digest: number
            for number, digest in rows
            if isinstance(digest, bytes) and isinstance(number, int)
        }

    def _readable(self, table: TableSpec) -> tuple[list[_Row], int]:
        """Return the readable rows whose values have the right types, and the number of all."""
        if not self._connection.has_table(table):
            return [], 0
        listed = ", ".join(f'"{column.name}"' for column in table.digested)
        rows, _ = self._connection.readable_rows(
            f'SELECT {listed} FROM "{table.name}" NOT INDEXED ORDER BY "{table.primary_key}"'
        )
        kinds = kinds_of(table)
        typed = [
            row
            for row in rows
            if all(type(value) in kind for value, kind in zip(row, kinds, strict=True))
        ]
        return typed, len(rows)
