"""Panels below the trace: statistics by name, what cycles go to, and what is bound by what."""

from __future__ import annotations

from typing import Any

from dash import html

from tilescope.analyser import trace
from tilescope.analyser.quantities import format_percent
from tilescope.webapp.browser import marked
from tilescope.webapp.components.data_table import column, data_table
from tilescope.webapp.components.panels import empty_state

__all__ = ["around", "statistics_table", "stretches_panel"]

#: Rows of the table.
_MOST = 500
_KINDS = {kind.name: kind.label for kind in trace.KINDS}
_LABELS = {
    "exchange": "Exchange",
    "sync": "Sync",
    "waiting": "Waiting",
    "imbalance": "Imbalance",
    "host": "Host",
    "work": "Balanced compute",
}


def stretches_panel(found: trace.Stretches, *, is_pair: bool) -> html.Div:
    """Return the cycles of a range by cause, and its stretches; a row shows its place.

    Parameters
    ----------
    found
        The stretches.
    is_pair
        Whether they are those of the baseline of two reports, whose places on the common axis
        differ: a row then selects its step.
    """
    shares = [share for share in found.shares if share.cycles]
    bar = marked(
        html.Div([_segment(share) for share in shares], className="cause-bar", role="img"),
        aria_label=", ".join(f"{_LABELS[s.cause]} {format_percent(100 * s.share)}" for s in shares),
    )
    legend = html.Div(
        [
            html.Span(
                [
                    html.Span(className=f"trace-swatch cause-{share.cause}"),
                    f"{_LABELS[share.cause]} {format_percent(100 * share.share)}",
                ],
                title=f"{share.cycles:,} cycles",
            )
            for share in shares
        ],
        className="stage-legend",
    )
    rows = found.rows[:_MOST]
    note = (
        f"{len(found.rows):,} stretches{' of the baseline' if is_pair else ''} in"
        f" {found.start_cycle:,} to {found.end_cycle:,} cycles, those of equal steps in one row."
        " More than half of the cycles of a stretch go to its cause."
    )
    if len(rows) < len(found.rows):
        note += f" The first {len(rows):,} are listed."
    return html.Div([bar, legend, html.Div(note, className="grid-note"), _table(rows, is_pair)])


def statistics_table(found: trace.RangeStatistics) -> html.Div:
    """Return the names of a range with their statistics; a name is found in the trace."""
    if not found.rows:
        return empty_state("Nothing ran in this range; zoom out or press 0.")
    rows = found.rows[:_MOST]
    columns = [
        column("name", "Name", "name", changes={"find": "{name}"}),
        column("kind", "Kind"),
        column("count", "Count", "count"),
        column("cycles", "Cycles", "count", hint="In the range"),
        column("share", "Share", "share"),
        column("mean", "Mean", "count", hint="Cycles of an execution, those cut by an edge whole"),
        column("min", "Least", "count"),
        column("median", "p50", "count"),
        column("p99", "p99", "count"),
        column("max", "Most", "count"),
        column("slowest", "Slowest at", "place", changes={"range": "{range}", "mark": "{place}"}),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "kind": [_KINDS[row.kind] for row in rows],
        "count": [row.count for row in rows],
        "cycles": [row.cycles for row in rows],
        "share": [row.share for row in rows],
        "mean": [round(row.mean_cycles) for row in rows],
        "min": [row.min_cycles for row in rows],
        "median": [row.median_cycles for row in rows],
        "p99": [row.p99_cycles for row in rows],
        "max": [row.max_cycles for row in rows],
        "slowest": [row.start_cycle for row in rows],
        "place": [f"{row.start_cycle}:{row.end_cycle}" for row in rows],
        "range": [around(row.start_cycle, row.end_cycle) for row in rows],
    }
    note = (
        f"{len(found.rows):,} names by cycles in {found.start_cycle:,} to {found.end_cycle:,},"
        " over the IPUs shown"
    )
    if len(rows) < len(found.rows):
        note += f"; the first {len(rows):,} are listed"
    table = data_table(
        columns, data, label="Statistics by name", empty="Nothing ran in this range.",
        file="statistics",
    )  # fmt: skip
    return html.Div([html.Div(note, className="grid-note"), table])


def around(start: int, end: int) -> str:
    """Return a range that shows another one with some room."""
    beside = max((end - start) // 4, 20)
    return f"{max(0, start - beside)}:{end + beside}"


def _segment(share: trace.CauseShare) -> html.Span:
    """Return one segment of the bar."""
    return html.Span(
        className=f"cause-{share.cause}",
        style={"width": f"{100 * share.share:.3f}%"},
        title=f"{_LABELS[share.cause]}: {format_percent(100 * share.share)}",
    )


def _table(rows: tuple[trace.Stretch, ...], is_pair: bool) -> Any:
    """Return the stretches."""
    place = {"at": "step:{step}"} if is_pair else {"range": "{range}", "mark": "{place}"}
    columns = [
        column("name", "Stretch", "name", changes=place),
        column("cause", "Bound by"),
        column("share", "% of range", "share", hint="Cycles of the cause over all occurrences"),
        column("count", "Count", "count", hint="Stretches that run the same steps"),
        column("start", "From", "place", hint="The occurrence with most cycles of the cause"),
        column("cycles", "Cycles", "count"),
        column("cause_cycles", "Of the cause", "count"),
        column("steps", "Steps", "count"),
        column("ipus", "IPUs"),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "cause": [_LABELS[row.cause] for row in rows],
        "share": [row.share for row in rows],
        "count": [row.count for row in rows],
        "start": [row.start_cycle for row in rows],
        "cycles": [row.cycles for row in rows],
        "cause_cycles": [row.cause_cycles for row in rows],
        "steps": [row.n_executions for row in rows],
        "ipus": [_numbers(row.ipus) for row in rows],
        "step": [row.step_id for row in rows],
        "place": [f"{row.start_cycle}:{row.end_cycle}" for row in rows],
        "range": [around(row.start_cycle, row.end_cycle) for row in rows],
    }
    return data_table(
        columns, data, label="Stretches by cause", empty="No cause takes most of any stretch.",
        file="stretches",
    )  # fmt: skip


def _numbers(ipus: tuple[int, ...]) -> str:
    """Return numbers of IPUs such as ``0-3, 7``."""
    return trace.format_ranges(trace.number_ranges(ipus))
