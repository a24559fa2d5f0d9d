"""A table as readers and writers need it: columns, their kinds, and the text that creates it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

__all__ = ["ColumnSpec", "Kind", "TableSpec"]

Kind = Literal["integer", "boolean", "real", "text", "bytes"]


@dataclass(frozen=True)
class ColumnSpec:
    """A column: name, kind of its values, and the (table, column) that it refers to."""

    name: str
    kind: Kind
    is_nullable: bool = False
    refers_to: tuple[str, str] | None = None


@dataclass(frozen=True)
class TableSpec:
    """A table; its first column is its primary key. ``create`` is the text that SQLite keeps."""

    name: str
    columns: tuple[ColumnSpec, ...]
    create: str

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
