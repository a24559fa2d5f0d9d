"""What makes a program fit: remedies with their effect, of one report or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.advice.remedy import FitAdvice, Remedy, fit_verdict, live_words
from tilescope.analyser.advice.shortfall import Shortfall, TileShortfall
from tilescope.analyser.quantities import format_bytes
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY
from tilescope.webapp.components.commands import copied_command
from tilescope.webapp.components.links import Reports, tile_link, variable_link
from tilescope.webapp.components.tables import plain_table

__all__ = ["fit_card"]

_N_ITEMS = 8
#: How a gain is known, for people who look at its mark.
_KNOWN = {
    "exact": "The report decides the bytes.",
    "estimate": "As the plans are now: the compiler plans anew and may gain more or less.",
    "at most": "An upper bound: the report does not decide what remains.",
}


def fit_card(
    advice: FitAdvice, lacking: Shortfall | None, reports: Reports, side: str = ""
) -> html.Details:
    """Return the card of one report: open if it does not fit, folded if it does."""
    title = ("Make it fit" if not advice.fits else "Use less memory") + (
        f": {side}" if side else ""
    )
    body: list[Any] = [html.P(fit_verdict(advice))]
    if advice.command and len(advice.together) > 1:
        body.append(copied_command(advice.command))
    body.append(_remedies(advice, reports))
    if lacking is not None:
        body.append(_lacking(lacking.tiles, reports))
    note = (
        "The gain on a tile is what it holds less, with gaps as they are. Commands write a report"
        " to compare with this one; adapt the path of the model."
    )
    body.append(html.Div(note, className="grid-note"))
    return html.Details(
        [html.Summary(html.H3(title)), *body],
        open=not advice.fits,
        className="card details fit-card",
    )


def _remedies(advice: FitAdvice, reports: Reports) -> Any:
    """Return the remedies, what gains most on the worst tile first."""
    if not advice.remedies:
        return html.P("No remedy that this page knows gains anything.")
    heads: list[Any] = ["Remedy", "Gain", "Known"]
    if not advice.fits:
        heads += ["Tiles over then", "Worst tile lacks", "All tiles lack"]
    rows = [
        (
            _remedy(remedy, _mark(advice, remedy), live_words(advice, remedy)),
            html.Span(format_bytes(remedy.gain_bytes), title=f"{remedy.gain_bytes:,} B"),
            html.Span(remedy.certainty, title=_KNOWN[remedy.certainty], className="no-break"),
            *(_after(remedy) if not advice.fits else ()),
        )
        for remedy in advice.remedies
    ]
    tile = tile_link(f"tile {advice.tile_id:,}", reports, advice.tile_id)
    which = "lacks most" if not advice.fits else "is the fullest"
    caption = html.P(["Gains on ", tile, f", which {which}:"])
    table = plain_table(heads, rows, numbers=(1, 3, 4, 5), class_name="remedies")
    return html.Div([caption, table])


def _mark(advice: FitAdvice, remedy: Remedy) -> str:
    """Return what is said of a remedy of the least set that suffices; empty for others."""
    if remedy.name not in advice.together:
        return ""
    may = "" if advice.is_certain else "may "
    if len(advice.together) == 1:
        return f"{may}suffice" if may else "suffices"
    return f"one of {len(advice.together)} that {may}suffice together"


def _remedy(remedy: Remedy, mark: str, live: str) -> html.Div:
    """Return what to do, whether it is part of the least set that suffices, and the command."""
    marks = [html.Span(mark, className="remedy-mark")] if mark else []
    parts: list[Any] = [
        html.Div([html.B(remedy.title), " ", *marks]),
        html.Div(f"{remedy.text} {live}".rstrip(), className="soft-text"),
    ]
    if remedy.command:
        parts.append(copied_command(remedy.command))
    return html.Div(parts)


def _after(remedy: Remedy) -> tuple[Any, ...]:
    """Return what still lacks with a remedy alone."""
    after = remedy.after
    if remedy.is_enough:
        fits = "fits" if remedy.certainty == "exact" else "may fit"
        return html.B(fits), "0 B", "0 B"
    return (
        f"{after.n_tiles:,}",
        html.Span(format_bytes(after.worst_bytes), title=f"{after.worst_bytes:,} B"),
        html.Span(format_bytes(after.total_bytes), title=f"{after.total_bytes:,} B"),
    )


def _lacking(tiles: Sequence[TileShortfall], reports: Reports) -> html.Div:
    """Return the least number of things that would have to go from the worst tiles."""
    blocks = []
    for tile in tiles:
        rows = [
            (
                variable_link(item.name, reports, item.name)
                if MEMORY_CATEGORY[item.category].is_variable
                else item.name,
                "always" if item.is_always_live else "at the peak",
                format_bytes(item.bytes),
            )
            for item in tile.items[:_N_ITEMS]
        ]
        n_more = len(tile.items) - len(rows)
        if n_more > 0:
            size = sum(item.bytes for item in tile.items[len(rows) :])
            rows.append((f"{n_more:,} more", "", format_bytes(size)))
        title: list[Any] = [
            tile_link(f"Tile {tile.tile_id:,}", reports, tile.tile_id),
            f" lacks {format_bytes(tile.missing_bytes)}; what would have to go",
            "" if tile.is_enough else " (not enough: gaps count, too)",
        ]
        table = plain_table(("Largest first", "Live", "Size"), rows, numbers=(2,))
        blocks.append(html.Div([html.H3(title), table], className="any-break"))
    return html.Div(blocks, className="operation-columns")
