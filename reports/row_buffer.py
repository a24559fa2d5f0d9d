"""What the writer holds of one row table until the next commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, Table, Text

from reports.statements import primary_key

__all__ = ["MAX_TEXT_BYTES", "RowBuffer"]

#: No text is longer, so that readers can refuse longer ones unseen.
MAX_TEXT_BYTES = 1_000_000

_CASTS: dict[type, Callable[[Any], Any]] = {
    Boolean: int,
    Float: float,
    Integer: int,
    LargeBinary: bytes,
    Text: str,
}


class RowBuffer:
    """Rows of one table as SQLite will hold them, in order of their primary key."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: list[tuple[Any, ...]] = []
        self._names = [column.name for column in table.columns]
        self._casts = [_cast_of(column) for column in table.columns]
        self._key = primary_key(table)
        self._key_place = self._names.index(self._key)
        self._next_id = 0
        self._last_id: int | None = None

    def take(self) -> list[tuple[Any, ...]]:
        """Return the rows that wait and forget them."""
        rows, self.rows = self.rows, []
        return rows

    def add(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Take rows given as mappings from column name to value."""
        self._take([self._row(row) for row in rows])

    def add_columns(self, columns: Mapping[str, Sequence[Any] | np.ndarray | int | str]) -> None:
        """Take rows given as columns; a plain number or text stands for the same in every row."""
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
        long.setdefault(self._key, range(self._next_id, self._next_id + n_rows))
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
            row = {self._key: self._next_id, **row}
        if not set(row) <= set(self._names):
            unknown = min(set(row) - set(self._names))
            raise ValueError(f"table {self.table.name} has no column {unknown!r}")
        self._next_id = int(row[self._key]) + 1  # type: ignore[call-overload]
        return tuple(
            cast(row.get(name)) for name, cast in zip(self._names, self._casts, strict=True)
        )

    def _take(self, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        place = self._key_place
        rows.sort(key=lambda row: row[place])  # no cost when sorted already
        ids = [row[place] for row in rows]
        is_late = self._last_id is not None and ids[0] <= self._last_id
        if is_late or any(a == b for a, b in pairwise(ids)):
            raise ValueError(f"rows of {self.table.name} must come in order of {self._key}")
        self.rows.extend(rows)
        self._last_id = ids[-1]
        self._next_id = ids[-1] + 1

    def _require_nullable(self, column: Column[Any]) -> None:
        if not column.nullable:
            raise ValueError(f"rows of {self.table.name} need {column.name!r}")


def _cast_of(column: Column[Any]) -> Callable[[Any], Any]:
    """Return what turns a value into the one SQLite stores, so that digests agree with it."""
    kind = next(cast for type_, cast in _CASTS.items() if isinstance(column.type, type_))

    def cast(value: Any) -> Any:
        if value is None:
            if column.nullable:
                return None
            raise ValueError(f"rows of {column.table.name} need {column.name!r}")
        if isinstance(value, str) is not (kind is str):
            raise ValueError(f"{column.table.name}.{column.name} cannot hold {value!r}")
        if kind is str and len(value) > MAX_TEXT_BYTES // 4 and _is_too_long(value):
            raise ValueError(f"{column.table.name}.{column.name} is longer than {MAX_TEXT_BYTES}")
        return kind(value)

    return cast


def _is_too_long(text: str) -> bool:
    return len(text.encode()) > MAX_TEXT_BYTES
