"""The ledger of tile-cycles as a waterfall, of one report or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.advice.ledger import (
    LEDGER_KINDS,
    Ledger,
    LedgerCause,
    LedgerEntry,
    LedgerPart,
)
from tilescope.analyser.diff import LedgerChange
from tilescope.analyser.quantities import MISSING, format_change_of, format_percent, format_runs
from tilescope.webapp.browser import marked
from tilescope.webapp.components.links import (
    Reports,
    operation_link,
    page_link,
    swapped,
    trace_link,
)
from tilescope.webapp.components.panels import empty_state
from tilescope.webapp.components.tables import plain_table

__all__ = ["compared_ledgers", "ledger_card", "parts_table"]

#: Causes that are listed of one report, and of each of two.
_N_CAUSES, _N_COMPARED = 3, 2


def ledger_card(ledger: Ledger, reports: Reports) -> html.Div:
    """Return the waterfall of one report: every entry begins where the one above it ends."""
    if not ledger.entries:
        return empty_state("No steps: the report was written without the compiled program.")
    rows: list[tuple[Any, ...]] = []
    start = 0.0
    for entry in ledger.entries:
        rows.append(
            (
                _label(entry),
                _bar(entry.kind, entry.share, start),
                format_percent(100 * entry.share),
                html.Span(
                    f"{ledger.cycles_per_run[entry.kind]:,.0f}",
                    title=f"{entry.tile_cycles:,} tile-cycles",
                ),
                _gain(entry, ledger.total_cycles),
                _causes(entry, ledger.total_tile_cycles, reports, has_trace=bool(ledger.n_runs)),
            )
        )
        start += entry.share
    total = f"{ledger.total_cycles / max(ledger.n_runs, 1):,.0f}"
    rows.append((html.B("Total"), "", "100 %", html.B(total), "", ""))
    cycles = "Cycles of a run" if ledger.n_runs else "Cycles as compiled"
    heads = ("Spent on", "", "% of total", cycles, "Gain at most", "Largest causes")
    note = (
        f"All {ledger.total_tile_cycles:,} tile-cycles {format_runs(ledger.n_runs)}:"
        f" {ledger.total_cycles:,} cycles on {ledger.n_tiles:,} tiles. Gains are upper bounds on"
        " the critical path, and overlap."
    )
    table = plain_table(heads, rows, numbers=(2, 3, 4), class_name="ledger")
    return html.Div([html.H3("What cycles are spent on"), table, _note(note)])


def compared_ledgers(
    baseline: Ledger, candidate: Ledger, changes: Sequence[LedgerChange], reports: Reports
) -> html.Div:
    """Return both ledgers in cycles of a run, the largest change first."""
    if not changes:
        return empty_state("No steps: the reports were written without the compiled program.")
    sides = (baseline, candidate)
    before, after = (side.total_cycles / max(side.n_runs, 1) for side in sides)
    longest = max(before, after, 1.0)
    rows: list[tuple[Any, ...]] = []
    for change in changes:
        known = change.candidate or change.baseline
        assert known is not None
        both = (change.baseline_cycles, change.candidate_cycles)
        bars = html.Div(
            [_bar(change.kind, cycles / longest, 0.0, side) for cycles, side in zip(
                both, ("Baseline", "Candidate"), strict=True)],
            className="ledger-pair",
        )  # fmt: skip
        rows.append(
            (
                _label(known),
                bars,
                *(f"{cycles:,.0f}" for cycles in both),
                format_change_of(round(both[0]), round(change.delta_cycles), "cycles"),
                _both_causes(change, sides, reports),
            )
        )
    totals = (f"{before:,.0f}", f"{after:,.0f}")
    difference = format_change_of(round(before), round(after - before), "cycles")
    rows.append((html.B("Total"), "", *totals, difference, ""))
    heads = ("Spent on", "", "Baseline", "Candidate", "Difference", "Largest causes")
    table = plain_table(heads, rows, numbers=(2, 3, 4), class_name="ledger is-compared")
    note = (
        "Cycles of a run, mean over all tiles: reports with other numbers of runs or tiles compare."
        " The upper bar is the baseline, the lower one the candidate. Cycles are those"
        f" {format_runs(*(side.n_runs for side in sides))}."
    )
    return html.Div([html.H3("What cycles are spent on"), table, _note(note)])


def parts_table(parts: Sequence[LedgerPart]) -> list[Any]:
    """Return what every IPU spends its tile-cycles on, and what for every stage."""
    if not parts:
        return []
    kinds = [kind for kind in LEDGER_KINDS if any(kind in part.tile_cycles for part in parts)]
    rows = [
        (
            html.Span(part.label, className="" if part.stage is None else "ledger-stage"),
            f"{part.total:,}",
            *(
                format_percent(100 * part.tile_cycles.get(kind, 0) / max(part.total, 1))
                for kind in kinds
            ),
        )
        for part in parts
    ]
    heads = ("IPU, stage", "Tile-cycles", *(LEDGER_KINDS[kind].label for kind in kinds))
    table = plain_table(heads, rows, numbers=range(1, len(heads)), class_name="ledger-parts")
    return [html.H3("By IPU and stage"), table]


def _note(text: str) -> html.Div:
    """Return a note below a table."""
    return html.Div(text, className="grid-note")


def _label(entry: LedgerEntry) -> html.Span:
    """Return the name of an entry; its meaning is a tooltip."""
    return html.Span(entry.label, title=f"Tile-cycles in which {entry.meaning}.")


def _bar(kind: str, share: float, start: float, side: str = "") -> html.Div:
    """Return a bar that begins at a share of the width."""
    style = {"marginLeft": f"{100 * start:.3f}%", "width": f"{100 * share:.3f}%"}
    bar = html.Span(className=f"ledger-bar ledger-{kind.replace('_', '-')}", style=style)
    name = f"{side} {format_percent(100 * share)}".strip()
    return marked(html.Div(bar, className="ledger-track", role="img"), aria_label=name)


def _gain(entry: LedgerEntry, total_cycles: int) -> Any:
    """Return the most that can be gained, with its share of the time."""
    if entry.gain_cycles is None:
        return MISSING
    share = format_percent(100 * entry.gain_cycles / total_cycles)
    return html.Span(share, title=f"{entry.gain_cycles:,} cycles")


def _causes(
    entry: LedgerEntry, total: int, reports: Reports, *, has_trace: bool, n_shown: int = _N_CAUSES
) -> html.Div:
    """Return the largest causes of an entry with links."""
    causes = entry.causes[:n_shown]
    parts = [
        html.Div(
            [
                _cause(cause, reports, has_trace=has_trace),
                html.Span(f" {format_percent(100 * cause.tile_cycles / total)}", className="soft"),
            ]
        )
        for cause in causes
    ]
    n_more = entry.n_causes - len(causes)
    if n_more and n_shown == _N_CAUSES:
        parts.append(html.Div(f"{n_more:,} more", className="soft"))
    return html.Div(parts, className="ledger-causes any-break")


def _cause(cause: LedgerCause, reports: Reports, *, has_trace: bool) -> Any:
    """Return the name of a cause, which leads to the operation or the trace."""
    if cause.is_operation:
        name: Any = operation_link(cause.subject, reports, cause.subject)
    elif cause.step_id is not None and has_trace:
        return trace_link(cause.subject, reports, cause.step_id)
    elif cause.step_id is not None:
        return page_link(cause.subject, "/programs", reports, find=cause.subject)
    else:
        return cause.subject
    if cause.step_id is None or not has_trace:
        return name
    return html.Span([name, " · ", trace_link("trace", reports, cause.step_id, cause.subject)])


def _both_causes(change: LedgerChange, sides: tuple[Ledger, Ledger], reports: Reports) -> html.Div:
    """Return the causes of an entry on both sides."""
    parts = []
    of_side = (dict(reports), swapped(reports))
    entries = (change.baseline, change.candidate)
    for entry, side, side_reports, name in zip(
        entries, sides, of_side, ("Baseline", "Candidate"), strict=True
    ):
        if entry is not None:
            mark = html.Span(name, className=f"side-mark side-{name.lower()}")
            total, has_trace = side.total_tile_cycles, bool(side.n_runs)
            causes = _causes(entry, total, side_reports, has_trace=has_trace, n_shown=_N_COMPARED)
            parts.append(html.Div([mark, causes]))
    return html.Div(parts, className="ledger-sides")
