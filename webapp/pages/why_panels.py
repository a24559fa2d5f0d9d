"""Why an operation takes its time: ideal beside actual, slowest tiles, plans, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.advice.operation_time import OperationTime, operation_verdict
from tilescope.analyser.program.plan_text import runner_up_words, split_words
from tilescope.webapp.browser import marked
from tilescope.webapp.components.links import Reports, swapped, tile_link, trace_link
from tilescope.webapp.components.tables import plain_table

__all__ = ["why_blocks"]


def why_blocks(sides: Sequence[OperationTime | None], reports: Reports) -> list[Any]:
    """Return the reasons of an operation's time, a column per report that has it."""
    heads = ("Baseline", "Candidate") if len(sides) > 1 else ("",)
    of_side = (reports, swapped(reports)) if len(sides) > 1 else (reports,)
    columns = [
        html.Div(_column(side, side_reports, head) if side is not None else _missing(head))
        for side, side_reports, head in zip(sides, of_side, heads, strict=True)
    ]
    return [html.Div(columns, className="operation-columns why")]


def _column(operation_time: OperationTime, reports: Reports, head: str) -> list[Any]:
    """Return the reasons in one report: a sentence, the parts, and beside them the rest."""
    parts: list[Any] = []
    if head:
        parts.append(html.Span(head, className=f"side-mark side-{head.lower()}"))
    parts.append(html.P(operation_verdict(operation_time), className="verdict"))
    if not operation_time.parts:
        return parts
    further = [*_slowest(operation_time, reports), *_plan(operation_time), *_advice(operation_time)]
    parts.append(
        html.Div([_parts(operation_time), html.Div(further)], className="operation-columns")
    )
    return parts


def _missing(head: str) -> list[Any]:
    """Return what stands for a report without the operation."""
    mark = html.Span(head, className=f"side-mark side-{head.lower()}")
    return [mark, html.P("The operation is not in this report.", className="verdict")]


def _parts(operation_time: OperationTime) -> html.Div:
    """Return ideal and actual cycles by part, as figures and bars."""
    longest = max(part.actual_cycles for part in operation_time.parts)
    rows: list[Sequence[Any]] = [
        (
            part.label,
            f"{part.ideal_cycles:,}",
            f"{part.actual_cycles:,}",
            f"{part.excess_cycles:,}",
            _bars(part.kind, part.ideal_cycles / longest, part.actual_cycles / longest),
        )
        for part in operation_time.parts
    ]
    ideal, actual = operation_time.ideal_cycles, operation_time.actual_cycles
    rows.append((html.B("Sum"), f"{ideal:,}", f"{actual:,}", f"{actual - ideal:,}", ""))
    heads = ("Part", "Ideal", "Actual", "Above ideal", "Ideal, actual")
    table = plain_table(heads, rows, numbers=(1, 2, 3), class_name="why-table")
    runs = (
        "over all recorded runs"
        if operation_time.n_runs
        else "of one execution; no run was recorded"
    )
    note = (
        "Ideal: compute spread evenly over all tiles, exchanged bytes at full bandwidth, one sync."
    )
    return html.Div(
        [html.H3(f"Why it takes its time; cycles {runs}"), table,
         html.Div(note, className="grid-note")]
    )  # fmt: skip


def _bars(kind: str, ideal: float, actual: float) -> html.Div:
    """Return two bars: ideal outlined, actual filled."""
    name = kind.replace("_", "-")
    bars = [
        html.Span(
            className=f"why-{subject} ledger-{name}",
            style={"width": f"{100 * length:.1f}%"},
            title=subject.capitalize(),
        )
        for subject, length in (("ideal", ideal), ("actual", actual))
        if length
    ]
    bars_ = marked(html.Div(bars, className="why-bars", role="img"), aria_label="Ideal and actual")
    return bars_


def _slowest(operation_time: OperationTime, reports: Reports) -> list[Any]:
    """Return the slowest tiles, which lead to their memory, and the step to look at."""
    if not operation_time.slowest_tiles:
        return []
    rows = [
        (
            tile_link(f"{tile.tile_id:,}", reports, tile.tile_id),
            f"{tile.cycles:,}",
            f"{tile.times_mean:,.2f}",
        )
        for tile in operation_time.slowest_tiles
    ]
    table = plain_table(("Tile", "Compute cycles", "Times the mean"), rows, numbers=(0, 1, 2))
    title: list[Any] = ["Slowest tiles"]
    if operation_time.slowest_step_id is not None:
        step: Any = f"step {operation_time.slowest_step_id:,}"
        if operation_time.n_runs:
            step = trace_link(step, reports, operation_time.slowest_step_id)
        title += ["; most imbalance in ", step]
    return [html.H3(title), table]


def _plan(operation_time: OperationTime) -> list[Any]:
    """Return the plan and its runner-up in a sentence."""
    plan = operation_time.plan
    if plan is None:
        return []
    text = (
        f"{plan.family}, {split_words(plan.split)}: {plan.predicted_cycles:,} cycles predicted."
        f" Runner-up: {runner_up_words(plan)}."
    )
    return [html.H3("Plan"), html.Div(text)]


def _advice(operation_time: OperationTime) -> list[Any]:
    """Return what would help."""
    if not operation_time.advice:
        return []
    items = [html.Li(text) for text in operation_time.advice]
    return [html.H3("What would help"), html.Ul(items, className="sentences")]
