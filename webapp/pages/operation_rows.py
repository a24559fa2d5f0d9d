"""Rows of the operation tables: one report, two reports, plans, and totals by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from tilescope.analyser.advice.trust import ReportTrust
from tilescope.analyser.diff import MEASURES, kind_changes, operation_changes
from tilescope.analyser.diff.alignment.pairs import pairs
from tilescope.analyser.program.operations import Layer, Operations, listed_layer, operations
from tilescope.analyser.program.plan_text import split_words
from tilescope.analyser.program.plans import Plan
from tilescope.analyser.program.training import PassTotal, pass_label
from tilescope.analyser.quantities import MISSING, format_change_of, format_count, format_percent
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.summary.stage_figures import StageFigures
from tilescope.webapp.components.data_table import Kind, change_columns, column, compared
from tilescope.webapp.components.panels import empty_state
from tilescope.webapp.components.tables import plain_table
from tilescope.webapp.components.training import pass_chip
from tilescope.webapp.library import Library

__all__ = [
    "LAYERS",
    "compared_rows",
    "kinds_table",
    "matching",
    "operation_rows",
    "operations_of_view",
    "passes_table",
    "plan_rows",
    "stages_table",
]

#: What can be listed, by layer.
LAYERS: dict[Layer, str] = {
    "library": "Library calls",
    "model": "Nodes of the model",
    "step": "Steps",
}


def operations_of_view(
    library: Library, view: Mapping[str, str], requested: Layer
) -> tuple[Operations, Operations | None]:
    """Return the operations of the view's reports: of a layer, or of the first that has any."""

    def listed(layer: Layer) -> tuple[Operations, Operations | None]:
        return library.ask(view, lambda report: operations(report, layer))

    def has_any(layer: Layer) -> bool:
        return any(side is not None and side.operations for side in listed(layer))

    return listed(listed_layer(requested, has_any))


def operation_rows(listed: Operations, trust: ReportTrust) -> list[dict[str, Any]]:
    """Return the operations of one report as rows with expected errors, slowest first."""
    total = listed.total_cycles
    return [
        {
            "key": key,
            "name": operation.name,
            "call": operation.operation,
            "pass": pass_label(operation.training_pass),
            "ipu": operation.ipu_id,
            "stage": (operation.stage or "").capitalize(),
            "cycles": operation.cycles,
            "error": trust.short(key),
            "share": operation.cycles / total if total else None,
            "compute": operation.compute_cycles,
            "flops": operation.flops,
            "steps": operation.n_steps,
            "busy": operation.utilisation,
            "always": operation.always_live_bytes,
            "temporary": operation.temporary_bytes,
            "code": operation.code_bytes,
        }
        for key, operation in listed.by_key.items()
    ]


def compared_rows(
    baseline: Operations, candidate: Operations, metric: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a metric of two reports' operations, largest change first, and its columns."""
    measure = MEASURES[metric]
    changes = operation_changes(baseline, candidate, metric)
    passes = {key: pass_label(item.training_pass) for key, item in candidate.by_key.items()}
    passes |= {key: pass_label(item.training_pass) for key, item in baseline.by_key.items()}
    both = compared(
        [None if change.baseline is None else round(change.baseline) for change in changes],
        [None if change.candidate is None else round(change.candidate) for change in changes],
        measure.unit,
    )
    rows: list[dict[str, Any]] = [
        {
            "key": change.key,
            "name": change.name,
            "call": change.operation,
            "pass": passes.get(change.key, ""),
            **{name: values[index] for name, values in both.items()},
        }
        for index, change in enumerate(changes)
    ]
    kind: Kind = "bytes" if measure.unit == "bytes" else "count"
    columns = [column("call", "Call"), *change_columns(kind)]
    title = measure.label if measure.label == "FLOPs" else measure.label.lower()
    runs = " per run" if measure.is_sum_of_runs and baseline.n_runs and candidate.n_runs else ""
    if any(passes.values()):
        columns.append(column("pass", "Pass"))
    columns[1]["title"] = f"Baseline, {title}{runs}"
    return rows, columns


def matching(rows: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return the rows whose call, name and stage hold all words of a text."""
    words = search_words(text)
    return [row for row in rows if words_fit(words, row["call"], row["name"], row.get("stage", ""))]


def kinds_table(
    baseline: Operations, candidate: Operations | None, errors: Mapping[str, str]
) -> html.Div:
    """Return totals by kind of call, with the expected errors of their cycles."""
    if not baseline.kinds and not (candidate and candidate.kinds):
        return empty_state("No operations.")
    if candidate is not None:
        return _compared_kinds(baseline, candidate, errors)
    total = baseline.total_cycles
    rows = [
        (
            kind.operation,
            f"{kind.n_operations:,}",
            f"{kind.cycles:,}",
            format_percent(100 * kind.cycles / total) if total else MISSING,
            f"{kind.flops:,}",
            errors[kind.operation],
        )
        for kind in baseline.kinds
    ]
    heads = ("Kind", "Operations", "Cycles", "% of total", "FLOPs", "Expected error")
    return plain_table(heads, rows, numbers=range(1, 5))


def passes_table(baseline: Sequence[PassTotal], candidate: Sequence[PassTotal] | None) -> list[Any]:
    """Return totals by pass of a training step, with their heading; nothing outside training."""
    if not baseline and not candidate:
        return []
    if candidate is None:
        rows: list[Sequence[Any]] = [
            (
                pass_chip(total.name) or total.label,
                f"{total.n_operations:,}",
                f"{total.cycles:,}",
                MISSING if total.share is None else format_percent(100 * total.share),
                f"{total.flops:,}",
            )
            for total in baseline
        ]
        heads = ["Pass", "Nodes of the model", "Cycles", "% of total", "FLOPs"]
    else:
        rows = []
        by_name = ({total.name: total for total in side} for side in (baseline, candidate))
        for pair in pairs(*by_name):
            known = pair.baseline, pair.candidate
            before, after = (total.cycles if total else None for total in known)
            rows.append(
                (
                    pass_chip(pair.key) or pair.known.label,
                    format_count(before),
                    format_count(after),
                    format_change_of(before, (after or 0) - (before or 0), "cycles"),
                )
            )
        heads = ["Pass", "Baseline, cycles", "Candidate, cycles", "Diff"]
    table = plain_table(heads, rows, numbers=range(1, len(heads)), class_name="passes")
    return [html.H3("By pass"), table]


def stages_table(baseline: StageFigures | None, candidate: StageFigures | None) -> list[Any]:
    """Return the stages of a pipeline, with their heading; nothing for other programs."""
    if baseline is None and candidate is None:
        return []
    rows: list[Sequence[Any]]
    if candidate is None and baseline is not None:
        rows = [
            (
                item.stage.name.capitalize(),
                str(item.ipu_id),
                f"{item.n_executions:,}",
                f"{item.cycles:,}",
                format_percent(100 * item.cycles / baseline.total_cycles),
                f"{item.cycles_per_execution:,.0f}",
            )
            for item in baseline.stages
        ]
        heads = ["Stage", "IPU", "Micro-batches", "Cycles", "% of total", "Per micro-batch"]
    else:
        sides = (
            {item.stage.name: item for item in ([] if side is None else side.stages)}
            for side in (baseline, candidate)
        )
        rows = []
        for pair in pairs(*sides):
            before, after = (
                None if item is None else round(item.cycles_per_execution)
                for item in (pair.baseline, pair.candidate)
            )
            rows.append(
                (
                    pair.key.capitalize(),
                    format_count(before),
                    format_count(after),
                    format_change_of(before, (after or 0) - (before or 0), "cycles"),
                )
            )
        heads = ["Stage", "Baseline, per micro-batch", "Candidate, per micro-batch", "Diff"]
    table = plain_table(heads, rows, numbers=range(1, len(heads)), class_name="stages")
    return [html.H3("By stage"), table]


def _compared_kinds(
    baseline: Operations, candidate: Operations, errors: Mapping[str, str]
) -> html.Div:
    """Return counts and cycles of two reports by kind of call."""
    rows = []
    for pair in kind_changes(baseline, candidate):
        kind, known = pair.key, (pair.baseline, pair.candidate)
        before, after = (total.cycles if total else None for total in known)
        rows.append(
            [
                kind,
                *(format_count(total.n_operations if total else None) for total in known),
                *(format_count(cycles) for cycles in (before, after)),
                format_change_of(before, (after or 0) - (before or 0), "cycles"),
                errors[kind],
            ]
        )
    heads = (
        "Kind",
        "Baseline, operations",
        "Candidate, operations",
        "Baseline, cycles",
        "Candidate, cycles",
        "Diff",
        "Expected error",
    )
    return plain_table(heads, rows, numbers=range(1, 6))


def plan_rows(plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Return plans as rows, highest predicted cycles first."""
    return [
        {
            "key": plan.name,
            "layer": "library",
            "name": plan.name,
            "call": plan.operation,
            "family": plan.family,
            "split": split_words(plan.split),
            "tiles": plan.n_tiles,
            "balance": plan.tile_balance,
            "cycles": plan.predicted_cycles,
            "temporary": plan.temporary_bytes,
            "bound": plan.bound,
        }
        for plan in plans
    ]
