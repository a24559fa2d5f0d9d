"""Insights for memory and time in one list, of one report or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.advice.experiments import Experiment
from tilescope.analyser.advice.trust import ReportTrust
from tilescope.analyser.diff import Pair
from tilescope.analyser.quantities import (
    MISSING,
    format_bytes,
    format_change_of,
    format_cycles,
    format_percent,
    format_runs,
)
from tilescope.analyser.ranking import RankedInsight
from tilescope.webapp.components.commands import copied_command
from tilescope.webapp.components.links import (
    Reports,
    operation_link,
    page_link,
    program_link,
    swapped,
    tile_link,
    trace_link,
)
from tilescope.webapp.components.panels import empty_state
from tilescope.webapp.components.tables import plain_table

__all__ = ["compared_ranking", "experiment_list", "ranking_card"]

_TOPICS = {"memory": "Memory", "time": "Time"}
#: Insights that are shown; the command lists all.
_N_SHOWN = 12


def ranking_card(
    insights: Sequence[RankedInsight], reports: Reports, n_runs: int, trust: ReportTrust
) -> html.Div:
    """Return the insights of one report with its recorded runs, the largest share first."""
    rows = [
        (
            _topic(insight),
            _text(insight, reports, trust),
            html.Span(_gain(insight), title=insight.bound),
            MISSING if insight.share is None else format_percent(100 * insight.share),
        )
        for insight in insights[:_N_SHOWN]
    ]
    heads = ("", "What to change first", "Gain", "Share")
    return _card(rows, heads, (2, 3), len(insights), format_runs(n_runs), trust.notes)


def compared_ranking(
    pairs: Sequence[Pair[RankedInsight]],
    reports: Reports,
    n_runs: tuple[int, int],
    trusts: tuple[ReportTrust, ReportTrust],
) -> html.Div:
    """Return the insights of two reports with their recorded runs side by side."""
    rows = []
    for pair in pairs[:_N_SHOWN]:
        side_reports = reports if pair.baseline is not None else swapped(reports)
        trust = trusts[0] if pair.baseline is not None else trusts[1]
        known = pair.known
        before, after = pair.baseline, pair.candidate
        sizes = [side.gain if side is not None else None for side in (before, after)]
        unit = "bytes" if known.topic == "memory" else "cycles"
        change = MISSING
        if any(size is not None for size in sizes):
            change = format_change_of(sizes[0], (sizes[1] or 0) - (sizes[0] or 0), unit)
        state = "only in candidate" if before is None else "gone" if after is None else ""
        rows.append(
            (
                _topic(known),
                _text(known, side_reports, trust, state),
                _gain(before) if before is not None else MISSING,
                _gain(after) if after is not None else MISSING,
                change,
            )
        )
    heads = ("", "What to change first", "Baseline, gain", "Candidate, gain", "Difference")
    notes = tuple(dict.fromkeys(note for trust in trusts for note in trust.notes))
    return _card(rows, heads, (2, 3, 4), len(pairs), format_runs(*n_runs), notes)


def _card(
    rows: Sequence[Sequence[Any]],
    heads: Sequence[str],
    numbers: Sequence[int],
    n_found: int,
    runs: str,
    trust_notes: Sequence[str],
) -> html.Div:
    """Return a titled table of insights."""
    title = html.H3("Insights, by gain")
    if not rows:
        return html.Div([title, empty_state("Nothing stands out in memory or time.")])
    note = (
        "Gains overlap. Those of time are upper bounds; those of memory are computed with the"
        " plans and messages of this report, which the compiler may choose anew. Shares are of the"
        f" fullest tile's capacity and of the cycles {runs}."
    )
    if n_found > len(rows):
        note += f" {n_found - len(rows):,} more: 'tilescope insights REPORT --top {n_found}'."
    table = plain_table(heads, rows, numbers=numbers, class_name="ranking")
    notes = [html.Div(text, className="grid-note") for text in (note, " ".join(trust_notes))]
    return html.Div([title, table, *notes])


def experiment_list(found: Sequence[Experiment]) -> list[Any]:
    """Return what another precision or machine saves, as commands that measure it."""
    if not found:
        return []
    return [
        html.H3("What another precision or machine saves"),
        html.Div(
            "No report knows that: run the command beside the model, then compare both reports"
            " (Candidate above, or tilescope diff).",
            className="grid-note",
        ),
        *(html.Div([html.B(one.title), copied_command(one.command)]) for one in found),
    ]


def _topic(insight: RankedInsight) -> html.Span:
    """Return the topic of an insight as a mark."""
    return html.Span(_TOPICS[insight.topic], className=f"topic-mark topic-{insight.topic}")


def _gain(insight: RankedInsight) -> str:
    """Return what can be gained."""
    if insight.gain is None:
        return MISSING
    return format_bytes(insight.gain) if insight.topic == "memory" else format_cycles(insight.gain)


def _text(
    insight: RankedInsight, reports: Reports, trust: ReportTrust, state: str = ""
) -> html.Div:
    """Return what was found, what to try, how far to trust its figures, and where it leads."""
    head: list[Any] = [html.B(insight.title)]
    if insight.subject:
        head += [": ", insight.subject]
    if state:
        head.append(html.Span(f" ({state})", className="soft"))
    parts: list[Any] = [html.Div(head), html.Div(f"{insight.text} {insight.advice}".strip())]
    if insight.operation in trust.by_operation:
        error = f"Expected error of {trust.text(insight.operation)}."
        parts.append(html.Div(error, className="soft"))
    links = _links(insight, reports)
    if links:
        parts.append(html.Div(links, className="places"))
    return html.Div(parts, className="any-break")


def _links(insight: RankedInsight, reports: Reports) -> list[Any]:
    """Return links to the places of an insight."""
    links: list[Any] = []
    if insight.operation:
        links.append(operation_link("Operation", reports, insight.operation))
    if insight.step_id is not None:
        links.append(trace_link("Trace", reports, insight.step_id))
    if insight.program_id is not None:
        links.append(program_link("Program tree", reports, insight.program_id))
    if insight.program:
        links.append(page_link("Program tree", "/programs", reports, find=insight.program))
    if insight.tile_id is not None:
        links.append(tile_link(f"Tile {insight.tile_id:,}", reports, insight.tile_id))
    return links
