"""Checks the values of tables and arrays against the constraints of the schema, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilescope.reports.errors import DamagedReport
from tilescope.reports.schema import ARRAYS, TABLES, ColumnSpec, TableSpec, target
from tilescope.reports.schema.constraint import (
    ARRAY_ROWS,
    ASCENDING_ARRAYS,
    COLUMN_CODES,
    COLUMN_COUNTS,
    COUNTED_ARRAYS,
    FIXED_COUNTS,
    MAX_INTEGER,
    MAX_IPUS,
    MAX_TILES_PER_IPU,
    MAX_TOTAL,
    MAXIMA,
    MINIMA,
    PARENT_COLUMNS,
    UNCONSTRAINED_TABLES,
    Count,
)

if TYPE_CHECKING:
    from tilescope.reports.integrity.layout import ArrayLayout
    from tilescope.reports.integrity.verify import VerifiedTables

__all__ = ["Constraints", "chunk_problem"]

#: Returns the number of rows of a table or array, or of tiles or IPUs.
Counts = Callable[[str], int]
_MAX_REAL = 1e18
#: Endings of the names of what is summed.
_QUANTITIES = ("bytes", "cycles", "flops", "pattern")
_MAX_TARGET = {"n_ipus": MAX_IPUS, "tiles_per_ipu": MAX_TILES_PER_IPU}
#: Tables whose rows are numbered from 0 without gaps: what others refer to.
_NUMBERED = {
    "memory_category",
    *(spec.refers_to for spec in ARRAYS.values() if spec.refers_to),
    *(
        column.refers_to[0]
        for table in TABLES.values()
        for column in table.columns
        if column.refers_to
    ),
}
#: Plain arrays by group: columns of one length.
_GROUPS: dict[str, list[str]] = {}
for _name, _spec in ARRAYS.items():
    if _spec.columns == "one" and _name not in ARRAY_ROWS:
        _GROUPS.setdefault(_name.partition(".")[0], []).append(_name)


class Constraints:
    """The constraints of an open report; a table or an array is checked once.

    Parameters
    ----------
    tables
        Its tables.
    layout
        Returns the layout of an array by name.
    report_name
        Its name in errors.
    """

    def __init__(
        self, tables: VerifiedTables, layout: Callable[[str], ArrayLayout], report_name: str
    ) -> None:
        self._tables = tables
        self._layout = layout
        self._report_name = report_name
        self._problems: dict[str, str | None] = {}

    def check_table(self, table: TableSpec) -> None:
        """Check the values of a table.

        Raises
        ------
        DamagedReport
            They violate a constraint.
        """
        if not self._applies():
            return
        if table.name not in self._problems:
            columns = self._tables.columns(table)
            self._problems[table.name] = _table_problem(table, columns, self._count)
        self._raise("Table", table.name)

    def check_array(self, layout: ArrayLayout) -> None:
        """Check the summaries of an array's chunks.

        Raises
        ------
        DamagedReport
            They violate a constraint.
        """
        name = layout.spec.name
        if not self._applies():
            return
        if name not in self._problems:
            self._problems[name] = _array_problem(layout, self._count)
        self._raise("Array", name)

    def _applies(self) -> bool:
        """Return whether the report has a machine, or tables of its own kind."""
        return bool(self._tables.kind) or bool(self._tables.n_rows(target))

    def _raise(self, kind: str, name: str) -> None:
        problem = self._problems[name]
        if problem is not None:
            raise DamagedReport(f"{kind} {name} of {self._report_name} is damaged: {problem}.")

    def _count(self, name: str) -> int:
        """Return the number of rows of a table or array, or of tiles or IPUs."""
        if name in TABLES:
            return self._tables.n_rows(TABLES[name])
        if name in ARRAYS:
            return self._layout(name).n_rows
        self.check_table(target)
        machines = self._tables.rows(target, "n_ipus", "tiles_per_ipu")
        n_ipus, tiles_per_ipu = machines[0] if machines else (0, 0)
        counts = {"ipus": n_ipus, "tiles": n_ipus * tiles_per_ipu}
        return int(counts[name])


def _table_problem(
    table: TableSpec, columns: Sequence[Sequence[Any]], counts: Counts
) -> str | None:
    """Return the first violated constraint of a table, as the end of a sentence, or None.

    Parameters
    ----------
    table
        The table.
    columns
        Its digested columns, whose types are right.
    counts
        Number of things by name.
    """
    if table.name in UNCONSTRAINED_TABLES or not columns[0]:
        return None
    return next(_violations(table, columns, counts), None)


def _violations(
    table: TableSpec, columns: Sequence[Sequence[Any]], counts: Counts
) -> Iterator[str]:
    ids = columns[0]
    if table.name == "target":
        if len(ids) > 1:
            yield "it has several rows"
    elif table.name in _NUMBERED and (ids[0] != 0 or ids[-1] != len(ids) - 1):
        yield "its rows are not numbered from 0"
    for column, values in zip(table.digested[1:], columns[1:], strict=True):
        if column.is_nullable and None in values:
            present = [value for value in values if value is not None]
            yield from _column_problems(table, column, present, counts)
        else:
            yield from _column_problems(table, column, values, counts)
        if (table.name, column.name) in PARENT_COLUMNS and any(
            value is not None and value >= row for row, value in enumerate(values)
        ):
            yield f"a {column.name} does not name an earlier row"
    if table.name == "run_trace":
        yield from _run_trace_problems(table, columns, counts)


def _column_problems(
    table: TableSpec,
    column: ColumnSpec,
    values: Sequence[Any],
    counts: Counts,
) -> Iterator[str]:
    """Yield the violated constraints of values that are not null."""
    key = (table.name, column.name)
    if not values:
        return
    if column.kind == "text":
        codes = COLUMN_CODES.get(key)
        unknown = set(values).difference(codes) if codes is not None else None
        if unknown:
            yield f"{min(unknown)[:40]!r} is not a {column.name}"
        return
    if column.kind == "bytes":
        return
    limit = _limit(table, column, counts)
    minimum, maximum = min(values), max(values)
    if minimum < MINIMA.get(key, 0) or maximum > limit:
        extreme = maximum if maximum > limit else minimum
        yield f"{column.name} {extreme} is not between {MINIMA.get(key, 0)} and {limit}"
    is_large = _is_summed(column.name) and maximum * len(values) > MAX_TOTAL
    if is_large and sum(values) > MAX_TOTAL:
        yield f"the sum of {column.name} is too large"


def _is_summed(name: str) -> bool:
    """Return whether a column or array holds quantities, not times, places or identities."""
    return name.endswith(_QUANTITIES) or name.rpartition(".")[2].startswith("n_")


def _limit(table: TableSpec, column: ColumnSpec, counts: Counts) -> int | float:
    """Return the largest permitted value of a column."""
    count = COLUMN_COUNTS.get((table.name, column.name))
    if count is not None:
        return _number(count, counts) - 1
    if column.refers_to is not None:
        return counts(column.refers_to[0]) - 1
    if (table.name, column.name) in MAXIMA:
        return MAXIMA[table.name, column.name]
    if table.name == "target":
        return _MAX_TARGET.get(column.name, MAX_INTEGER)
    return {"boolean": 1, "real": _MAX_REAL}.get(column.kind, MAX_INTEGER)


def _run_trace_problems(
    table: TableSpec, columns: Sequence[Sequence[Any]], counts: Counts
) -> Iterator[str]:
    """Yield a problem unless the ranges of runs adjoin within the trace, or repeat earlier ones."""
    firsts, numbers, shifts = (
        columns[table.place[name]] for name in ("first_entry", "n_entries", "shift_cycles")
    )
    end = 0
    stored: set[tuple[int, int]] = set()
    for first, number, shift in zip(firsts, numbers, shifts, strict=True):
        if shift is not None and (first, number) in stored:
            continue
        if shift is not None or first != end:
            yield "the trace entries of its rows do not adjoin"
            return
        stored.add((first, number))
        end += number
    if end > counts("trace.step_id"):
        yield f"it has {end} trace entries, and the trace {counts('trace.step_id')}"
    for start, stop in zip(
        *(columns[table.place[name]] for name in ("start_cycle", "end_cycle")), strict=True
    ):
        if stop < start:
            yield f"a run ends at cycle {stop} and starts at {start}"


def _number(count: Count, counts: Counts) -> int:
    fixed = FIXED_COUNTS.get(count.name)
    return (counts(count.name) if fixed is None else fixed) + count.more


def _length_problem(name: str, counts: Counts) -> str | None:
    """Return that the plain arrays of a group have different lengths, or None.

    An array without rows was not written; `tilescope.reports.check` reports it beside others.
    """
    group = name.partition(".")[0]
    for sibling in _GROUPS.get(group, ()) if name in _GROUPS.get(group, ()) else ():
        if counts(sibling) and counts(name) and counts(sibling) != counts(name):
            return f"it has {counts(name)} rows, and {sibling} has {counts(sibling)}"
    return None


def _array_problem(layout: ArrayLayout, counts: Counts) -> str | None:
    """Return the first violated constraint of an array, as the end of a sentence, or None.

    Parameters
    ----------
    layout
        Its layout, with the summaries of its chunks.
    counts
        Number of things by name.
    """
    name, n_rows = layout.spec.name, layout.n_rows
    problem = _length_problem(name, counts)
    if problem is not None or not n_rows or not layout.n_columns:
        return problem
    minimum, maximum, total = layout.minimum, layout.maximum, layout.total
    rows = ARRAY_ROWS.get(name)
    if rows is not None and n_rows != _number(rows, counts):
        return f"it has {n_rows} rows, and should have {_number(rows, counts)}"
    count, refers_to = COUNTED_ARRAYS.get(name), layout.spec.refers_to
    if refers_to is not None:
        count = Count(refers_to)
    if count is not None and count.is_optional and not counts(count.name):
        count = None
    limit = MAX_INTEGER if count is None else _number(count, counts) - 1
    lowest, highest = int(minimum.min()), int(maximum.max())
    if lowest < 0 or highest > limit:
        return f"its value {lowest if lowest < 0 else highest} is not between 0 and {limit}"
    if _is_summed(name) and float(total.sum(dtype=np.float64)) > MAX_TOTAL:
        return "its sum is too large"
    if name in ASCENDING_ARRAYS and (maximum[:-1] > minimum[1:]).any():
        return "its values do not ascend"
    if name == "lowered.tile_start" and (lowest, highest) != (0, limit):
        return f"it does not cover the rows from 0 to {limit}"
    return None


def chunk_problem(name: str, values: np.ndarray, summary: tuple[int, int, int]) -> str | None:
    """Return how a chunk differs from its summary or its constraints, or None.

    Parameters
    ----------
    name
        Name of the array.
    values : ndarray of integers, shape (n_rows, n_columns)
        The chunk.
    summary
        Its minimum, maximum and sum.
    """
    minimum, maximum, total = summary
    if values.min() != minimum or values.max() != maximum:
        return "does not match its summary"
    is_exact = max(abs(int(minimum)), abs(int(maximum))) * values.size < MAX_TOTAL
    if is_exact and values.sum(dtype=np.int64) != total:
        return "does not match its summary"
    if name in ASCENDING_ARRAYS and (values[1:] < values[:-1]).any():
        return "does not ascend"
    return None
