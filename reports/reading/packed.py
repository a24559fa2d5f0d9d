"""Reads packed arrays; only the chunks that a request touches are unpacked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.chunks import digest_values
from tilescope.reports.integrity.constraints import chunk_problem
from tilescope.reports.integrity.layout import ArrayLayout

__all__ = ["ChunkSummary", "PackedArray"]

#: Maximum size of a result: a file that lists a chunk many times does not exhaust memory.
_MAX_ANSWER_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class ChunkSummary:
    """The stored summary of every band of chunks, available without unpacking.

    All are ndarrays of int64, shape (n_chunks,): the first row, the number of rows, the minimum,
    maximum and sum over the band's rows and all columns, in the array's unit.
    """

    row_start: np.ndarray
    n_rows: np.ndarray
    minimum: np.ndarray
    maximum: np.ndarray
    total: np.ndarray


class PackedArray:
    """One packed array of a report: 1-D for plain columns, 2-D for values per tile."""

    def __init__(
        self,
        layout: ArrayLayout,
        load: Callable[[ArrayLayout, tuple[int, int], tuple[int, int]], np.ndarray],
    ) -> None:
        self._layout = layout
        self._load = load
        self.name = layout.spec.name
        self.dtype = np.dtype(layout.spec.dtype)

    @property
    def is_wide(self) -> bool:
        """Whether a row holds a value per tile."""
        return self._layout.spec.columns != "one"

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, or rows and columns."""
        n_rows = self._layout.n_rows
        return (n_rows, self._layout.n_columns) if self.is_wide else (n_rows,)

    def __len__(self) -> int:
        return self._layout.n_rows

    def has_chunks_of(self, other: PackedArray) -> bool:
        """Return whether both arrays consist of the same chunks: equal digests at equal places."""
        return self._layout.digests == other._layout.digests and self.is_cut_as(other)

    def is_cut_as(self, other: PackedArray) -> bool:
        """Return whether chunks are at the same places, so that other digests are other values."""
        one, two = self._layout, other._layout
        return one.spec == two.spec and np.array_equal(one.row_start, two.row_start)

    def read(
        self,
        row_start: int = 0,
        row_stop: int | None = None,
        column_start: int = 0,
        column_stop: int | None = None,
    ) -> np.ndarray:
        """Return a rectangle of values; ranges are half-open and clipped to the array.

        Parameters
        ----------
        row_start, row_stop : int
            Rows.
        column_start, column_stop : int
            Columns, for arrays per tile.

        Returns
        -------
        ndarray, shape (n_rows,), or (n_rows, n_columns) for arrays per tile

        Raises
        ------
        DamagedReport
            A chunk does not match its digest.
        """
        row_start, row_stop = _cut(row_start, row_stop, self._layout.n_rows)
        column_start, column_stop = _cut(column_start, column_stop, self._layout.n_columns)
        values = self._new(row_stop - row_start, column_stop - column_start)
        starts = self._layout.row_start
        if values.size:
            first = int(np.searchsorted(starts, row_start, side="right")) - 1
            last = int(np.searchsorted(starts, row_stop, side="left"))
            for band in range(first, last):
                top, bottom = max(row_start, starts[band]), min(row_stop, starts[band + 1])
                rows = slice(int(top - starts[band]), int(bottom - starts[band]))
                target = values[int(top - row_start) : int(bottom - row_start)]
                self._fill(band, rows, target, column_start, column_stop)
        return values if self.is_wide else values[:, 0]

    def row(self, row: int) -> np.ndarray:
        """Return one row of an array per tile.

        Returns
        -------
        ndarray, shape (n_columns,)

        Raises
        ------
        IndexError
            The row does not exist.
        """
        values: np.ndarray = self.rows(np.array([row]))[0]
        return values

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Return the given rows, in the given order; a chunk is unpacked once.

        Parameters
        ----------
        ids : ndarray of integers, shape (n,)
            Row indices; duplicates are allowed.

        Returns
        -------
        ndarray, shape (n, n_columns), or (n,) for plain columns

        Raises
        ------
        IndexError
            The row does not exist.
        """
        ids = np.asarray(ids, np.int64)
        if ids.size and not (ids.min() >= 0 and ids.max() < self._layout.n_rows):
            raise IndexError(
                f"{self.name} has {self._layout.n_rows} rows; some ids are out of range"
            )
        values = self._new(len(ids), self._layout.n_columns)
        bands = np.searchsorted(self._layout.row_start, ids, side="right") - 1
        order = np.argsort(bands, kind="stable")
        for indices in np.split(order, np.flatnonzero(np.diff(bands[order])) + 1):
            if len(indices):
                band = int(bands[indices[0]])
                inside = ids[indices] - self._layout.row_start[band]
                for start, chunk in self._chunks(band, 0, self._layout.n_columns):
                    values[indices, start : start + chunk.shape[1]] = chunk[inside]
        return values if self.is_wide else values[:, 0]

    def column(self, column: int) -> np.ndarray:
        """Return one column of an array per tile over all rows.

        Returns
        -------
        ndarray, shape (n_rows,)

        Raises
        ------
        IndexError
            The column does not exist.
        """
        if not 0 <= column < self._layout.n_columns:
            raise IndexError(
                f"{self.name} has {self._layout.n_columns} columns; {column} is out of range"
            )
        values = self.read(0, None, column, column + 1)
        return values[:, 0] if self.is_wide else values

    def summary(self) -> ChunkSummary:
        """Return the minimum, maximum and sum of every band of chunks."""
        layout = self._layout
        return ChunkSummary(
            layout.row_start[:-1],
            np.diff(layout.row_start),
            layout.minimum.min(axis=1) if layout.minimum.size else np.zeros(0, np.int64),
            layout.maximum.max(axis=1) if layout.maximum.size else np.zeros(0, np.int64),
            layout.total.sum(axis=1),
        )

    def chunk_digests(self) -> list[list[bytes]]:
        """Return the digests of the chunks: one list per band, one digest per column of chunks.

        Equal digests at equal positions mean equal values, so that reports are comparable without
        unpacking.
        """
        return [list(band) for band in self._layout.digests]

    def verify(self) -> None:
        """Unpack every chunk and verify its values against their digest.

        Raises
        ------
        DamagedReport
            A chunk does not match its digest.
        """
        for band, expected in enumerate(self._layout.digests):
            chunks = self._chunks(band, 0, self._layout.n_columns, is_checked=False)
            if [digest_values(chunk) for _, chunk in chunks] != expected:
                raise DamagedReport(f"A chunk of array {self.name} does not match its digest.")

    def _new(self, n_rows: int, n_columns: int) -> np.ndarray:
        if n_rows * n_columns * self.dtype.itemsize > _MAX_ANSWER_BYTES:
            raise DamagedReport(f"Array {self.name} is too large to read at once.")
        return np.empty((n_rows, n_columns), self.dtype)

    def _fill(
        self, band: int, rows: slice, target: np.ndarray, column_start: int, column_stop: int
    ) -> None:
        for start, chunk in self._chunks(band, column_start, column_stop):
            left, right = max(column_start, start), min(column_stop, start + chunk.shape[1])
            part = chunk[rows, left - start : right - start]
            target[:, left - column_start : right - column_start] = part

    def _chunks(
        self, band: int, column_start: int, column_stop: int, *, is_checked: bool = True
    ) -> list[tuple[int, np.ndarray]]:
        layout, width = self._layout, self._layout.spec.chunk_columns
        n_rows = int(layout.row_start[band + 1] - layout.row_start[band])
        chunks = []
        for number in range(column_start // width, (column_stop - 1) // width + 1):
            shape = (n_rows, min(width, layout.n_columns - number * width))
            chunk = self._load(layout, (band, number), shape)
            if is_checked and (band, number) not in layout.checked:
                self._check(band, number, chunk)
            chunks.append((number * width, chunk))
        return chunks

    def _check(self, band: int, number: int, chunk: np.ndarray) -> None:
        """Check a chunk against its summary, from which ranges of values are known."""
        layout, chunk_index = self._layout, (band, number)
        summary = (
            layout.minimum[chunk_index],
            layout.maximum[chunk_index],
            layout.total[chunk_index],
        )
        problem = chunk_problem(self.name, chunk, summary)
        if problem is not None:
            raise DamagedReport(f"A chunk of array {self.name} {problem}.")
        layout.checked.add(chunk_index)


def _cut(start: int, stop: int | None, end: int) -> tuple[int, int]:
    start = min(max(start, 0), end)
    return start, end if stop is None else min(max(stop, start), end)
