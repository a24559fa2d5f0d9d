"""Small tables: facts, comparisons of facts, nested memory rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.diff import memory_row_pairs, row_pairs
from tilescope.analyser.memory.tile_memory import MemoryTable
from tilescope.analyser.quantities import MISSING, format_bytes, format_change_of, format_exact
from tilescope.analyser.summary.summarise import Row
from tilescope.webapp.browser import marked

__all__ = [
    "compare_memory",
    "compare_rows",
    "fact_table",
    "nested_memory",
    "plain_table",
    "with_csv",
]


def fact_table(rows: Sequence[Row]) -> html.Table:
    """Return a table of labels and values; rounded values show the exact one too."""
    return html.Table(html.Tbody([_fact(row) for row in rows]), className="facts")


def compare_rows(baseline: Sequence[Row], candidate: Sequence[Row]) -> html.Table:
    """Return the rows of two reports by label with Baseline, Candidate and Diff columns."""
    body = []
    for pair in row_pairs(baseline, candidate):
        diff, is_changed = _difference(pair.baseline, pair.candidate)
        body.append(
            html.Tr(
                [
                    html.Th(pair.key, scope="row"),
                    *(_value_cell(row) for row in (pair.baseline, pair.candidate)),
                    html.Td(diff, className="number" + (" is-changed" if is_changed else " soft")),
                ]
            )
        )
    return html.Table(
        [_head(("", "Baseline", "Candidate", "Diff")), html.Tbody(body)], className="facts compared"
    )


def plain_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    numbers: Sequence[int] = (),
    class_name: str = "",
) -> html.Div:
    """Return a small table of texts and parts; the columns in ``numbers`` are right-aligned."""
    body = [
        html.Tr(
            [
                html.Td(cell, className="number" if index in numbers else "")
                for index, cell in enumerate(row)
            ]
        )
        for row in rows
    ]
    heads = [
        html.Th(name, scope="col", className="number" if index in numbers else "")
        for index, name in enumerate(columns)
    ]
    table = html.Table([html.Thead(html.Tr(heads)), html.Tbody(body)], className="facts")
    return html.Div(table, className=f"table-wrap {class_name}".rstrip())


def with_csv(table: html.Div, *, file: str, note: str = "") -> html.Div:
    """Return a table with a button that saves it as CSV; exact numbers come from tooltips.

    ``file`` is the name without suffix; ``note`` says what is left out.
    """
    button = html.Button("Save CSV", className="text-button csv-button", type="button")
    foot = [
        *([html.Span(note, className="grid-note")] if note else []),
        marked(button, data_file=file),
    ]
    return html.Div([table, html.Div(foot, className="data-foot")], className="csv-block")


def nested_memory(table: MemoryTable) -> html.Div:
    """Return memory in collapsible nested rows, with a column for all tiles or per tile."""
    cells = [
        (row.key, row.label, row.depth, [_size_cell(size) for size in row.bytes])
        for row in table.rows
    ]
    return _nested(("Memory", *table.columns), cells)


def compare_memory(baseline: MemoryTable, candidate: MemoryTable) -> html.Div:
    """Return the first columns of two memory tables side by side; a missing side is a dash."""
    cells = []
    for pair in memory_row_pairs(baseline, candidate):
        key, known = pair.key, pair.known
        before, after = (row.bytes[0] if row else None for row in (pair.baseline, pair.candidate))
        diff, is_changed = _change(before, after, "bytes")
        mark = html.Td(diff, className="number" + (" is-changed" if is_changed else " soft"))
        cells.append((key, known.label, known.depth, [_size_cell(before), _size_cell(after), mark]))
    name = baseline.columns[0]
    return _nested((f"Memory, {name.lower()}", "Baseline", "Candidate", "Diff"), cells)


def _fact(row: Row) -> html.Tr:
    """Return one row of facts."""
    return html.Tr([html.Th(row.label, scope="row"), _value_cell(row)])


def _value_cell(row: Row | None) -> html.Td:
    """Return a value: numbers right-aligned with an exact tooltip, long texts as code."""
    if row is None:
        return html.Td(MISSING, className="number")
    is_number = isinstance(row.value, int | float) and not isinstance(row.value, bool)
    if is_number:
        return html.Td(row.text, className="number", title=row.exact)
    is_long = isinstance(row.value, str) and len(row.value) > 24 and " " not in row.value
    return html.Td(row.text, className="number long" if is_long else "number", title=row.exact)


def _difference(baseline: Row | None, candidate: Row | None) -> tuple[str, bool]:
    """Return the difference of two rows as text, and whether they differ."""
    if baseline is None or candidate is None:
        return MISSING, True
    values = (baseline.value, candidate.value)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return _change(baseline.value, candidate.value, baseline.unit)  # type: ignore[arg-type]
    return ("same", False) if baseline.value == candidate.value else ("differs", True)


def _change(baseline: float | None, candidate: float | None, unit: str) -> tuple[str, bool]:
    """Return candidate minus baseline with the percentage of the baseline."""
    if baseline is None or candidate is None:
        return MISSING, baseline is not candidate
    delta = candidate - baseline
    if delta == 0:
        return "0", False
    return format_change_of(baseline, delta, unit), True


def _size_cell(size: int | None) -> html.Td:
    """Return a size with its exact number of bytes as a tooltip."""
    return html.Td(format_bytes(size), className="number", title=format_exact(size, "bytes"))


def _nested(
    columns: Sequence[str], rows: Sequence[tuple[str, str, int, list[html.Td]]]
) -> html.Div:
    """Return a tree table; a script expands and collapses rows by key."""
    keys = [key for key, *_ in rows]
    body = []
    for key, label, depth, cells in rows:
        has_children = any(other_key.startswith(key + "/") for other_key in keys)
        sign = (
            marked(
                html.Button("▾", className="disclosure"),
                aria_label=f"Collapse or expand {label}",
                aria_expanded="true",
            )
            if has_children
            else html.Span(className="leaf-space")
        )
        indent = {"paddingLeft": f"{8 + 18 * depth}px"}
        head = html.Th([sign, label], scope="row", style=indent)
        body.append(marked(html.Tr([head, *cells]), data_key=key))
    heads = [
        html.Th(name, scope="col", className="number" if index else "")
        for index, name in enumerate(columns)
    ]
    table = html.Table([html.Thead(html.Tr(heads)), html.Tbody(body)], className="nested")
    return html.Div(table, className="table-wrap")


def _head(columns: Sequence[str]) -> html.Thead:
    """Return a table header: a label column, then number columns."""
    return html.Thead(
        html.Tr(
            [
                html.Th(name, scope="col", className="number" if index else "")
                for index, name in enumerate(columns)
            ]
        )
    )
