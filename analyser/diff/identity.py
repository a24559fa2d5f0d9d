"""Whether two reports hold the same data: digests first, values only where those differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.summary.provenance import provenance
from tilescope.reports import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilescope.reports import Report
    from tilescope.reports.schema import TableSpec

__all__ = ["PLACES", "lasting_provenance", "unequal_data"]

#: Options that say where files go, not what a report holds.
PLACES = frozenset({"autoReport.directory", "enableEngineCaching", "cachePath"})

#: How data lies in the file, not data; and times of the wall clock, never compared.
_NOT_COMPARED = frozenset({"array", "array_chunk", "chunk", "row_block", "milestone", "wall_clock"})
#: Sums of what is compared, which reports before schema 7 lack.
_SUMS = frozenset(
    {
        "trace_total",
        *(f"total.{name}" for name in schema.TOTAL_COLUMNS),
        *(name for name, spec in schema.ARRAYS.items() if spec.sum_of is not None),
    }
)


def unequal_data(baseline: Report, candidate: Report) -> tuple[str, ...]:
    """Return the names of the tables and arrays that differ; none when the data is identical.

    Facts of the wall clock are left out, for they differ from run to run, and so is the option
    that says where the report was written.
    """
    compared = {*schema.TABLES, *schema.ARRAYS} - _NOT_COMPARED - _SUMS
    tables = [table for name, table in schema.TABLES.items() if name in compared]
    return tuple(
        [table.name for table in tables if not _equal_tables(baseline, candidate, table)]
        + [
            name
            for name in schema.ARRAYS
            if name in compared and not _equal_arrays(baseline, candidate, name)
        ]
    )


def _equal_tables(baseline: Report, candidate: Report, table: TableSpec) -> bool:
    """Return whether a table holds the same rows; provenance without facts of the wall clock."""
    if table.name == schema.provenance.name:
        return lasting_provenance(baseline) == lasting_provenance(candidate)
    if table.name == schema.engine_option.name:
        return _options(baseline) == _options(candidate)
    if baseline.schema_version != candidate.schema_version:
        return baseline.columns(table) == candidate.columns(table)  # digests cover more columns
    baseline_blocks, candidate_blocks = _blocks(baseline, table), _blocks(candidate, table)
    if [block[:-1] for block in baseline_blocks] == [block[:-1] for block in candidate_blocks]:
        return baseline_blocks == candidate_blocks  # blocks of the same rows: their digests decide
    return baseline.columns(table) == candidate.columns(table)


def _options(report: Report) -> list[tuple[object, ...]]:
    """Return the options in effect, without those that only say where the report goes."""
    rows = report.rows(schema.engine_option, "name", "value", "origin", "has_effect")
    return sorted(row for row in rows if row[0] not in PLACES)


def lasting_provenance(report: Report) -> dict[str, str]:
    """Return the facts that come neither from the wall clock nor from where files lie."""
    return {
        key: value
        for key, value in provenance(report).items()
        if not key.startswith("wall_") and key != "model_path"
    }


def _blocks(report: Report, table: TableSpec) -> list[tuple[object, ...]]:
    """Return the digests of a table's blocks of rows."""
    columns = ("table_name", "first_id", "last_id", "n_rows", "digest")
    rows = report.rows(schema.row_block, *columns)
    return [row for row in rows if row[0] == table.name]


def _equal_arrays(baseline: Report, candidate: Report, name: str) -> bool:
    """Return whether an array holds the same values."""
    baseline_array, candidate_array = baseline.array(name), candidate.array(name)
    if baseline_array.shape != candidate_array.shape:
        return False
    if baseline_array.is_cut_as(candidate_array):
        return baseline_array.has_chunks_of(candidate_array)
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
