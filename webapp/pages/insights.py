"""Insights: whether the program fits, the fullest tiles, the largest memory users, and advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.insights import (
    Consumer,
    Fit,
    Insights,
    WorstTile,
    fit_sentence,
    insights,
    tips,
)
from tilescope.analyser.liveness import LiveVariables
from tilescope.analyser.quantities import format_bytes, format_percent
from tilescope.analyser.shortfall import shortfall_sentences
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import marked
from tilescope.webapp.components.histogram import tile_histogram
from tilescope.webapp.components.links import (
    Reports,
    page_link,
    reports_of,
    tile_link,
    variable_link,
)
from tilescope.webapp.components.panels import guarded, notice_bar
from tilescope.webapp.components.tables import plain_table
from tilescope.webapp.figures.theme import series_colour
from tilescope.webapp.library import Library
from tilescope.webapp.view import Parameter, view_store

__all__ = ["ICON", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/insights"
TITLE = "Insights"
ICON = "insights"
VIEW: tuple[Parameter, ...] = ()

_N_VARIABLES = 10


def layout() -> html.Div:
    """Return the page without content."""
    return html.Div(guarded("insights-error", html.Div(id="insights-body", className="stack")))


def register(app: Dash, library: Library) -> None:
    """Connect the page."""

    @answer(
        app,
        "insights-error",
        [Output("insights-body", "children")],
        Input(view_store("insights"), "data"),
    )
    def show(view: dict[str, str]) -> tuple[Any, ...]:
        baseline, candidate = library.ask(view, insights)
        blocks: list[Any] = [_fit(baseline.fit, "Baseline" if candidate else "")]
        if candidate is not None:
            blocks.append(_fit(candidate.fit, "Candidate"))
            sentence = "The rest of the page shows the baseline; swap to see the candidate."
            blocks.append(html.Div(sentence, className="grid-note"))
        return ([*blocks, *_body(baseline, reports_of(view))],)


def _fit(fit: Fit, side: str) -> html.Div:
    """Return the banner that states whether the program fits."""
    sentence = fit_sentence(fit)
    return notice_bar("info" if fit.fits else "error", f"{side}: {sentence}" if side else sentence)


def _body(found: Insights, reports: Reports) -> list[Any]:
    """Return the cards below the banner."""
    cards = [
        html.Div(
            [_worst_tiles(found.worst_tiles, found.fit, reports), _histogram(found)],
            className="card details operation-columns",
        )
    ]
    if found.shortfall is not None:
        items = [html.Li(sentence) for sentence in shortfall_sentences(found.shortfall)]
        cards.append(
            html.Div(
                [html.H3("What it lacks"), html.Ul(items, className="sentences")],
                className="card details",
            )
        )
    advice = tips(found)
    if advice:
        items = [html.Li([html.B(f"{tip.title}. "), tip.text]) for tip in advice]
        cards.append(
            html.Div(
                [html.H3("Recommendations"), html.Ul(items, className="sentences")],
                className="card details",
            )
        )
    title: list[Any] = [
        "Always live on ",
        tile_link("the fullest tile", reports, found.fullest.tile_id),
    ]
    title.append(f" ({found.fullest})")
    blocks = [_variables(title, found.always_live, reports)]
    if found.peak is not None:
        peak = found.peak
        step = page_link(f"step {peak.step:,}", "/liveness", reports, step=str(peak.step))
        title = ["Also live at the peak, ", step, f": {peak.kind} {peak.name}"]
        blocks.append(_variables(title, peak.variables, reports))
    cards.append(html.Div(blocks, className="card details operation-columns"))
    code = [
        _consumers("Vertex state, all tiles", "Codelet", found.vertex_states, reports),
        _consumers("Codelet code, per tile", "Codelet", found.vertex_codes, reports),
        _exchanges(found.exchanges, reports),
    ]
    cards.append(html.Div(code, className="card details operation-columns wide-blocks"))
    return cards


def _worst_tiles(worst: Sequence[WorstTile], fit: Fit, reports: Reports) -> html.Div:
    """Return the fullest tiles as bars of their contents; their numbers lead to their memory."""
    widest = max((tile.including_gaps_bytes for tile in worst), default=1) or 1
    labels = dict.fromkeys(label for tile in worst for label in tile.categories)
    colours = {label: series_colour(label, place) for place, label in enumerate(labels)}
    rows = [
        (
            tile_link(f"{tile.tile_id:,}", reports, tile.tile_id),
            f"{tile.ipu_id:,}",
            _bar(tile, widest, colours),
            html.Span(
                format_bytes(tile.excluding_gaps_bytes), title=f"{tile.excluding_gaps_bytes:,} B"
            ),
            format_percent(100 * tile.excluding_gaps_bytes / fit.capacity_bytes),
        )
        for tile in worst
    ]
    legend = [
        html.Span([html.Span(className="swatch", style={"background": colour}), label])
        for label, colour in (*colours.items(), ("Gaps", series_colour("Gaps", 0)))
    ]
    table = plain_table(
        ("Tile", "IPU", "Contents", "Held", "% of capacity"),
        rows,
        numbers=(0, 1, 3, 4),
        class_name="worst-tiles",
    )
    return html.Div([html.H3("Fullest tiles"), table, html.Div(legend, className="legend")])


def _bar(tile: WorstTile, widest: int, colours: dict[str, str]) -> html.Div:
    """Return a tile as a bar of its contents with sizes as tooltips; gaps come last.

    Categories that share addresses add up to more than the tile's memory, so they are scaled.
    """
    held = max(sum(tile.categories.values()), 1)
    scale = tile.excluding_gaps_bytes / held
    gaps = max(tile.including_gaps_bytes - tile.excluding_gaps_bytes, 0)
    parts = [(label, size, size * scale, colours[label]) for label, size in tile.categories.items()]
    parts.append(("Gaps", gaps, float(gaps), series_colour("Gaps", 0)))
    bar = html.Div(
        [
            html.Span(
                style={"width": f"{100 * width / widest:.2f}%", "background": colour},
                title=f"{label}: {size:,} B",
            )
            for label, size, width, colour in parts
        ],
        className="stacked-bar",
        role="img",
    )
    most = ", ".join(f"{label} {format_bytes(size)}" for label, size, _, _ in parts if size)
    return marked(bar, aria_label=most)


def _histogram(found: Insights) -> html.Div:
    """Return the distribution of memory over tiles as bars."""
    edges, counts = found.histogram_edges_bytes.tolist(), found.histogram_n_tiles.tolist()
    holds = "tile holds", "tiles hold"
    bars = tile_histogram(edges, counts, format_bytes, holds=holds, of_memory=True)
    return html.Div([html.H3("Distribution over tiles, excluding gaps"), bars])


def _variables(title: Sequence[Any], found: LiveVariables, reports: Reports) -> html.Div:
    """Return the largest variables and the total of the rest; names lead to where they lie."""
    rows: list[tuple[Any, ...]] = [
        (
            _variable(found, place, reports),
            html.Span(found.dtype[place], className="no-break"),
            format_bytes(int(found.bytes[place])),
        )
        for place in range(min(_N_VARIABLES, len(found)))
    ]
    rest = len(found) - len(rows)
    if rest:
        size = int(found.bytes[len(rows) :].sum())
        rows.append((f"{rest:,} more", "", format_bytes(size)))
    rows.append(("Total", "", format_bytes(found.total_bytes)))
    table = plain_table(("Variable, code or state", "Type", "Size"), rows, numbers=(2,))
    return html.Div([html.H3(title), table], className="any-break")


def _variable(found: LiveVariables, place: int, reports: Reports) -> Any:
    """Return the name of a row; one of a variable leads to it."""
    name = found.name[place]
    return variable_link(name, reports, name) if found.variable_id[place] >= 0 else name


def _consumers(title: str, what: str, found: Sequence[Consumer], reports: Reports) -> html.Div:
    """Return codelets by size, with the compute sets that use them, which lead to the tree."""
    rows = [
        (
            consumer.name,
            format_bytes(consumer.bytes),
            f"{consumer.n_users:,}",
            _in_tree(consumer.detail, reports),
        )
        for consumer in found
    ]
    table = plain_table((what, "Size", "Compute sets", "Largest user"), rows, numbers=(1, 2))
    return html.Div([html.H3(title), table], className="any-break")


def _in_tree(name: str, reports: Reports) -> Any:
    """Return a link that finds a name in the program tree."""
    return page_link(name, "/programs", reports, find=name) if name else "–"


def _exchanges(found: Sequence[Consumer], reports: Reports) -> html.Div:
    """Return exchanges and copies by their code; names lead to the program tree."""
    rows = [
        (
            _in_tree(exchange.name, reports),
            html.Span(exchange.detail, className="no-break"),
            format_bytes(exchange.bytes),
        )
        for exchange in found
    ]
    table = plain_table(("Exchange or copy", "Kind", "Size"), rows, numbers=(2,))
    return html.Div([html.H3("Exchange code, all tiles"), table], className="any-break")
