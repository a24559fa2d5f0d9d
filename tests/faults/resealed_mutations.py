"""Random changes to the decoded content of a report, sealed anew so that all digests match."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from tests.faults.seal import reseal, stored_tables

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.chunks import (
    PackedChunk,
    digest_values,
    pack,
    saturated_sum,
    unpack,
)
from tilescope.reports.schema import ARRAYS, TABLES, ColumnSpec, TableSpec

__all__ = ["array_values", "change", "write_array"]

_INTEGERS = (0, 1, -1, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 10**6, 1000)
_REALS = (0.0, -1.0, 1e308, 5e-324, float("inf"), -float("inf"), 1.5)
_TEXTS = (
    "", "x" * 1_000_000, "a/" * 2_000, "[" * 5_000, '{"a": [1, {"b": null}]}', "[-1]", "[1e999]",
    "null", "NaN", "\x1b[31m\u202e\u2028", "OnTileExecute", "Sequence", "Call", "Repeat", "float8",
    "[9007199254740993]", '{"detail": 1}', "[[]]", "[]", "{}", "\x00", "0", "//", "é" * 3_000,
)  # fmt: skip
_CHAIN = ("row_block", "milestone", "array", "array_chunk", "chunk")
_STORAGE = [TABLES["array"], TABLES["array_chunk"]]


def change(path: Path, generator: random.Random) -> str:
    """Change a report in place; return what was done."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute("PRAGMA synchronous=OFF; BEGIN").fetchall()
        finished = []
        for _ in range(generator.choice([1, 1, 1, 2, 3])):
            mutate = generator.choice(_MUTATIONS)
            try:
                finished.append(mutate(connection, generator))
            except (apsw.ConstraintError, DamagedReport) as error:
                finished.append(f"not possible: {error}")
        reseal(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()
    return "; ".join(finished)


def _rows(connection: apsw.Connection, table: TableSpec) -> list[tuple[Any, ...]]:
    return connection.execute(f'SELECT * FROM "{table.name}" ORDER BY 1').fetchall()


def _pick(
    connection: apsw.Connection, generator: random.Random
) -> tuple[TableSpec, list[tuple[Any, ...]]]:
    """Return a table that has rows, and its rows."""
    while True:
        content = [table for table in stored_tables(connection) if table.name not in _CHAIN]
        table = generator.choice(content if generator.random() < 0.9 else _STORAGE)
        rows = _rows(connection, table)
        if rows:
            return table, rows


def _value(column: ColumnSpec, values: Sequence[Any], old: Any, generator: random.Random) -> Any:
    if column.is_nullable and generator.random() < 0.15:
        return None
    if generator.random() < 0.25:
        return generator.choice(values)
    if column.kind == "integer":
        near = [] if old is None else [old + 1, old - 1, -old, len(values)]
        return max(min(generator.choice([*_INTEGERS, *near]), 2**63 - 1), -(2**63))
    if column.kind == "boolean":
        return generator.choice([0, 1, 2, -1])
    if column.kind == "real":
        return generator.choice(_REALS)
    if column.kind == "text":
        return generator.choice(_TEXTS)
    return generator.randbytes(16)


def _cell(connection: apsw.Connection, generator: random.Random) -> str:
    table, rows = _pick(connection, generator)
    position = generator.randrange(len(table.columns))
    column = table.columns[position]
    row = generator.choice(rows)
    value = _value(column, [peer[position] for peer in rows], row[position], generator)
    where = "" if generator.random() < 0.15 else f' WHERE "{table.primary_key}" = {row[0]}'
    connection.execute(f'UPDATE "{table.name}" SET "{column.name}" = ?{where}', (value,))
    which = "of all rows" if not where else f"of row {row[0]}"
    return f"{table.name}.{column.name} {which} set to {str(value)[:40]!r}"


def _swap_cells(connection: apsw.Connection, generator: random.Random) -> str:
    table, rows = _pick(connection, generator)
    column = generator.choice(table.columns[1:]).name
    first, second = (generator.choice(rows)[0] for _ in range(2))
    text = f'SELECT "{column}" FROM "{table.name}" WHERE "{table.primary_key}" = ?'
    values = [connection.execute(text, (key,)).fetchall()[0][0] for key in (first, second)]
    for key, value in ((first, values[1]), (second, values[0])):
        connection.execute(
            f'UPDATE "{table.name}" SET "{column}" = ? WHERE "{table.primary_key}" = ?',
            (value, key),
        )
    return f"{table.name}.{column} of rows {first} and {second} swapped"


def _remove_rows(connection: apsw.Connection, generator: random.Random) -> str:
    table, rows = _pick(connection, generator)
    if generator.random() < 0.2:
        connection.execute(f'DELETE FROM "{table.name}"')
        return f"all rows of {table.name} removed"
    key = generator.choice([rows[0][0], rows[-1][0], generator.choice(rows)[0]])
    connection.execute(f'DELETE FROM "{table.name}" WHERE "{table.primary_key}" = ?', (key,))
    return f"row {key} of {table.name} removed"


def _duplicate_row(connection: apsw.Connection, generator: random.Random) -> str:
    table, rows = _pick(connection, generator)
    row = generator.choice(rows)
    key = generator.choice([rows[-1][0] + 1, rows[-1][0] + 100, 2**62, -5])
    values = [key, *row[1:]]
    for index, column in enumerate(table.columns):
        if column.kind == "text" and f"UNIQUE ({column.name})" in table.create:
            values[index] = f"{values[index]}x"
    connection.execute(table.insert, values)
    return f"row {row[0]} of {table.name} duplicated as {key}"


def array_values(connection: apsw.Connection, name: str) -> tuple[int, np.ndarray] | None:
    """Return the identity and the values of an array; None if the report lacks it."""
    rows: list[Any] = connection.execute(
        "SELECT array_id, n_columns FROM array WHERE name = ?", (name,)
    ).fetchall()
    if not rows:
        return None
    array_id, n_columns = rows[0]
    spec = ARRAYS[name]
    chunks: list[Any] = connection.execute(
        "SELECT row_start, n_rows, column_start, c.n_columns, c.digest, codec, raw_bytes, data"
        " FROM array_chunk c JOIN chunk ON chunk.digest = c.digest WHERE array_id = ?",
        (array_id,),
    ).fetchall()
    if not chunks:
        return None
    values = np.zeros((max(chunk[0] + chunk[1] for chunk in chunks), n_columns), spec.dtype)
    for row, n_rows, column, width, *stored in chunks:
        part = unpack(PackedChunk(*stored), spec.dtype, (n_rows, width), name)
        values[row : row + n_rows, column : column + width] = part
    return array_id, values


def write_array(connection: apsw.Connection, array_id: int, name: str, values: np.ndarray) -> None:
    spec = ARRAYS[name]
    connection.execute("DELETE FROM array_chunk WHERE array_id = ?", (array_id,))
    free = 1 << 40
    for row in range(0, len(values), spec.chunk_rows):
        for column in range(0, values.shape[1], spec.chunk_columns):
            part = np.ascontiguousarray(
                values[row : row + spec.chunk_rows, column : column + spec.chunk_columns]
            )
            chunk = pack(part, digest_values(part))
            connection.execute(
                "INSERT OR IGNORE INTO chunk VALUES"
                " ((SELECT max(chunk_id) + 1 FROM chunk), ?, ?, ?, ?)",
                (chunk.digest, chunk.codec, chunk.raw_bytes, chunk.data),
            )
            free += 1
            connection.execute(
                TABLES["array_chunk"].insert,
                (free, array_id, row, len(part), column, part.shape[1], chunk.digest,
                 int(part.min()), int(part.max()), saturated_sum(part), None),
            )  # fmt: skip
    connection.execute("DELETE FROM chunk WHERE digest NOT IN (SELECT digest FROM array_chunk)")
    # Chunks of an array stand in the order of their identities.
    listed = connection.execute(
        "SELECT * FROM array_chunk ORDER BY array_id, row_start, column_start"
    ).fetchall()
    connection.execute("DELETE FROM array_chunk")
    connection.executemany(
        TABLES["array_chunk"].insert, [(i, *row[1:]) for i, row in enumerate(listed)]
    )


def _array(connection: apsw.Connection, generator: random.Random) -> str:
    stored = None
    while stored is None:
        name = generator.choice(list(ARRAYS))
        stored = array_values(connection, name)
    array_id, values = stored
    how, changed = _changed(values, generator)
    write_array(connection, array_id, name, changed)
    return f"{name} {how}"


def _changed(values: np.ndarray, generator: random.Random) -> tuple[str, np.ndarray]:
    """Return other values, and how they differ."""
    values = values.copy()
    n_rows = len(values)
    limits = np.iinfo(values.dtype)
    kind = generator.randrange(9)
    if kind == 0:
        n_kept = generator.randrange(n_rows)
        return f"truncated to {n_kept} rows", values[:n_kept]
    if kind == 1:
        n_added = generator.choice([1, 2, n_rows])
        return f"extended by {n_added} rows", np.concatenate([values, values[:n_added]])
    if kind == 2:
        return "emptied", values[:0]
    if kind == 3:
        order = np.random.default_rng(generator.randrange(2**32)).permutation(n_rows)
        return "permuted", values[order]
    if kind == 4:
        value = generator.choice([0, -1, limits.max, limits.min])
        values[:] = value
        return f"filled with {value}", values
    row, column = generator.randrange(n_rows), generator.randrange(values.shape[1])
    old = int(values[row, column])
    value = generator.choice(
        [old + 1, old - 1, -old, n_rows, -1, 0, limits.max, limits.min, 2**30, 2**20]
    )
    values[row, column] = min(max(value, int(limits.min)), int(limits.max))
    return f"row {row}, column {column} set to {values[row, column]}", values


_MUTATIONS: tuple[Callable[[apsw.Connection, random.Random], str], ...] = (
    _cell, _cell, _cell, _array, _array, _swap_cells, _remove_rows, _duplicate_row,
)  # fmt: skip
