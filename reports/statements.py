"""The SQL of a report: compiles SQLAlchemy Core statements to text for apsw."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import apsw
from sqlalchemy import LargeBinary, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql import ClauseElement

from tilescope.reports.schema import metadata

__all__ = [
    "compile_statement",
    "create_text",
    "digested_columns",
    "expected_objects",
    "insert_text",
    "normalise_sql",
    "primary_key",
]

_DIALECT = sqlite.dialect(paramstyle="named")


def compile_statement(statement: ClauseElement) -> tuple[str, Mapping[str, Any]]:
    """Return the text and the parameters of a statement, for SQLite."""
    compiled = statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return str(compiled), compiled.params


def normalise_sql(text: str) -> str:
    """Return a statement's text with runs of whitespace collapsed to one space."""
    return " ".join(text.split())


@cache
def create_text(table: Table) -> str:
    """Return the CREATE TABLE text of a table, on one line.

    Foreign keys are omitted: SQLite would not enforce them, and `check` verifies them.
    """
    statement = CreateTable(table, include_foreign_key_constraints=[])
    return normalise_sql(str(statement.compile(dialect=_DIALECT)))


@cache
def insert_text(table: Table) -> str:
    """Return an INSERT with one positional parameter per column, in column order."""
    marks = ", ".join("?" for _ in table.columns)
    return f'INSERT INTO "{table.name}" VALUES ({marks})'


@cache
def primary_key(table: Table) -> str:
    """Return the name of the table's primary key column."""
    (column,) = table.primary_key.columns
    return column.name


@cache
def digested_columns(table: Table) -> tuple[str, ...]:
    """Return the columns that a row's digest covers: all except packed bytes."""
    return tuple(
        column.name
        for column in table.columns
        if not (column.name == "data" and isinstance(column.type, LargeBinary))
    )


@cache
def expected_objects() -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return the objects of the schema: (type, name) to (table, normalised SQL or None)."""
    connection = apsw.Connection(":memory:")
    for table in metadata.sorted_tables:
        connection.execute(create_text(table))
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    connection.close()
    return {
        (str(kind), str(name)): (str(table_name), None if sql is None else normalise_sql(str(sql)))
        for kind, name, table_name, sql in rows
    }
