"""Whether two reports hold the same data: digests first, values only where those differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import Select, select

from tilescope.reports import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Table

    from tilescope.reports import Report

__all__ = ["PLACES", "unequal_data"]

#: Options that say where files go, not what a report holds.
PLACES = frozenset({"autoReport.directory", "enableEngineCaching", "cachePath"})

#: How data lies in the file, not data; and times of the wall clock, never compared.
_NOT_COMPARED = frozenset({"array", "array_chunk", "chunk", "row_block", "milestone", "wall_clock"})


def unequal_data(baseline: Report, candidate: Report) -> tuple[str, ...]:
    """Return the names of the tables and arrays that differ; none when the data is identical.

    Facts of the wall clock are left out, for they differ from run to run, and so is the option
    that says where the report was written.
    """
    tables = [table for name, table in schema.metadata.tables.items() if name not in _NOT_COMPARED]
    return tuple(
        [table.name for table in tables if not _equal_tables(baseline, candidate, table)]
        + [name for name in schema.ARRAYS if not _equal_arrays(baseline, candidate, name)]
    )


def _equal_tables(baseline: Report, candidate: Report, table: Table) -> bool:
    """Return whether a table holds the same rows; provenance without facts of the wall clock."""
    if table.name == schema.provenance.name:
        return _provenance(baseline) == _provenance(candidate)
    if table.name == schema.engine_option.name:
        return _options(baseline) == _options(candidate)
    baseline_blocks, candidate_blocks = _blocks(baseline, table), _blocks(candidate, table)
    if [block[:-1] for block in baseline_blocks] == [block[:-1] for block in candidate_blocks]:
        return baseline_blocks == candidate_blocks  # blocks of the same rows: their digests decide
    statement = select(*table.columns).order_by(*table.primary_key.columns)
    return baseline.fetch(statement) == candidate.fetch(statement)


def _options(report: Report) -> list[tuple[object, ...]]:
    """Return the options in effect, without those that only say where the report goes."""
    table = schema.engine_option
    columns = (table.c.name, table.c.value, table.c.origin, table.c.has_effect)
    rows = report.fetch(select(*columns).order_by(table.c.name))
    return [row for row in rows if row[0] not in PLACES]


def _provenance(report: Report) -> dict[str, str]:
    """Return the facts that do not come from the wall clock."""
    table = schema.provenance
    rows = report.fetch(select(table.c.key, table.c.value))
    return {key: value for key, value in rows if not key.startswith("wall_")}


def _blocks(report: Report, table: Table) -> list[tuple[object, ...]]:
    """Return the digests of a table's blocks of rows."""
    blocks = schema.row_block
    statement: Select[tuple[object, ...]] = (
        select(blocks.c.first_id, blocks.c.last_id, blocks.c.n_rows, blocks.c.digest)
        .where(blocks.c.table_name == table.name)
        .order_by(blocks.c.row_block_id)
    )
    return list(report.fetch(statement))


def _chunks(report: Report, name: str) -> list[tuple[object, ...]]:
    """Return the digests of an array's chunks and where they lie."""
    parts, arrays = schema.array_chunk, schema.array
    statement: Select[tuple[object, ...]] = (
        select(
            parts.c.row_start,
            parts.c.n_rows,
            parts.c.column_start,
            parts.c.n_columns,
            parts.c.digest,
        )
        .select_from(parts.join(arrays, parts.c.array_id == arrays.c.array_id))
        .where(arrays.c.name == name)
        .order_by(parts.c.row_start, parts.c.column_start)
    )
    return list(report.fetch(statement))


def _equal_arrays(baseline: Report, candidate: Report, name: str) -> bool:
    """Return whether an array holds the same values."""
    baseline_array, candidate_array = baseline.array(name), candidate.array(name)
    if baseline_array.shape != candidate_array.shape:
        return False
    if _chunks(baseline, name) == _chunks(candidate, name):
        return True
    n_columns = baseline_array.shape[1] if len(baseline_array.shape) > 1 else 1
    return all(
        np.array_equal(baseline_array.read(start, stop), candidate_array.read(start, stop))
        for start, stop in _parts(baseline_array.shape[0], n_columns)
    )


def _parts(n_rows: int, n_columns: int) -> Iterator[tuple[int, int]]:
    """Return ranges of rows of some million values."""
    size = max(1, (1 << 22) // max(n_columns, 1))
    for start in range(0, n_rows, size):
        yield start, min(start + size, n_rows)
