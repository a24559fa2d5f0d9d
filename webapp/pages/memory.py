"""Memory: contents of the tiles by region, category or liveness, of one or two reports."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.memory.tile_memory import TileMemory
from tilescope.analyser.memory.variables import BREAKDOWN_VARIABLES, map_choices, shown_memory
from tilescope.analyser.quantities import format_bytes, format_percent
from tilescope.reports import Report
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect
from tilescope.webapp.components.controls import choice, dropdown, switch, text_box
from tilescope.webapp.components.panels import guarded, headline
from tilescope.webapp.library import Library
from tilescope.webapp.pages.memory_tabs import (
    TAB_PANEL,
    TAB_PARAMETERS,
    memory_tabs,
    register_tabs,
    selected_tiles,
)
from tilescope.webapp.view import Parameter, parse_range, view_store

__all__ = ["ICON", "PANELS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/memory"
TITLE = "Memory"
ICON = "memory"
VIEW = (
    Parameter("breakdown", "category", "memory-breakdown"),
    Parameter("var", "", "memory-var", selects="variable"),
    Parameter("gaps", "", "memory-gaps", "checked"),
    Parameter("max", "", "memory-max", "checked"),
    Parameter("tiles", "", "memory-tiles", selects="tile"),
    *TAB_PARAMETERS,
    Parameter("graph", "tiles", "memory-graph"),
    Parameter("order", "software", "memory-order"),
    Parameter("sides", "merged", "memory-sides"),
    Parameter("of", "total", "memory-of"),
    Parameter("shows", "difference", "memory-shows"),
    Parameter("x"),
    Parameter("y"),
    Parameter("mark"),
)
#: What stands above the chart, and below.
PANELS = {"head": ("breakdown", "gaps", "var", "tiles", "x"), **TAB_PANEL}

_GRAPH_LABELS = {"tiles": "By tile", "map": "Tile map", "lives": "Map over time"}
#: What a map of two reports shows.
_SHOWS = [("difference", "Difference"), ("baseline", "Baseline"), ("candidate", "Candidate")]
#: Groups of controls, which the browser shows where they have something to do.
_FIELDS = ("breakdown", "var", "tiles", "sides", "of", "shows")
_BREAKDOWN_LABELS = {
    "category": "Category",
    "region": "Region",
    "liveness": "Liveness",
    "none": "None",
    BREAKDOWN_VARIABLES: "Variables",
}


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            choice("memory-graph", "Graph", list(_GRAPH_LABELS.items())),
            html.Div(
                choice("memory-breakdown", "Breakdown", list(_BREAKDOWN_LABELS.items())),
                id="memory-breakdown-field",
            ),
            html.Div(
                text_box("memory-var", "Variables to draw", "name or part of it", width="200px"),
                id="memory-var-field",
            ),
            html.Div(
                dropdown("memory-of", "Colour by", [("total", "Memory held")], width="210px"),
                id="memory-of-field",
            ),
            html.Div(choice("memory-shows", "Reports", _SHOWS), id="memory-shows-field"),
            text_box("memory-tiles", "Select tile(s)", "0, 5, 100-103", width="150px"),
            html.Div(
                [
                    choice(
                        "memory-order",
                        "Tile order",
                        [("software", "Software"), ("hardware", "Physical")],
                    ),
                    switch("memory-gaps", "Include gaps"),
                    switch("memory-max", "Show capacity"),
                ],
                id="memory-tiles-field",
                className="toolbar-group",
            ),
            html.Div(
                choice(
                    "memory-sides",
                    "Reports",
                    [("merged", "Merged"), ("separate", "Separate")],
                ),
                id="memory-sides-field",
            ),
        ],
        className="toolbar",
    )
    chart = guarded(
        "memory-figure-error",
        html.Div(id="memory-headlines", className="headlines"),
        html.Div(id="memory-figure"),
        html.Div(id="memory-note", className="chart-note"),
    )
    return html.Div(
        [html.Div([toolbar, chart], className="card"), html.Div(memory_tabs(), className="card")],
        className="stack",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    _register_browser(app)
    register_tabs(app, library)

    @answer(
        app,
        "memory-figure-error",
        [
            Output("memory-headlines", "children"),
            Output("memory-note", "children"),
            Output("memory-of", "data"),
        ],
        Input(view_store("memory", "head"), "data"),
    )
    def show_headlines(view: dict[str, str]) -> tuple[Any, ...]:
        parse_range(view, "x")
        baseline, candidate = library.ask(view, lambda report: _memory(report, view))
        n_tiles = max(len(memory.tile_id) for memory in (baseline, candidate or baseline))
        _, problem = selected_tiles(view, n_tiles)
        heads = [_headline(baseline, "Baseline" if candidate else "")]
        if candidate:
            heads.append(_headline(candidate, "Candidate"))
        notes = [html.Div(problem, className="wrong", role="alert")] if problem else []
        with library.opened(view["report"]) as report:
            choices = [{"value": name, "label": label} for name, label in map_choices(report)]
        return heads, notes, [*choices, {"value": "named", "label": "Variables by name"}]


def _register_browser(app: Dash) -> None:
    """Connect the clientside callbacks: the charts and their controls."""
    connect(app, "charts.memory", Input(view_store("memory"), "data"))
    connect(
        app,
        "charts.memory_fields",
        *(Output(f"memory-{name}-field", "style") for name in _FIELDS),
        Input(view_store("memory"), "data"),
    )


def _memory(report: Report, view: dict[str, str]) -> TileMemory:
    """Return the memory of the tiles in the view's breakdown."""
    return shown_memory(
        report, view["breakdown"], view["gaps"] == "1", view["var"], may_lack=bool(view["with"])
    )


def _headline(memory: TileMemory, side: str) -> html.Div:
    """Return the fullest tile with its percentage of the capacity, or that of some variables."""
    (label, *labels) = memory.series
    if not labels and label != "Total":
        return _variable_headline(memory, label, side)
    fullest = memory.fullest_tile
    size = fullest.bytes
    capacity = memory.capacity_bytes
    share = format_percent(100 * size / capacity) if capacity else "–"
    gaps = "including gaps" if memory.include_gaps else "excluding gaps"
    over = memory.n_tiles_over
    where = "that reaches highest" if memory.include_gaps else "that is fullest"
    caption = f"on the tile {where} ({fullest}), {gaps}: {share} of {format_bytes(capacity)}"
    if over:
        caption += f"; {over:,} {'tiles do' if over > 1 else 'tile does'} not fit"
    return headline(format_bytes(size), caption, exact=f"{size:,} B", side=side)


def _variable_headline(memory: TileMemory, label: str, side: str) -> html.Div:
    """Return the largest size of some variables on a tile, and the number of tiles they use."""
    size, total = int(memory.total_bytes.max(initial=0)), int(memory.total_bytes.sum())
    n_tiles = memory.n_tiles_used
    if not total:
        hint = "choose a variable: enter a name above, or click one in the tab Variables below"
        return headline("–", f"no variable is called {label}" if label else hint, side=side)
    fullest = memory.fullest_tile
    tiles = f"{n_tiles:,} tile{'s' * (n_tiles != 1)}"
    caption = f"on the tile with the most ({fullest}), {format_bytes(total)} on {tiles}: {label}"
    return headline(format_bytes(size), caption, exact=f"{size:,} B", side=side)
