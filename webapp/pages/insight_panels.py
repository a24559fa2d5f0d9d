"""Cards of the page Insights about memory: fullest tiles, variables, code, of one report or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.advice.insights import Consumer, Fit, FullTile, Insights, fit_sentence
from tilescope.analyser.diff.alignment.pairs import SizeChange
from tilescope.analyser.memory.liveness import LiveVariables
from tilescope.analyser.quantities import format_bytes, format_change_of, format_percent
from tilescope.analyser.ranking import consumer_changes, live_changes
from tilescope.webapp.browser import marked
from tilescope.webapp.components.histogram import tile_histogram
from tilescope.webapp.components.links import (
    Reports,
    page_link,
    swapped,
    tile_link,
    variable_link,
)
from tilescope.webapp.components.panels import notice_bar
from tilescope.webapp.components.tables import plain_table
from tilescope.webapp.figures.theme import series_colour

__all__ = ["compared_cards", "fit_notice", "memory_cards"]

_N_VARIABLES = 10


def fit_notice(fit: Fit, side: str) -> html.Div:
    """Return the banner that states whether the program fits."""
    sentence = fit_sentence(fit)
    return notice_bar("info" if fit.fits else "error", f"{side}: {sentence}" if side else sentence)


def memory_cards(insights: Insights, reports: Reports) -> list[Any]:
    """Return the cards of one report."""
    cards = [
        html.Div(
            [_fullest_tiles(insights.fullest_tiles, insights.fit, reports), _histogram(insights)],
            className="card details operation-columns",
        )
    ]
    title: list[Any] = [
        "Always live on ",
        tile_link("the fullest tile", reports, insights.fullest.tile_id),
    ]
    title.append(f" ({insights.fullest})")
    blocks = [_variables(title, insights.always_live, reports)]
    if insights.peak is not None:
        peak = insights.peak
        step = page_link(f"step {peak.step:,}", "/liveness", reports, step=str(peak.step))
        title = ["Also live at the peak, ", step, f": {peak.kind} {peak.name}"]
        blocks.append(_variables(title, peak.variables, reports))
    cards.append(html.Div(blocks, className="card details operation-columns"))
    code = [
        _consumers("Vertex state, all tiles", "Codelet", insights.vertex_states, reports),
        _consumers("Codelet code, per tile", "Codelet", insights.vertex_codes, reports),
        _exchanges(insights.exchanges, reports),
    ]
    cards.append(html.Div(code, className="card details operation-columns wide-blocks"))
    return cards


def compared_cards(baseline: Insights, candidate: Insights, reports: Reports) -> list[Any]:
    """Return the cards of two reports: tiles side by side, the rest aligned by name."""
    sides = (
        ("Baseline", baseline, dict(reports)),
        ("Candidate", candidate, swapped(reports)),
    )
    tiles = [
        html.Div(
            [
                _side_mark(side),
                _fullest_tiles(insights.fullest_tiles, insights.fit, of_side),
                _histogram(insights),
            ]
        )
        for side, insights, of_side in sides
    ]
    always = live_changes(baseline.always_live, candidate.always_live)
    peaks = [side.peak.variables if side.peak else None for side in (baseline, candidate)]
    variables = {
        name
        for side in (baseline.always_live, candidate.always_live, *peaks)
        if side is not None
        for name, variable_id in zip(side.name, side.variable_id.tolist(), strict=True)
        if variable_id >= 0
    }
    live = [
        _changes("Always live on the fullest tile", always, reports, variables),
        _changes("Also live at its peak", live_changes(*peaks), reports, variables),
    ]
    code = [
        _changes(title, consumer_changes(*both), reports)
        for title, both in (
            ("Vertex state, all tiles", (baseline.vertex_states, candidate.vertex_states)),
            ("Codelet code, per tile", (baseline.vertex_codes, candidate.vertex_codes)),
        )
    ]
    exchanges = consumer_changes(baseline.exchanges, candidate.exchanges)
    code.append(_changes("Exchange code, all tiles", exchanges, reports, are_programs=True))
    return [
        html.Div(tiles, className="card details operation-columns"),
        html.Div(live, className="card details operation-columns wide-blocks"),
        html.Div(code, className="card details operation-columns wide-blocks"),
    ]


def _side_mark(side: str) -> html.Span:
    """Return the mark of the baseline or the candidate."""
    return html.Span(side, className=f"side-mark side-{side.lower()}")


def _changes(
    title: str,
    changes: Sequence[SizeChange],
    reports: Reports,
    variables: set[str] | None = None,
    *,
    are_programs: bool = False,
) -> html.Div:
    """Return sizes of two reports by name, the largest change first.

    Variables lead to where they lie, programs to the tree.
    """
    rows: list[Any] = []
    for change in changes[:_N_VARIABLES]:
        side_reports = reports if change.baseline is not None else swapped(reports)
        name: Any = change.key
        if are_programs:
            name = _in_tree(change.key, side_reports)
        elif variables is not None and change.key in variables:
            name = variable_link(change.key, side_reports, change.key)
        rows.append(
            (
                name,
                format_bytes(change.baseline),
                format_bytes(change.candidate),
                format_change_of(change.baseline, change.delta, "bytes"),
            )
        )
    n_more = len(changes) - len(rows)
    if n_more:
        rest = changes[len(rows) :]
        before, after = (
            sum(getattr(change, side) or 0 for change in rest) for side in ("baseline", "candidate")
        )
        texts = (format_bytes(before), format_bytes(after))
        rows.append((f"{n_more:,} more", *texts, format_change_of(before, after - before, "bytes")))
    table = plain_table(("", "Baseline", "Candidate", "Difference"), rows, numbers=(1, 2, 3))
    return html.Div([html.H3(title), table], className="any-break")


def _fullest_tiles(worst: Sequence[FullTile], fit: Fit, reports: Reports) -> html.Div:
    """Return the fullest tiles as bars of their contents; their numbers lead to their memory."""
    widest = max((tile.including_gaps_bytes for tile in worst), default=1) or 1
    labels = dict.fromkeys(label for tile in worst for label in tile.categories)
    colours = {label: series_colour(label, index) for index, label in enumerate(labels)}
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
        class_name="fullest-tiles",
    )
    return html.Div([html.H3("Fullest tiles"), table, html.Div(legend, className="legend")])


def _bar(tile: FullTile, widest: int, colours: dict[str, str]) -> html.Div:
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
    largest_parts = ", ".join(
        f"{label} {format_bytes(size)}" for label, size, _, _ in parts if size
    )
    return marked(bar, aria_label=largest_parts)


def _histogram(insights: Insights) -> html.Div:
    """Return the distribution of memory over tiles as bars."""
    edges, counts = insights.histogram_edges_bytes.tolist(), insights.histogram_n_tiles.tolist()
    holds = "tile holds", "tiles hold"
    bars = tile_histogram(edges, counts, format_bytes, holds=holds, of_memory=True)
    return html.Div([html.H3("Distribution over tiles, excluding gaps"), bars])


def _variables(title: Sequence[Any], variables: LiveVariables, reports: Reports) -> html.Div:
    """Return the largest variables and the total of the rest; names lead to where they lie."""
    rows: list[tuple[Any, ...]] = [
        (
            _variable(variables, index, reports),
            html.Span(variables.dtype[index], className="no-break"),
            format_bytes(int(variables.bytes[index])),
        )
        for index in range(min(_N_VARIABLES, len(variables)))
    ]
    rest = len(variables) - len(rows)
    if rest:
        size = int(variables.bytes[len(rows) :].sum())
        rows.append((f"{rest:,} more", "", format_bytes(size)))
    rows.append(("Total", "", format_bytes(variables.total_bytes)))
    table = plain_table(("Variable, code or state", "Type", "Size"), rows, numbers=(2,))
    return html.Div([html.H3(title), table], className="any-break")


def _variable(variables: LiveVariables, row: int, reports: Reports) -> Any:
    """Return the name of a row; one of a variable leads to it."""
    name = variables.name[row]
    return variable_link(name, reports, name) if variables.variable_id[row] >= 0 else name


def _consumers(
    title: str, description: str, consumers: Sequence[Consumer], reports: Reports
) -> html.Div:
    """Return codelets by size, with the compute sets that use them, which lead to the tree."""
    rows = [
        (
            consumer.name,
            format_bytes(consumer.bytes),
            f"{consumer.n_users:,}",
            _in_tree(consumer.detail, reports),
        )
        for consumer in consumers
    ]
    table = plain_table((description, "Size", "Compute sets", "Largest user"), rows, numbers=(1, 2))
    return html.Div([html.H3(title), table], className="any-break")


def _in_tree(name: str, reports: Reports) -> Any:
    """Return a link that finds a name in the program tree."""
    return page_link(name, "/programs", reports, find=name) if name else "–"


def _exchanges(consumers: Sequence[Consumer], reports: Reports) -> html.Div:
    """Return exchanges and copies by their code; names lead to the program tree."""
    rows = [
        (
            _in_tree(exchange.name, reports),
            html.Span(exchange.detail, className="no-break"),
            format_bytes(exchange.bytes),
        )
        for exchange in consumers
    ]
    table = plain_table(("Exchange or copy", "Kind", "Size"), rows, numbers=(2,))
    return html.Div([html.H3("Exchange code, all tiles"), table], className="any-break")
