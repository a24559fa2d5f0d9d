"""A trace of a host: threads, labels of tracepoints, series, heatmaps; its events are arrays.

Only a report of this kind has these tables.
"""

from __future__ import annotations

from tilescope.reports.schema.table import ColumnSpec, TableSpec

__all__ = [
    "HOST_TRACE",
    "host_channel",
    "host_heatmap",
    "host_heatmap_column",
    "host_label",
    "host_sample",
    "host_series",
    "host_thread",
]

#: The kind of reports that have these tables, as their provenance states it.
HOST_TRACE = "host trace"
_SINCE = 11
_TIME = "Time since the trace began, nanoseconds"


def _table(
    name: str, comment: str, columns: tuple[ColumnSpec, ...], unique: tuple[str, ...] = ()
) -> TableSpec:
    return TableSpec(name, comment, columns, unique, since=_SINCE, kind=HOST_TRACE)


def _column(
    name: str, comment: str, refers_to: str | None = None, *, is_nullable: bool = False
) -> ColumnSpec:
    """Return an integer column, or one that refers to another table's key."""
    key = None if refers_to is None else (refers_to, f"{refers_to}_id")
    return ColumnSpec(name, "integer", comment, is_nullable, refers_to=key, since=_SINCE)


def _text(name: str, comment: str, *, is_nullable: bool = False) -> ColumnSpec:
    return ColumnSpec(name, "text", comment, is_nullable, since=_SINCE)


host_channel = _table(
    "host_channel",
    "Channels of tracepoints",
    (
        _column("host_channel_id", "Identity, from 0"),
        _text("name", "Name, such as Poplar"),
    ),
)

host_thread = _table(
    "host_thread",
    "Threads that recorded something",
    (
        _column("host_thread_id", "Identity, from 0 in order of the first record"),
        _column("tid", "Number of the thread, as Python's threading.get_ident gives it"),
        _text("name", "Name of the thread"),
    ),
)

host_label = _table(
    "host_label",
    "Labels of tracepoints; the same label may occur several times",
    (
        _column("host_label_id", "Identity, from 0"),
        _column("host_channel_id", "The channel", "host_channel"),
        _text("label", "The label"),
        _text("metadata", "JSON that the program attached", is_nullable=True),
    ),
)

host_series = _table(
    "host_series",
    "Series of numbers, by graph",
    (
        _column("host_series_id", "Identity, from 0"),
        _text("graph", "Name of the graph"),
        _text("unit", "Unit of its numbers; may be empty"),
        _text("name", "Name of the series; empty for a graph without series"),
    ),
)

host_sample = _table(
    "host_sample",
    "Numbers of series",
    (
        _column("host_sample_id", "Identity"),
        _column("host_series_id", "The series", "host_series"),
        _column("wall_ns", _TIME),
        ColumnSpec(
            "value", "real", "The number; null for not a number", is_nullable=True, since=_SINCE
        ),
    ),
)

host_heatmap = _table(
    "host_heatmap",
    "Heatmaps: how values spread over bins, in the course of time",
    (
        _column("host_heatmap_id", "Identity, from 0"),
        _text("name", "Name"),
        _text("unit", "Label of the values; may be empty"),
        ColumnSpec("edges", "bytes", "Edges of the bins, ascending, <f8", since=_SINCE),
    ),
)

host_heatmap_column = _table(
    "host_heatmap_column",
    "Counts of the bins of a heatmap at a time",
    (
        _column("host_heatmap_column_id", "Identity"),
        _column("host_heatmap_id", "The heatmap", "host_heatmap"),
        _column("wall_ns", _TIME),
        ColumnSpec(
            "counts", "bytes", "Values in every bin, <u4; the last bin has its edge", since=_SINCE
        ),
    ),
)
