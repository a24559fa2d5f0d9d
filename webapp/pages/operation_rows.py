"""Rows of the grids of operations: of one report, of two, of plans; and totals by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dash import html

from tilescope.analyser.operations import Operation, Operations
from tilescope.analyser.plan_words import split_words
from tilescope.analyser.plans import Plan
from tilescope.analyser.quantities import MISSING, format_change_of, format_count, format_percent
from tilescope.webapp.components.grids import (
    bytes_column,
    change_column,
    name_column,
    number_column,
    text_column,
)
from tilescope.webapp.components.panels import empty_state
from tilescope.webapp.components.tables import plain_table

__all__ = [
    "METRICS",
    "by_key",
    "compared_rows",
    "kinds_table",
    "matching",
    "operation_rows",
    "plan_rows",
]

#: What a comparison is about: title, unit, value.
METRICS: dict[str, tuple[str, str, Callable[[Operation], int]]] = {
    "cycles": ("Cycles", "cycles", lambda each: each.cycles),
    "flops": ("FLOPs", "", lambda each: each.flops),
    "always": ("Always live", "bytes", lambda each: each.always_live_bytes),
    "temporary": ("Temporary", "bytes", lambda each: each.temporary_bytes),
    "code": ("Code", "bytes", lambda each: each.code_bytes),
}


def by_key(listed: Operations) -> dict[str, Operation]:
    """Return operations by what names them in an address: of several of one name, ``name#2``.

    They are counted in the order of the program, so that a key means the same in another report.
    """
    ordered = sorted(listed.operations, key=lambda each: each.debug_context_id)
    seen: dict[str, int] = {}
    keys: dict[int, str] = {}
    for each in ordered:
        seen[each.name] = seen.get(each.name, 0) + 1
        number = seen[each.name]
        keys[each.debug_context_id] = each.name if number == 1 else f"{each.name}#{number}"
    return {keys[each.debug_context_id]: each for each in listed.operations}


def operation_rows(listed: Operations) -> list[dict[str, Any]]:
    """Return the operations of one report as rows, those that take longest first."""
    total = listed.total_cycles
    return [
        {
            "key": key,
            "name": each.name,
            "call": each.operation,
            "cycles": each.cycles,
            "share": each.cycles / total if total else None,
            "flops": each.flops,
            "busy": each.utilisation,
            "always": each.always_live_bytes,
            "temporary": each.temporary_bytes,
            "code": each.code_bytes,
        }
        for key, each in by_key(listed).items()
    ]


def compared_rows(
    source: Operations, target: Operations, metric: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return one figure of two reports' operations, the largest change first; and the columns."""
    title, unit, value = METRICS[metric]
    sides = [by_key(side) for side in (source, target)]
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        one, other = (side.get(key) for side in sides)
        known = one or other
        assert known is not None
        before, after = (None if each is None else value(each) for each in (one, other))
        delta = (after or 0) - (before or 0)
        only = "" if one and other else " (only in source)" if one else " (only in target)"
        rows.append(
            {
                "key": key,
                "name": known.name,
                "call": known.operation,
                "source": before,
                "target": after,
                "delta": delta,
                "diff": format_change_of(before, delta, unit) + only,
            }
        )
    rows.sort(key=lambda row: -abs(row["delta"]))
    column = bytes_column if unit == "bytes" else number_column
    return rows, [
        name_column("name", "Operation"),
        text_column("call", "Call", width=135),
        column(
            "source", f"Source, {title.lower()}" if title != "FLOPs" else "Source, FLOPs", width=150
        ),
        column("target", "Target", width=120),
        change_column("diff", "Diff", width=260),
    ]


def matching(rows: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return the rows whose name or call contains a text."""
    wanted = text.strip().lower()
    return [row for row in rows if wanted in row["name"].lower() or wanted in row["call"].lower()]


def kinds_table(source: Operations, target: Operations | None) -> html.Div:
    """Return totals by kind of call."""
    if not source.kinds and not (target and target.kinds):
        return empty_state("There are no operations, so there are no kinds.")
    if target is not None:
        return _compared_kinds(source, target)
    total = source.total_cycles
    rows = [
        (
            each.operation,
            f"{each.n_operations:,}",
            f"{each.cycles:,}",
            format_percent(100 * each.cycles / total) if total else MISSING,
            f"{each.flops:,}",
        )
        for each in source.kinds
    ]
    return plain_table(
        ("Kind", "Operations", "Cycles", "% of total", "FLOPs"), rows, numbers=range(1, 5)
    )


def _compared_kinds(source: Operations, target: Operations) -> html.Div:
    """Return counts and cycles of two reports by kind of call."""
    sides = [{each.operation: each for each in side.kinds} for side in (source, target)]
    rows = []
    for kind in dict.fromkeys((*sides[0], *sides[1])):
        known = [side.get(kind) for side in sides]
        before, after = (each.cycles if each else None for each in known)
        rows.append(
            [
                kind,
                *(format_count(each.n_operations if each else None) for each in known),
                *(format_count(each) for each in (before, after)),
                format_change_of(before, (after or 0) - (before or 0), "cycles"),
            ]
        )
    heads = (
        "Kind", "Source, operations", "Target, operations", "Source, cycles", "Target, cycles",
        "Diff",
    )  # fmt: skip
    return plain_table(heads, rows, numbers=range(1, 6))


def plan_rows(found: Sequence[Plan]) -> list[dict[str, Any]]:
    """Return plans as rows, those that were predicted to take longest first."""
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
        for plan in found
    ]
