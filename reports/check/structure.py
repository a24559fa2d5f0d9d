"""Checks that the file matches its digests and that its references resolve."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilescope.reports.check.problem import Problem
from tilescope.reports.errors import ReportError
from tilescope.reports.reading.report import Report
from tilescope.reports.schema import ARRAYS, TABLES, ColumnSpec, TableSpec, array_chunk, chunk

__all__ = ["structure_problems"]


def structure_problems(report: Report) -> list[Problem]:
    """Return the problems of digests, chunks and references."""
    problems = list(_table_problems(report))
    if not problems:
        problems.extend(_array_problems(report))
    if not problems:
        problems.extend(_reference_problems(report))
    return problems


def _table_problems(report: Report) -> Iterator[Problem]:
    for table in TABLES.values():
        try:
            report.table(table)
        except ReportError as error:
            yield Problem(error.code, table.name, str(error))
    verdict = report.integrity_problem()
    if verdict is not None:
        yield Problem("damaged_report", "file", f"SQLite reports: {verdict}.")


def _array_problems(report: Report) -> Iterator[Problem]:
    for name in ARRAYS:
        try:
            array = report.array(name)
            array.verify()
            summary = array.summary()
            for number, (start, n_rows) in enumerate(
                zip(summary.row_start.tolist(), summary.n_rows.tolist(), strict=True)
            ):
                values = array.read(start, start + n_rows)
                noted = (summary.minimum[number], summary.maximum[number])
                if noted != (values.min(), values.max()):
                    yield Problem("summary", name, f"A chunk's summary of {name} is wrong.")
                total = values.sum(dtype=np.int64)
                if abs(total) < 2**62 and total != summary.total[number]:
                    yield Problem("summary", name, f"A chunk's total of {name} is wrong.")
        except ReportError as error:
            yield Problem(error.code, name, str(error))
    named = set(report.column(array_chunk, "digest"))
    n_chunks = report.n_rows(chunk)
    if n_chunks != len(named):
        yield Problem(
            "orphan", "chunk", f"{n_chunks} chunks are stored, but {len(named)} are in use."
        )


def _reference_problems(report: Report) -> Iterator[Problem]:
    for table in TABLES.values():
        for column in table.digested:
            if column.refers_to is not None:
                yield from _missing_rows(report, table, column)
    for spec in ARRAYS.values():
        if spec.refers_to is not None:
            target = TABLES[spec.refers_to]
            ids = np.array(report.column(target, target.primary_key), dtype=np.int64)
            values = np.unique(report.array(spec.name).read())
            if not np.isin(values, ids).all():
                yield Problem(
                    "reference", spec.name, f"{spec.name} refers to a missing {target.name}."
                )


def _missing_rows(report: Report, table: TableSpec, column: ColumnSpec) -> Iterator[Problem]:
    """Yield a problem if a column refers to missing rows of another table."""
    assert column.refers_to is not None
    target, key = column.refers_to
    present = {None, *report.column(TABLES[target], key)}
    n_missing = sum(value not in present for value in report.column(table, column.name))
    if n_missing:
        yield Problem(
            "reference",
            f"{table.name}.{column.name}",
            f"{n_missing} rows of {table.name} refer to a missing {target}.",
        )
