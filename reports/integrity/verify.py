"""Reads the tables of a report once, and verifies them against the digests of their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.digests import digest_columns, kinds_of
from tilescope.reports.integrity.guard import GuardedConnection
from tilescope.reports.schema import ColumnSpec, TableSpec

__all__ = ["VerifiedTables"]

#: Sealed by the chain itself, which is verified when a report is opened.
_SEALED = frozenset(("row_block", "milestone"))


class VerifiedTables:
    """The tables of a report as columns; a table is read and verified on first access."""

    def __init__(
        self, connection: GuardedConnection, blocks: list[tuple[Any, ...]], report_name: str
    ) -> None:
        self._connection = connection
        self._report_name = report_name
        self._blocks: dict[str, list[tuple[Any, ...]]] = {}
        for block in blocks:
            self._blocks.setdefault(block[1], []).append(block)
        self._columns: dict[str, tuple[Sequence[Any], ...]] = {}
        self._damage: dict[str, str] = {}

    @property
    def version(self) -> int:
        """Version of the schema that the file has."""
        return self._connection.version

    @property
    def kind(self) -> str:
        """The kind of reports whose own tables the file has; empty for none."""
        return self._connection.kind

    def n_rows(self, table: TableSpec) -> int:
        """Return the number of rows that the digests of a table cover."""
        return sum(block[4] for block in self._blocks.get(table.name, []))

    def rows(self, table: TableSpec, *names: str) -> list[tuple[Any, ...]]:
        """Return chosen columns of a table as rows; all digested columns without names.

        Raises
        ------
        DamagedReport
            As `columns`.
        ValueError
            The table has no column of that name, or its values are not covered by digests.
        """
        return list(zip(*self.columns(table, *names), strict=True))

    def columns(self, table: TableSpec, *names: str) -> tuple[Sequence[Any], ...]:
        """Return chosen columns of a table, in order of its primary key; all without names.

        Raises
        ------
        DamagedReport
            Its rows do not match their digests, now or at an earlier access.
        ValueError
            The table has no column of that name, or its values are not covered by digests.
        """
        unknown = [name for name in names if name not in table.place]
        if unknown:
            raise ValueError(f"table {table.name} has no column {unknown[0]!r} to read")
        columns = self._columns_of(table)
        return tuple(columns[table.place[name]] for name in names or table.place)

    def _columns_of(self, table: TableSpec) -> tuple[Sequence[Any], ...]:
        with self._connection.lock:
            if table.name in self._damage:
                raise DamagedReport(self._damage[table.name])
            if table.name not in self._columns:
                try:
                    columns = self._read(table)
                except DamagedReport as error:
                    self._damage[table.name] = str(error)
                    raise
                self._columns[table.name] = tuple(map(_as_kind, table.digested, columns))
            return self._columns[table.name]

    def _read(self, table: TableSpec) -> tuple[Sequence[Any], ...]:
        """Return a table's columns; those that the file's version lacks are null."""
        if not self._connection.has_table(table):
            return ((),) * len(table.digested)
        columns = self._read_stored(table.as_of(self._connection.version))
        missing = len(table.digested) - len(columns)
        return (*columns, *((None,) * len(columns[0]) for _ in range(missing)))

    def _read_stored(self, table: TableSpec) -> tuple[Sequence[Any], ...]:
        listed = ", ".join(f'"{column.name}"' for column in table.digested)
        # A scan of the rows themselves: no index decides which of them are seen.
        rows = self._connection.rows(
            f'SELECT {listed} FROM "{table.name}" NOT INDEXED ORDER BY "{table.primary_key}"'
        )
        columns = tuple(zip(*rows, strict=True)) if rows else ((),) * len(table.digested)
        for column, kinds, values in zip(table.digested, kinds_of(table), columns, strict=True):
            if not kinds.issuperset(map(type, values)):
                raise self._damaged(table, f"column {column.name} holds values of another type")
        if table.name not in _SEALED:
            self._verify(table, columns)
        return columns

    def _verify(self, table: TableSpec, columns: tuple[Sequence[Any], ...]) -> None:
        start, ids = 0, columns[0]
        for _, _, first_id, last_id, n_rows, digest in self._blocks.get(table.name, []):
            stop = start + n_rows
            block = [values[start:stop] for values in columns]
            if not 0 < n_rows == len(block[0]) or (ids[start], ids[stop - 1]) != (
                first_id,
                last_id,
            ):
                raise self._damaged(table, "its rows do not match their digest")
            if digest_columns(table, block) != digest:
                raise self._damaged(table, "its rows do not match their digest")
            start = stop
        if start != len(ids):
            raise self._damaged(table, "it has rows that no digest covers")

    def _damaged(self, table: TableSpec, problem: str) -> DamagedReport:
        return DamagedReport(f"Table {table.name} of {self._report_name} is damaged: {problem}.")


def _as_kind(column: ColumnSpec, values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a column as Python holds them: booleans are integers in SQLite."""
    if column.kind != "boolean":
        return values
    return tuple(value if value is None else bool(value) for value in values)
