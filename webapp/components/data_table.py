"""Tables of data without a grid: sortable, saved as CSV, their rows lead to other views.

The browser shows 200 rows and then more on request (``assets/data_table.js``); all of them are
sorted and saved. Cells are text nodes, so names from reports need no escaping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack
from urllib.parse import urlencode

from dash.development.base_component import Component

from tilescope.analyser.quantities import format_change_of
from tilescope.webapp.components.links import Reports

__all__ = [
    "ColumnOptions",
    "DataTable",
    "Highlight",
    "Kind",
    "by_field",
    "change_columns",
    "column",
    "compared",
    "data_table",
    "template",
]

#: ``name`` wraps and takes the remaining width; ``place`` is a number of a tile, step or program.
Kind: TypeAlias = Literal[
    "text", "name", "bytes", "count", "share", "error", "place", "address", "life", "change"
]


class DataTable(Component):
    """A table drawn by ``assets/data_table.js``; see `data_table`."""

    _children_props: list[str] = []  # noqa: RUF012 - as Dash declares it
    _base_nodes: list[str] = []  # noqa: RUF012
    _namespace = "tilescope_tables"
    _type = "DataTable"
    _prop_names: list[str] = [  # noqa: RUF012
        "id", "columns", "data", "label", "empty", "file", "mark", "selected",
    ]  # fmt: skip
    _valid_wildcard_attributes: list[str] = []  # noqa: RUF012
    available_properties = _prop_names
    available_wildcard_properties: list[str] = []  # noqa: RUF012

    def __init__(self, **properties: Any) -> None:
        super().__init__(**properties)  # type: ignore[no-untyped-call]


class ColumnOptions(TypedDict, total=False):
    """What a column may have.

    Attributes
    ----------
    href
        Address of a page, with ``{field}`` for the values of the row: see `template`.
    changes
        Parameters of the page that a click sets, with ``{field}`` as in ``href``.
    sort
        Field to sort by, if not the column's own.
    end
        For ``life``, the field with one past the last step.
    hint
        Tooltip of the heading.
    """

    href: str
    changes: Mapping[str, str]
    sort: str
    end: str
    hint: str


def column(
    field: str, title: str, kind: Kind = "text", **options: Unpack[ColumnOptions]
) -> dict[str, Any]:
    """Return a column.

    Parameters
    ----------
    field
        Name of its values in the data.
    title
        Its heading.
    kind
        How values are written and in which direction the first click sorts.
    options
        See `ColumnOptions`.
    """
    column_: dict[str, Any] = {"field": field, "title": title, "kind": kind}
    return column_ | {name: value for name, value in options.items() if value}


def template(path: str, reports: Reports, **parameters: str) -> str:
    """Return the address of a page with the same reports; ``{field}`` stands for a row's value."""
    return f"{path}?{urlencode({**reports, **parameters}, safe=':,/{}')}"


def change_columns(kind: Kind = "bytes") -> list[dict[str, Any]]:
    """Return the columns Baseline, Candidate and Diff of rows made by `compared`."""
    return [
        column("baseline", "Baseline", kind),
        column("candidate", "Candidate", kind),
        column("diff", "Diff", "change", sort="delta", hint="Candidate minus baseline"),
    ]


def compared(
    baseline: Sequence[int | None], candidate: Sequence[int | None], unit: str = "bytes"
) -> dict[str, list[Any]]:
    """Return the fields of `change_columns`; a missing side counts 0 in the difference."""
    deltas = [(new or 0) - (old or 0) for old, new in zip(baseline, candidate, strict=True)]
    texts = [
        "0" if old == new else format_change_of(old, delta, unit) + _only_on(old, new)
        for old, new, delta in zip(baseline, candidate, deltas, strict=True)
    ]
    return {
        "baseline": list(baseline),
        "candidate": list(candidate),
        "delta": deltas,
        "diff": texts,
    }


class Highlight(NamedTuple):
    """Rows whose field ``mark`` is among ``selected``."""

    mark: str
    selected: Sequence[int | str]


def data_table(
    columns: Sequence[Mapping[str, Any]],
    data: Mapping[str, Sequence[Any]],
    *,
    label: str,
    empty: str,
    file: str,
    highlight: Highlight = Highlight("", ()),  # noqa: B008 # it is immutable
    table_id: str = "",
) -> DataTable:
    """Return a table.

    Parameters
    ----------
    columns
        Made by `column`.
    data
        Values of every field, all of one length, numbers exact.
    label
        Name for screen readers.
    empty
        What is shown without rows: what to do.
    file
        Name of the CSV file, without suffix.
    highlight
        Rows that are.
    table_id
        Id of the component, if callbacks change its columns, data or selection.
    """
    identity = {"id": table_id} if table_id else {}
    return DataTable(
        **identity,
        columns=[dict(column_) for column_ in columns],
        data={name: list(values) for name, values in data.items()},
        label=label,
        empty=empty,
        file=file,
        mark=highlight.mark,
        selected=[str(value) for value in highlight.selected],
    )


def by_field(
    columns: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], *further: str
) -> dict[str, list[Any]]:
    """Return the data of a table from rows: the fields of its columns, and others they refer to."""
    fields = {
        name for column_ in columns for name in (column_["field"], column_.get("sort")) if name
    }
    return {name: [row[name] for row in rows] for name in sorted(fields | set(further))}


def _only_on(baseline: int | None, candidate: int | None) -> str:
    """Return a suffix for rows that only one report has, else an empty string."""
    if baseline is None:
        return " (only in candidate)"
    return " (only in baseline)" if candidate is None else ""
