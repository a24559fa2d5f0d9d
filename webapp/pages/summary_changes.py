"""What changed between two reports, largest first; every row leads to the page that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.diff import Difference, operation_changes
from tilescope.analyser.diff.alignment.steps import StepChange
from tilescope.analyser.diff.alignment.variables import VariableChange
from tilescope.analyser.program.operations import Operations
from tilescope.analyser.quantities import (
    format_bytes,
    format_change_of,
    format_count,
    format_runs,
    format_value,
)
from tilescope.webapp.components.links import Reports, page_link, trace_link, variable_link
from tilescope.webapp.components.panels import headline
from tilescope.webapp.components.tables import plain_table
from tilescope.webapp.pages.operation_rows import LAYERS

__all__ = ["changes_tables", "headlines"]

#: Rows of each table; the pages that they lead to list all.
_MOST_ROWS = 8


def headlines(difference: Difference, reports: Reports) -> list[html.A]:
    """Return the headline figures of both reports, each a link to what explains it.

    Cycles are those of one run on average.
    """
    blocks = []
    for name, label, path in _HEADLINES:
        metric = difference.metric(name)
        before, after, caption = metric.baseline, metric.candidate, label
        if before is None and after is None:
            continue
        if name == "cycles.total":
            caption = _runs(difference)
        delta = None if before is None or after is None else after - before
        texts = [format_value(value, metric.unit) for value in (before, after)]
        change = "unchanged" if delta == 0 else format_change_of(before, delta, metric.unit)
        figure = headline(" → ".join(dict.fromkeys(texts)), f"{caption}: {change}")
        blocks.append(page_link(figure, path, reports))
    return blocks


def _runs(difference: Difference) -> str:
    """Return of how many recorded runs the cycles of one are the average."""
    runs = difference.baseline.n_runs, difference.candidate.n_runs
    if max(runs) < 2:
        return "in the recorded run"
    counts = f"{runs[0]:,}" if runs[0] == runs[1] else f"{runs[0]:,} and {runs[1]:,}"
    return f"per run, of {counts} runs"


#: Metric, caption and the page that explains it.
_HEADLINES = (
    ("cycles.total", "", "/trace"),
    ("parallel.efficiency", "parallel efficiency", "/insights"),
    ("memory.max_tile", "on the fullest tile", "/memory"),
    ("memory.total", "over all tiles", "/memory"),
)


def changes_tables(
    difference: Difference, sides: tuple[Operations, Operations], reports: Reports
) -> list[html.Div]:
    """Return tables of the operations, steps and variables that changed most."""
    runs = f"Cycles {format_runs(*(side.n_runs for side in sides))}, per run."
    columns = [
        _block(LAYERS[sides[0].layer], "cycles", _operation_rows(sides, reports), runs)
        + _block("Variables", "bytes", _variable_rows(difference, reports)),
        _block("Steps", "cycles", _step_rows(difference, reports)),
    ]
    return [html.Div(column) for column in columns if column]


def _block(title: str, unit: str, rows: Sequence[Sequence[Any]], about: str = "") -> list[Any]:
    """Return the table of one kind of thing with its title and a note; nothing without rows."""
    if not rows:
        return []
    heads = ("Name", f"Baseline, {unit}", "Candidate", "Change")
    table = plain_table(heads, rows[:_MOST_ROWS], numbers=(1, 2, 3))
    n_more = len(rows) - _MOST_ROWS
    largest = f"The largest {_MOST_ROWS} of {len(rows):,}." if n_more > 0 else ""
    note = f"{about} {largest}".strip()
    parts: list[Any] = [html.H3(f"{title} that changed most"), table]
    if note:
        parts.append(html.Div(note, className="grid-note"))
    return parts


def _operation_rows(sides: tuple[Operations, Operations], reports: Reports) -> list[list[Any]]:
    baseline, candidate = sides
    if baseline.layer == "step":  # they are listed as steps
        return []
    return [
        [
            page_link(
                change.name or "(no name)",
                "/operations",
                reports,
                layer=baseline.layer,
                op=change.key,
            ),
            format_count(change.baseline),
            format_count(change.candidate),
            format_change_of(change.baseline, change.delta, ""),
        ]
        for change in operation_changes(baseline, candidate, "cycles")
        if change.delta
    ]


def _step_rows(difference: Difference, reports: Reports) -> list[list[Any]]:
    steps = difference.steps
    every = sorted(
        (*steps.added, *steps.removed, *steps.changed), key=lambda change: -abs(change.delta_cycles)
    )
    return [
        [
            _step_link(change, reports),
            format_count(change.baseline_cycles),
            format_count(change.candidate_cycles),
            format_change_of(change.baseline_cycles, change.delta_cycles, ""),
        ]
        for change in every
        if change.delta_cycles
    ]


def _step_link(change: StepChange, reports: Reports) -> html.A:
    """Return a link to a step in the trace; to its name there if only the candidate has it."""
    label = f"{change.name or '(no name)'} ({change.kind})"
    if change.baseline_step_id is None:
        return page_link(label, "/trace", reports, find=change.name)
    return trace_link(label, reports, change.baseline_step_id, change.name)


def _variable_rows(difference: Difference, reports: Reports) -> list[list[Any]]:
    variables = difference.variables
    every: list[VariableChange] = sorted(
        (*variables.added, *variables.removed, *variables.changed),
        key=lambda change: -abs(change.delta_bytes),
    )
    return [
        [
            variable_link(change.name or "(no name)", reports, change.name),
            *(format_bytes(None if fact is None else fact.bytes) for fact in sides),
            format_change_of(
                None if change.baseline is None else change.baseline.bytes,
                change.delta_bytes,
                "bytes",
            ),
        ]
        for change in every
        if change.delta_bytes
        for sides in ((change.baseline, change.candidate),)
    ]
