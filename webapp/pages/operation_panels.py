"""Details of an operation: its figures, plans and steps, of one or two reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html

from tilescope.analyser.advice.operation_time import OperationTime, operation_time
from tilescope.analyser.advice.trust import Trust, report_trust
from tilescope.analyser.program.contexts import DebugContext, enclosing
from tilescope.analyser.program.operations import (
    Operation,
    Operations,
    OperationStep,
    operation_steps,
)
from tilescope.analyser.program.plan_explanation import PlanExplanation, explanation, plans_of
from tilescope.analyser.program.plan_text import PartRow, part_rows, plan_facts
from tilescope.analyser.program.training_links import TrainingLinks, training_links
from tilescope.analyser.quantities import MISSING, format_bytes, format_percent
from tilescope.reports import Report
from tilescope.webapp.components.links import Reports, page_link, swapped, trace_link
from tilescope.webapp.components.tables import plain_table
from tilescope.webapp.components.training import training_rows
from tilescope.webapp.figures.stage_bars import PartBars, part_bars
from tilescope.webapp.pages.why_panels import why_blocks

__all__ = [
    "OperationDetails",
    "debug_panel",
    "details_panel",
    "operation_details",
    "operation_links",
]

#: A node such as an LSTM has a plan per product; the Plans tab lists those beyond this number.
_MAX_PLANS = 6
_MAX_STEPS = 200


@dataclass(frozen=True)
class OperationDetails:
    """An operation of one report with its details.

    ``plans`` are the first few; ``expected_error`` is of its cycles and memory, as text;
    ``training`` is how it belongs to others in a training step, None outside training.
    """

    operation: Operation
    total_cycles: int
    n_runs: int
    contexts: tuple[DebugContext, ...]
    plans: tuple[PlanExplanation, ...]
    n_plans: int
    steps: tuple[OperationStep, ...]
    time: OperationTime
    expected_error: str
    training: TrainingLinks | None = None


def operation_details(
    report: Report, listed: Operations, operation: Operation, trust: Trust | None
) -> OperationDetails:
    """Return the details of an operation of a report."""
    key = next(key for key, item in listed.by_key.items() if item.number == operation.number)
    plans = plans_of(report, operation.debug_context_id)
    return OperationDetails(
        operation,
        listed.total_cycles,
        listed.n_runs,
        enclosing(report, operation.debug_context_id),
        tuple(explanation(report, plan) for plan in plans[:_MAX_PLANS]),
        len(plans),
        operation_steps(report, operation),
        operation_time(report, operation),
        report_trust(report, trust, listed.layer).text(key),
        training_links(report, operation.debug_context_id),
    )


def details_panel(
    name: str, sides: Sequence[OperationDetails | None], reports: Reports
) -> html.Div:
    """Return the panel of an operation of one or two reports; one of two may lack it."""
    heads = ["Baseline", "Candidate"] if len(sides) > 1 else [""]
    known = [side for side in sides if side is not None]
    n_plans = max(side.n_plans for side in known)
    of_plans = [
        _Plan([_at(side, position) for side in sides], heads)
        for position in range(min(n_plans, _MAX_PLANS))
    ]
    blocks: list[Any] = [
        html.H2(name or "(no name)"),
        *why_blocks([None if side is None else side.time for side in sides], reports),
    ]
    costs = _facts(heads, sides, reports)
    if of_plans and len(sides) == 1:
        first = of_plans.pop(0)
        facts = html.Div([html.H3(first.title(n_plans)), first.facts()])
        blocks += [_columns(costs, *first.parts()), facts]
    else:
        blocks.append(costs)
    for plan in of_plans:
        blocks += [html.H3(plan.title(n_plans)), plan.facts(), _columns(*plan.parts())]
    if n_plans > _MAX_PLANS:
        note = f"{n_plans - _MAX_PLANS:,} more plans of this operation are on the Plans tab."
        blocks.append(html.Div(note, className="grid-note"))
    return html.Div(blocks, className="details")


def debug_panel(name: str, sides: Sequence[OperationDetails | None], reports: Reports) -> html.Div:
    """Return who created an operation, and its program steps, of one or two reports."""
    heads = ["Baseline", "Candidate"] if len(sides) > 1 else [""]
    of_side = [reports, swapped(reports)] if len(sides) > 1 else [reports]
    columns = [
        html.Div(
            [
                _arguments(side),
                *_steps(side, f"of the {head.lower()}" if head else "", side_reports),
            ]
        )
        for side, head, side_reports in zip(sides, heads, of_side, strict=True)
        if side is not None
    ]
    return html.Div([html.H2(name or "(no name)"), _columns(*columns)], className="details")


def operation_links(details: OperationDetails, reports: Reports) -> list[Any]:
    """Return links to the operation on other pages: the trace at its longest step that ran."""
    longest = max(
        details.steps, key=lambda step: (step.n_executions > 0, step.cycles), default=None
    )
    if longest is None:
        return []
    links = [page_link("In the program tree", "/programs", reports, node=str(longest.program_id))]
    if longest.n_executions:
        name = details.operation.name
        links.insert(0, trace_link("In the execution trace", reports, longest.step_id, name))
    return links


def _columns(*blocks: Any) -> html.Div:
    """Return blocks side by side where they fit."""
    return html.Div(list(blocks), className="operation-columns")


def _at(side: OperationDetails | None, position: int) -> PlanExplanation | None:
    """Return a plan of a side by its index, None if there is none."""
    return side.plans[position] if side is not None and position < len(side.plans) else None


def _facts(
    heads: Sequence[str], sides: Sequence[OperationDetails | None], reports: Reports
) -> html.Div:
    """Return the figures of an operation, one column per side."""
    rows: list[Sequence[Any]] = [
        [label, *(MISSING if side is None else text(side) for side in sides)]
        for label, text in _FACTS
    ]
    of_side = (reports, swapped(reports)) if len(sides) > 1 else (reports,)
    training = [
        dict(training_rows(None if side is None else side.training, side_reports))
        for side, side_reports in zip(sides, of_side, strict=True)
    ]
    labels = dict.fromkeys(label for side in training for label in side)
    rows[1:1] = [[label, *(side.get(label, MISSING) for side in training)] for label in labels]
    table = plain_table(["", *heads], rows, numbers=range(1, len(heads) + 1))
    return html.Div([html.H3("Cost"), table])


def _share(side: OperationDetails) -> str:
    """Return the percentage of an operation in the total cycles."""
    if not side.total_cycles:
        return MISSING
    return format_percent(100 * side.operation.cycles / side.total_cycles)


def _utilisation(side: OperationDetails) -> str:
    """Return the percentage of tile cycles that are busy."""
    busy = side.operation.utilisation
    return MISSING if busy is None else format_percent(100 * busy)


_FACTS: tuple[tuple[str, Callable[[OperationDetails], str]], ...] = (
    ("Call", lambda side: side.operation.operation),
    ("Cycles", lambda side: f"{side.operation.cycles:,}"),
    ("% of total cycles", _share),
    ("Expected error", lambda side: side.expected_error),
    ("Compute cycles", lambda side: f"{side.operation.compute_cycles:,}"),
    ("Floating-point operations", lambda side: f"{side.operation.flops:,}"),
    ("Tiles busy", _utilisation),
    ("Always live", lambda side: format_bytes(side.operation.always_live_bytes)),
    ("Temporary, over all tiles", lambda side: format_bytes(side.operation.temporary_bytes)),
    ("Code of its programs", lambda side: format_bytes(side.operation.code_bytes)),
    ("Steps", lambda side: f"{side.operation.n_steps:,}"),
)


def _arguments(side: OperationDetails) -> html.Div:
    """Return the arguments of an operation and its callers."""
    rows = [
        (
            f"{context.layer}: {context.operation}",
            _lines([context.name or MISSING, *_detail(context.detail)]),
        )
        for context in side.contexts
    ]
    table = plain_table(("", ""), rows, class_name="plan-facts")
    return html.Div([html.H3("Created by, innermost first"), table])


def _detail(text: str) -> list[str]:
    """Return the arguments in a context's JSON, one line per argument; empty for other JSON."""
    try:
        result = json.loads(text)
    except (RecursionError, ValueError):
        return []
    if not isinstance(result, dict):
        return []
    nested = result.pop("attributes", None)
    arguments = {**result, **nested} if isinstance(nested, dict) else result
    return [f"{name}: {_argument(value)}" for name, value in arguments.items()]


def _argument(value: Any) -> str:
    """Return an argument as text: ``x float32 [1, 3]`` for a tensor, lists joined by semicolons."""
    if isinstance(value, list) and any(isinstance(item, str) for item in value):
        return " ".join(_argument(item) for item in value)
    if isinstance(value, list) and any(isinstance(item, list) for item in value):
        return "; ".join(_argument(item) for item in value)
    return str(value)


@dataclass(frozen=True)
class _Plan:
    """One plan of an operation, from every side that has it."""

    sides: Sequence[PlanExplanation | None]
    heads: Sequence[str]

    def title(self, n_plans: int) -> str:
        """Return the title, with the plan's name if there are several."""
        named = next(side.plan.name for side in self.sides if side is not None)
        return "Plan: split over tiles" + (f" ({named})" if n_plans > 1 else "")

    def facts(self) -> html.Div:
        """Return the chosen split and its reasons, one column per side."""
        sides = [dict(plan_facts(side)) if side is not None else {} for side in self.sides]
        labels = dict.fromkeys(label for side in sides for label in side)
        rows = [
            [label, *(_lines(side.get(label, (MISSING,))) for side in sides)] for label in labels
        ]
        return plain_table(["", *self.heads], rows, class_name="plan-facts")

    def parts(self) -> list[html.Div]:
        """Return the parts of the operation, one table per side."""
        return [
            html.Div(
                [
                    html.H3(f"Parts, cycles of one execution{' · ' * bool(head)}{head}"),
                    _parts(part_rows(side)),
                ]
            )
            for head, side in zip(self.heads, self.sides, strict=True)
            if side is not None
        ]


def _lines(texts: Sequence[str]) -> Any:
    """Return texts on lines of their own."""
    return texts[0] if len(texts) == 1 else [html.Div(text) for text in texts]


def _parts(rows: Sequence[PartRow]) -> html.Div:
    """Return the parts with predicted and compiled cycles, as figures and bars."""
    body = [
        [html.B(row.label) if row.is_sum else row.label, *row.texts, _pair(bars)]
        for row, bars in zip(rows, part_bars(rows), strict=True)
    ]
    heads = ("Part", "Predicted", "Compiled", "Difference", "Predicted, compiled")
    return plain_table(heads, body, numbers=range(1, 4), class_name="parts-table")


def _pair(bars: PartBars | None) -> Any:
    """Return the two bars of a part: predicted outlined, compiled filled."""
    if bars is None:
        return ""
    kind = "phase-exchange" if bars.is_exchange else "phase-compute"
    return html.Div(
        [
            html.Span(className=name, style={"width": f"{100 * length:.1f}%"}, title=title)
            for name, length, title in (
                ("bar-predicted", bars.predicted, "Predicted"),
                ("bar-compiled", bars.compiled, "Compiled"),
            )
            if length is not None
        ],
        className=f"part-bars {kind}",
    )


def _steps(side: OperationDetails, whose: str, reports: Reports) -> list[Any]:
    """Return the program steps of an operation: numbers lead to the trace, names to the tree."""
    if not side.steps:
        return []
    rows = [
        (
            trace_link(f"{step.step_id:,}", reports, step.step_id)
            if step.n_executions
            else f"{step.step_id:,}",
            html.Span(step.kind, className=f"tree-kind phase-{step.phase}"),
            page_link(step.name or MISSING, "/programs", reports, node=str(step.program_id)),
            f"{step.cycles:,}",
            f"{step.n_executions:,}",
        )
        for step in side.steps[:_MAX_STEPS]
    ]
    when = "over all recorded runs" if side.n_runs else "of one execution; no run was recorded"
    n_more = len(side.steps) - len(rows)
    title = " ".join(part for part in ("Steps", whose) if part)
    title += f": the first {len(rows):,}, {n_more:,} more follow" if n_more else ""
    heads = ("Step", "Kind", "Name", "Cycles", "Executions")
    return [
        html.H3(f"{title}; cycles {when}"),
        plain_table(heads, rows, numbers=(0, 3, 4)),
    ]
