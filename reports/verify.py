"""Verifies the rows of a table against the digests of their blocks, once, on first access."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Column, Float, Integer, LargeBinary, Table, Text

from tilescope.reports.digests import digest_rows
from tilescope.reports.errors import DamagedReport
from tilescope.reports.guard import GuardedConnection
from tilescope.reports.schema import metadata
from tilescope.reports.statements import digested_columns, primary_key

__all__ = ["TableRows", "TableVerifier"]

_KINDS: dict[type, type] = {
    Boolean: int,
    Float: float,
    Integer: int,
    LargeBinary: bytes,
    Text: str,
}
#: Sealed by the chain itself, which is verified when a report is opened.
_SEALED = frozenset(("row_block", "milestone"))


@dataclass(frozen=True)
class TableRows:
    """The verified rows of a table: column names and values."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class TableVerifier:
    """Verifies tables of a report and remembers the results."""

    def __init__(
        self, connection: GuardedConnection, blocks: list[tuple[Any, ...]], path: Path
    ) -> None:
        self._connection = connection
        self._path = path
        self._blocks: dict[str, list[tuple[Any, ...]]] = {}
        for block in blocks:
            self._blocks.setdefault(block[1], []).append(block)
        self._verdicts: dict[str, str | None] = dict.fromkeys(_SEALED)

    def n_rows(self, name: str) -> int:
        """Return the number of rows that the digests of a table cover."""
        return sum(block[4] for block in self._blocks.get(name, []))

    def verify(self, name: str) -> None:
        """Verify a table, unless it was verified before.

        Raises
        ------
        DamagedReport
            Its rows do not match their digests, now or in an earlier check.
        """
        with self._connection.lock:
            if name not in self._verdicts:
                self.rows(name)
            verdict = self._verdicts[name]
        if verdict is not None:
            raise DamagedReport(verdict)

    def rows(self, name: str) -> TableRows:
        """Return all rows of a table, verified.

        Raises
        ------
        DamagedReport
            The rows do not match their digests.
        """
        table = metadata.tables[name]
        with self._connection.lock:
            verdict = self._verdicts.get(name)
            if verdict is not None:
                raise DamagedReport(verdict)
            try:
                rows = self._read(table)
                # The scan above reads rows in order; this check covers lookups by key. Chunks are
                # looked up by digest and verified against it.
                is_due = name not in self._verdicts and name != "chunk"
                if is_due and self._connection.integrity_problem(name) is not None:
                    raise self._damaged(name, "its tree or index does not match its rows")
            except DamagedReport as error:
                self._verdicts[name] = str(error)
                raise
            self._verdicts[name] = None
        return TableRows(digested_columns(table), rows)

    def _read(self, table: Table) -> list[tuple[Any, ...]]:
        name, key = table.name, primary_key(table)
        columns = [table.c[column] for column in digested_columns(table)]
        listed = ", ".join(f'"{column.name}"' for column in columns)
        if name in self._verdicts and self._verdicts[name] is None:
            return self._connection.rows(f'SELECT {listed} FROM "{name}" NOT INDEXED ORDER BY 1')
        rows: list[tuple[Any, ...]] = []
        last = None
        for _, _, first_id, last_id, n_rows, digest in self._blocks.get(name, []):
            if (last is not None and first_id <= last) or last_id < first_id:
                raise self._damaged(name, "blocks of its rows overlap")
            last = last_id
            block = self._connection.rows(
                f'SELECT {listed} FROM "{name}" NOT INDEXED'
                f' WHERE "{key}" BETWEEN ? AND ? ORDER BY "{key}"',
                (first_id, last_id),
            )
            if len(block) != n_rows or digest_rows(name, block) != digest:
                raise self._damaged(name, "its rows do not match their digest")
            self._check_kinds(name, columns, block)
            rows.extend(block)
        ((n_found,),) = self._connection.rows(f'SELECT count(*) FROM "{name}" NOT INDEXED')
        if n_found != len(rows):
            raise self._damaged(name, "it has rows that no digest covers")
        return rows

    def _check_kinds(
        self, name: str, columns: list[Column[Any]], rows: list[tuple[Any, ...]]
    ) -> None:
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            allowed: set[type] = {next(k for t, k in _KINDS.items() if isinstance(column.type, t))}
            if column.nullable:
                allowed.add(type(None))
            if not set(map(type, values)) <= allowed:
                raise self._damaged(name, f"column {column.name} holds values of another type")

    def _damaged(self, name: str, what: str) -> DamagedReport:
        return DamagedReport(f"Table {name} of {self._path} is damaged: {what}.")
