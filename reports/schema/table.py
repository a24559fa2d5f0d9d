"""A table as readers, writers and the reference need it: its columns, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from tilescope.reports.schema.version import OLDEST_VERSION

__all__ = ["ColumnSpec", "Kind", "TableSpec"]

Kind = Literal["integer", "boolean", "real", "text", "bytes"]

_SQL_TYPES: dict[Kind, str] = {
    "integer": "INTEGER",
    "boolean": "BOOLEAN",
    "real": "FLOAT",
    "text": "TEXT",
    "bytes": "BLOB",
}
#: Names that are words of SQL.
_QUOTED = {"key", "plan"}


@dataclass(frozen=True)
class ColumnSpec:
    """A column.

    Parameters
    ----------
    name
        Name of the column.
    kind
        Kind of its values.
    comment
        Meaning and unit, in one line.
    is_nullable
        Whether a value may be missing.
    is_unique
        Whether no value occurs twice.
    refers_to
        The (table, column) that a value refers to.
    since
        Version of the schema that brought it; a report of before has null, so that a later column
        is the last of its table and nullable.
    """

    name: str
    kind: Kind
    comment: str
    is_nullable: bool = False
    is_unique: bool = False
    refers_to: tuple[str, str] | None = None
    since: int = OLDEST_VERSION

    @property
    def sql_type(self) -> str:
        """The type in the text that creates the table."""
        return _SQL_TYPES[self.kind]


@dataclass(frozen=True)
class TableSpec:
    """A table.

    Parameters
    ----------
    name
        Name of the table.
    comment
        What its rows are, in one line.
    columns
        Its columns; the first is the primary key.
    unique
        Columns that are unique together.
    since
        Version of the schema that brought it; a report of before has no rows.
    kind
        The only kind of reports that has it; empty for all. Others have no rows.
    """

    name: str
    comment: str
    columns: tuple[ColumnSpec, ...]
    unique: tuple[str, ...] = ()
    since: int = OLDEST_VERSION
    kind: str = ""

    def as_of(self, version: int) -> TableSpec:
        """Return the table as reports of a version of the schema have it."""
        if all(column.since <= version for column in self.columns):
            return self
        return replace(self, columns=tuple(c for c in self.columns if c.since <= version))

    @property
    def primary_key(self) -> str:
        """Name of the primary key, an integer that ascends."""
        return self.columns[0].name

    @cached_property
    def digested(self) -> tuple[ColumnSpec, ...]:
        """Columns that the digests of rows cover: all except packed bytes, which come last."""
        return tuple(
            column for column in self.columns if (column.name, column.kind) != ("data", "bytes")
        )

    @cached_property
    def place(self) -> dict[str, int]:
        """Position of every digested column by name."""
        return {column.name: number for number, column in enumerate(self.digested)}

    @cached_property
    def insert(self) -> str:
        """An INSERT with one positional parameter per column, in column order."""
        marks = ", ".join("?" for _ in self.columns)
        return f'INSERT INTO "{self.name}" VALUES ({marks})'

    @cached_property
    def create(self) -> str:
        """The CREATE TABLE that SQLite keeps, on one line.

        References are omitted: SQLite would not enforce them, and `check` verifies them.
        """
        parts = [
            f"{_sql_name(column.name)} {column.sql_type}{'' if column.is_nullable else ' NOT NULL'}"
            for column in self.columns
        ]
        parts.append(f"PRIMARY KEY ({_sql_name(self.primary_key)})")
        parts += [
            f"UNIQUE ({_sql_name(column.name)})" for column in self.columns if column.is_unique
        ]
        if self.unique:
            parts.append(f"UNIQUE ({', '.join(map(_sql_name, self.unique))})")
        return f"CREATE TABLE {_sql_name(self.name)} ( {', '.join(parts)} )"


def _sql_name(name: str) -> str:
    return f'"{name}"' if name in _QUOTED else name
