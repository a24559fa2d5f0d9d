"""The writer's buffer for one table, until the next commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from math import isnan
from operator import lt
from typing import Any, NamedTuple

import numpy as np

from tilescope.reports.schema import ColumnSpec, TableSpec
from tilescope.reports.writing.template import TableState

__all__ = ["MAX_TEXT_BYTES", "RowBuffer", "RowMark"]

#: Maximum length of a text; readers reject longer ones without reading them.
MAX_TEXT_BYTES = 1_000_000


class RowMark(NamedTuple):
    """A state of a buffer, to which it can be reset."""

    n_rows: int
    next_id: int
    last_id: int | None

    def without(self, n_rows: int) -> RowMark:
        """Return the same state of a buffer whose first rows were dropped."""
        return self._replace(n_rows=self.n_rows - n_rows)


class RowBuffer:
    """Rows of one table as SQLite will hold them, in order of their primary key.

    ``rows`` are those without a lasting seal; SQLite holds the first ``n_stored`` of them.
    """

    def __init__(self, table: TableSpec) -> None:
        self.table = table
        self.rows: list[tuple[Any, ...]] = []
        self.n_stored = 0
        self.names = [column.name for column in table.columns]
        self._key = table.primary_key
        self._key_place = self.names.index(self._key)
        self.next_id = 0
        self._last_id: int | None = None

    def state(self) -> TableState:
        """Return where the numbers of its rows go on."""
        return TableState(self.next_id, self._last_id)

    @classmethod
    def resumed(cls, table: TableSpec, state: TableState) -> RowBuffer:
        """Return the buffer of a table that goes on, with no rows to store."""
        buffer = cls(table)
        buffer.next_id, buffer._last_id = state.next_id, state.last_id
        return buffer

    def drop(self, n_rows: int) -> None:
        """Drop the first rows, which are sealed."""
        del self.rows[:n_rows]
        self.n_stored -= n_rows

    def mark(self) -> RowMark:
        """Return the present state."""
        return RowMark(len(self.rows), self.next_id, self._last_id)

    def reset(self, mark: RowMark) -> None:
        """Forget all rows since a state."""
        del self.rows[mark.n_rows :]
        self.n_stored = min(self.n_stored, mark.n_rows)
        self.next_id, self._last_id = mark.next_id, mark.last_id

    def add(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows given as mappings from column name to value."""
        added = list(rows)
        self._check_names(set(chain.from_iterable(added)))
        columns = {name: [row.get(name) for row in added] for name in self.names}
        columns[self._key] = self._numbered(added)
        self._take(
            [_cast_all(self.table, column, columns[column.name]) for column in self.table.columns]
        )

    def add_columns(
        self, columns: Mapping[str, Sequence[Any] | np.ndarray | int | str | None]
    ) -> None:
        """Add rows given as columns; a scalar number or string applies to every row."""
        self._check_names(set(columns))
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
        for column in self.table.columns:
            values = long.get(column.name)
            if values is None:
                self._require_nullable(column)
                parts.append(repeat(None, n_rows))
            elif isinstance(values, list | tuple | range):
                parts.append(_cast_all(self.table, column, values))
            else:
                parts.append(repeat(_cast(self.table, column, values), n_rows))
        self._take(parts)

    def _check_names(self, names: set[str]) -> None:
        unknown = names.difference(self.names)
        if unknown:
            raise ValueError(f"table {self.table.name} has no column {min(unknown)!r}")

    def _numbered(self, rows: Sequence[Mapping[str, object]]) -> list[Any]:
        """Return the identities of rows; those without one follow the row before."""
        ids: list[Any] = []
        for row in rows:
            number: Any = row.get(self._key, self.next_id)
            ids.append(number)
            self.next_id = int(number) + 1
        return ids

    def _take(self, columns: Sequence[Iterable[Any]]) -> None:
        rows = list(zip(*columns, strict=False))
        if not rows:
            return
        key_column = self._key_place
        ids = [row[key_column] for row in rows]
        if not all(map(lt, ids, ids[1:])):
            rows.sort(key=lambda row: row[key_column])
            ids.sort()
        is_late = self._last_id is not None and ids[0] <= self._last_id
        if is_late or not all(map(lt, ids, ids[1:])):
            raise ValueError(f"rows of {self.table.name} must be in ascending order of {self._key}")
        self.rows.extend(rows)
        self._last_id = ids[-1]
        self.next_id = ids[-1] + 1

    def _require_nullable(self, column: ColumnSpec) -> None:
        if not column.is_nullable:
            raise ValueError(f"rows of {self.table.name} need {column.name!r}")


def _cast_all(table: TableSpec, column: ColumnSpec, values: Sequence[Any]) -> Sequence[Any]:
    """Return values as SQLite stores them; those of a column are mostly that already."""
    kinds = set(map(type, values))
    present = values
    if column.is_nullable and type(None) in kinds:
        kinds.discard(type(None))
        present = [value for value in values if value is not None]
    kind, are_stored = _STORED[column.kind]
    if not kinds or (kinds == {kind} and are_stored(present)):
        return values
    return [_cast(table, column, value) for value in values]


def _cast(table: TableSpec, column: ColumnSpec, value: Any) -> Any:
    """Return a value as SQLite stores it, which the digests cover."""
    column_name = f"{table.name}.{column.name}"
    if value is None and column.is_nullable:
        return None
    if value is None:
        raise ValueError(f"rows of {table.name} need {column.name!r}")
    if isinstance(value, str) is not (column.kind == "text"):
        raise ValueError(f"{column_name} cannot hold {value!r}")
    try:
        return _CASTS[column.kind](value)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{column_name} cannot hold {str(value)[:80]!r}: {error}") from error


def _integer(value: Any) -> int:
    integer = int(value)
    if integer != value:
        raise ValueError("it is not an integer")
    if not -(2**63) <= integer < 2**63:
        raise OverflowError("it has more than 64 bits")
    return integer


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


def _are_whole(values: Sequence[int]) -> bool:
    return min(values) >= -(2**63) and max(values) < 2**63


def _are_numbers(values: Sequence[float]) -> bool:
    return not any(map(isnan, values))


def _are_short(values: Sequence[str]) -> bool:
    return all(map(str.isascii, values)) and max(map(len, values)) <= MAX_TEXT_BYTES


#: The type of values that mostly need no conversion, and whether they do not.
_STORED: dict[str, tuple[type, Callable[[Sequence[Any]], bool]]] = {
    "boolean": (bool, lambda _: True),
    "bytes": (bytes, lambda _: True),
    "integer": (int, _are_whole),
    "real": (float, _are_numbers),
    "text": (str, _are_short),
}
