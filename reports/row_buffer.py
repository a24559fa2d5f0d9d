"""The writer's buffer for one table, until the next commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, repeat
from math import isnan
from typing import Any

import numpy as np

from tilescope.reports.schema import ColumnSpec, TableSpec

__all__ = ["MAX_TEXT_BYTES", "RowBuffer"]

#: Maximum length of a text; readers reject longer ones without reading them.
MAX_TEXT_BYTES = 1_000_000


class RowBuffer:
    """Rows of one table as SQLite will hold them, in order of their primary key."""

    def __init__(self, table: TableSpec) -> None:
        self.table = table
        self.rows: list[tuple[Any, ...]] = []
        self._names = [column.name for column in table.columns]
        self._casts = [_cast_of(table, column) for column in table.columns]
        self._key = table.primary_key
        self._key_place = self._names.index(self._key)
        self.next_id = 0
        self._last_id: int | None = None

    def take(self) -> list[tuple[Any, ...]]:
        """Return the buffered rows and clear the buffer."""
        rows, self.rows = self.rows, []
        return rows

    def add(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows given as mappings from column name to value."""
        self._take([self._row(row) for row in rows])

    def add_columns(
        self, columns: Mapping[str, Sequence[Any] | np.ndarray | int | str | None]
    ) -> None:
        """Add rows given as columns; a scalar number or string applies to every row."""
        unknown = set(columns) - set(self._names)
        if unknown:
            raise ValueError(f"table {self.table.name} has no column {min(unknown)!r}")
        long = {
            name: values.tolist() if isinstance(values, np.ndarray) else values
            for name, values in columns.items()
        }
        lengths = {len(v) for v in long.values() if isinstance(v, list | tuple | range)}
        if len(lengths) != 1:
            raise ValueError(f"columns of {self.table.name} have lengths {sorted(lengths)}")
        (n_rows,) = lengths
        long.setdefault(self._key, range(self.next_id, self.next_id + n_rows))
        parts: list[Iterable[Any]] = []
        for name, cast, column in zip(self._names, self._casts, self.table.columns, strict=True):
            values = long.get(name)
            if values is None:
                self._require_nullable(column)
                parts.append(repeat(None, n_rows))
            elif isinstance(values, list | tuple | range):
                parts.append(map(cast, values))
            else:
                parts.append(repeat(cast(values), n_rows))
        self._take(list(zip(*parts, strict=False)))

    def _row(self, row: Mapping[str, object]) -> tuple[Any, ...]:
        if self._key not in row:
            row = {self._key: self.next_id, **row}
        if not set(row) <= set(self._names):
            unknown = min(set(row) - set(self._names))
            raise ValueError(f"table {self.table.name} has no column {unknown!r}")
        self.next_id = int(row[self._key]) + 1  # type: ignore[call-overload]
        return tuple(
            cast(row.get(name)) for name, cast in zip(self._names, self._casts, strict=True)
        )

    def _take(self, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        place = self._key_place
        rows.sort(key=lambda row: row[place])  # cheap if already sorted
        ids = [row[place] for row in rows]
        is_late = self._last_id is not None and ids[0] <= self._last_id
        if is_late or any(a == b for a, b in pairwise(ids)):
            raise ValueError(f"rows of {self.table.name} must be in ascending order of {self._key}")
        self.rows.extend(rows)
        self._last_id = ids[-1]
        self.next_id = ids[-1] + 1

    def _require_nullable(self, column: ColumnSpec) -> None:
        if not column.is_nullable:
            raise ValueError(f"rows of {self.table.name} need {column.name!r}")


def _cast_of(table: TableSpec, column: ColumnSpec) -> Callable[[Any], Any]:
    """Return the conversion of a value to the one SQLite stores, which the digests cover."""
    convert = _CASTS[column.kind]
    is_text, place = convert is _text, f"{table.name}.{column.name}"

    def cast(value: Any) -> Any:
        if value is None and column.is_nullable:
            return None
        if value is None:
            raise ValueError(f"rows of {table.name} need {column.name!r}")
        if isinstance(value, str) is not is_text:
            raise ValueError(f"{place} cannot hold {value!r}")
        try:
            return convert(value)
        except (OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"{place} cannot hold {str(value)[:80]!r}: {error}") from error

    return cast


def _integer(value: Any) -> int:
    whole = int(value)
    if whole != value:
        raise ValueError("it is not an integer")
    if not -(2**63) <= whole < 2**63:
        raise OverflowError("it has more than 64 bits")
    return whole


def _boolean(value: Any) -> int:
    return int(bool(value))


def _real(value: Any) -> float:
    number = float(value)
    if isnan(number):
        raise ValueError("SQLite does not support NaN")
    return number


def _text(value: str) -> str:
    if value.isascii() and len(value) <= MAX_TEXT_BYTES:
        return str(value)
    # File names may contain invalid characters, which a report replaces.
    encoded = value.encode(errors="replace")
    if len(encoded) > MAX_TEXT_BYTES:
        raise ValueError(f"it is longer than {MAX_TEXT_BYTES:,} bytes")
    return encoded.decode()


_CASTS: dict[str, Callable[[Any], Any]] = {
    "boolean": _boolean,
    "bytes": bytes,
    "integer": _integer,
    "real": _real,
    "text": _text,
}
