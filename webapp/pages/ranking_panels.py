"""Insights for memory and time in one list, of one report or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

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

__all__ = ["compared_ranking", "ranking_card"]

_TOPICS = {"memory": "Memory", "time": "Time"}
#: Insights that are shown; the command lists all.
_N_SHOWN = 12


def ranking_card(found: Sequence[RankedInsight], reports: Reports, n_runs: int) -> html.Div:
    """Return the insights of one report with its recorded runs, the largest share first."""
    rows = [
        (
            _topic(one),
            _text(one, reports),
            html.Span(_gain(one), title=one.bound),
            MISSING if one.share is None else format_percent(100 * one.share),
        )
        for one in found[:_N_SHOWN]
    ]
    heads = ("", "What to change first", "Gain", "Share")
    return _card(rows, heads, (2, 3), len(found), format_runs(n_runs))


def compared_ranking(
    found: Sequence[Pair[RankedInsight]], reports: Reports, n_runs: tuple[int, int]
) -> html.Div:
    """Return the insights of two reports with their recorded runs side by side."""
    rows = []
    for pair in found[:_N_SHOWN]:
        own = reports if pair.baseline is not None else swapped(reports)
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
                _text(known, own, state),
                _gain(before) if before is not None else MISSING,
                _gain(after) if after is not None else MISSING,
                change,
            )
        )
    heads = ("", "What to change first", "Baseline, gain", "Candidate, gain", "Difference")
    return _card(rows, heads, (2, 3, 4), len(found), format_runs(*n_runs))


def _card(
    rows: Sequence[Sequence[Any]],
    heads: Sequence[str],
    numbers: Sequence[int],
    n_found: int,
    runs: str,
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
    return html.Div([title, table, html.Div(note, className="grid-note")])


def _topic(one: RankedInsight) -> html.Span:
    """Return the topic of an insight as a mark."""
    return html.Span(_TOPICS[one.topic], className=f"topic-mark topic-{one.topic}")


def _gain(one: RankedInsight) -> str:
    """Return what can be gained."""
    if one.gain is None:
        return MISSING
    return format_bytes(one.gain) if one.topic == "memory" else format_cycles(one.gain)


def _text(one: RankedInsight, reports: Reports, state: str = "") -> html.Div:
    """Return what was found, what to try, and where it leads."""
    head: list[Any] = [html.B(one.title)]
    if one.subject:
        head += [": ", one.subject]
    if state:
        head.append(html.Span(f" ({state})", className="soft"))
    parts: list[Any] = [html.Div(head), html.Div(f"{one.text} {one.advice}".strip())]
    links = _links(one, reports)
    if links:
        parts.append(html.Div(links, className="places"))
    return html.Div(parts, className="any-break")


def _links(one: RankedInsight, reports: Reports) -> list[Any]:
    """Return links to the places of an insight."""
    links: list[Any] = []
    if one.operation:
        links.append(operation_link("Operation", reports, one.operation))
    if one.step_id is not None:
        links.append(trace_link("Trace", reports, one.step_id))
    if one.program_id is not None:
        links.append(program_link("Program tree", reports, one.program_id))
    if one.program:
        links.append(page_link("Program tree", "/programs", reports, find=one.program))
    if one.tile_id is not None:
        links.append(tile_link(f"Tile {one.tile_id:,}", reports, one.tile_id))
    return links
