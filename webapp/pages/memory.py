"""Memory: contents of the tiles by region, category or liveness, of one or two reports."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.machine import target
from tilescope.analyser.quantities import format_bytes, format_percent
from tilescope.analyser.tile_memory import TileMemory, memory_table
from tilescope.analyser.variables import BREAKDOWN_VARIABLES, map_choices, shown_memory
from tilescope.reports import Report
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect
from tilescope.webapp.components.controls import choice, dropdown, switch, tabs, text_box
from tilescope.webapp.components.grids import (
    address_column,
    bytes_column,
    change_column,
    grid,
    grid_style,
    life_column,
    name_column,
    number_column,
    share_column,
    text_column,
)
from tilescope.webapp.components.panels import empty_state, guarded, headline
from tilescope.webapp.components.tables import compare_memory, nested_memory
from tilescope.webapp.library import Library
from tilescope.webapp.pages.memory_rows import change_rows, ranking_rows, variable_rows
from tilescope.webapp.view import BadView, Parameter, parse_numbers, parse_range, view_store

__all__ = ["ICON", "NEEDS", "PANELS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/memory"
TITLE = "Memory"
ICON = "memory"
NEEDS = ("grid",)
VIEW = (
    Parameter("breakdown", "category", "memory-breakdown"),
    Parameter("var", "", "memory-var", selects="variable"),
    Parameter("gaps", "", "memory-gaps", "checked"),
    Parameter("max", "", "memory-max", "checked"),
    Parameter("tiles", "", "memory-tiles", selects="tile"),
    Parameter("tab", "details", "memory-tabs"),
    Parameter("name", "", "memory-name"),
    Parameter("graph", "tiles", "memory-graph"),
    Parameter("order", "software", "memory-order"),
    Parameter("sides", "merged", "memory-sides"),
    Parameter("of", "total", "memory-of"),
    Parameter("x"),
    Parameter("y"),
    Parameter("mark"),
)
#: What stands above the chart.
PANELS = {"head": ("breakdown", "gaps", "var", "tiles", "x")}

#: Maximum number of columns of the Details table.
_MAX_COLUMNS = 12
_GRAPH_LABELS = {"tiles": "By tile", "map": "Tile map", "lives": "Map over time"}
#: Groups of controls, which the browser shows where they have something to do.
_FIELDS = ("breakdown", "var", "tiles", "sides", "of")
_BREAKDOWN_LABELS = {
    "category": "Category",
    "region": "Region",
    "liveness": "Liveness",
    "none": "None",
    BREAKDOWN_VARIABLES: "Variables",
}
_VARIABLE_COLUMNS = (
    address_column("offset", "Address"),
    bytes_column("bytes", "Size", width=95),
    name_column("name", "Variable"),
    text_column("dtype", "Type", width=85),
    text_column("category", "Category", width=155),
    text_column("region", "Region", width=118),
    life_column(),
)
_TILE_COLUMNS = (
    number_column("tile", "Tile", width=90, is_place=True),
    number_column("ipu", "IPU", width=80, is_place=True),
    bytes_column("including", "Highest address", width=140),
    bytes_column("excluding", "Excluding gaps", width=140),
    share_column("share", "% of capacity", width=110),
)
_CHANGE_COLUMNS = (
    number_column("tile", "Tile", width=90, is_place=True),
    bytes_column("baseline", "Baseline", width=130),
    bytes_column("candidate", "Candidate", width=130),
    change_column("diff", "Diff"),
)


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
    variables = html.Div(
        [
            html.Div(
                [
                    text_box("memory-name", "Filter variables", "name", is_search=True),
                    html.Div(id="memory-variables-note", className="grid-note"),
                ],
                className="toolbar",
            ),
            guarded(
                "memory-variables-error",
                grid(
                    "memory-variables",
                    _VARIABLE_COLUMNS,
                    selects=True,
                    empty="Select a tile to see its variables: click in the chart or type its"
                    " number above.",
                ),
            ),
        ]
    )
    tables = tabs(
        "memory-tabs",
        [
            ("details", "Details", guarded("memory-details-error", html.Div(id="memory-details"))),
            ("variables", "Variables", variables),
            (
                "tiles",
                "Fullest tiles",
                guarded(
                    "memory-ranking-error",
                    grid("memory-ranking", _TILE_COLUMNS, empty="No tile has data.", selects=True),
                ),
            ),
        ],
    )
    return html.Div(
        [html.Div([toolbar, chart], className="card"), html.Div(tables, className="card")],
        className="stack",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    _register_browser(app)
    view_input = Input(view_store("memory"), "data")

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
        _, wrong = _selected(view, n_tiles)
        heads = [_headline(baseline, "Baseline" if candidate else "")]
        if candidate:
            heads.append(_headline(candidate, "Candidate"))
        notes = [html.Div(wrong, className="wrong", role="alert")] if wrong else []
        with library.opened(view["report"]) as report:
            choices = [{"value": name, "label": label} for name, label in map_choices(report)]
        return heads, notes, [*choices, {"value": "named", "label": "Variables by name"}]

    @answer(
        app,
        "memory-details-error",
        [Output("memory-details", "children")],
        view_input,
    )
    def show_details(view: dict[str, str]) -> tuple[Any]:
        with library.opened(view["report"]) as report:
            if not view["with"]:
                tiles, _ = _selected(view, target(report).n_tiles)
                return (nested_memory(memory_table(report, tiles[:_MAX_COLUMNS] or None)),)
            with library.opened(view["with"]) as candidate:
                return (_compare_details(report, candidate, view),)

    @answer(
        app,
        "memory-variables-error",
        [
            Output("memory-variables", "rowData"),
            Output("memory-variables", "style"),
            Output("memory-variables-note", "children"),
        ],
        view_input,
    )
    def show_variables(view: dict[str, str]) -> tuple[Any, ...]:
        with library.opened(view["report"]) as report:
            tiles, wrong = _selected(view, target(report).n_tiles)
            if not tiles or view["tab"] != "variables":
                return [], grid_style([]), wrong
            rows, note = variable_rows(report, tiles[0], view["name"].lower())
            note += "; baseline only" if view["with"] else ""
            return rows, grid_style(rows), note

    @answer(
        app,
        "memory-ranking-error",
        [
            Output("memory-ranking", "rowData"),
            Output("memory-ranking", "columnDefs"),
            Output("memory-ranking", "style"),
        ],
        view_input,
    )
    def show_ranking(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "tiles":
            return [], list(_TILE_COLUMNS), grid_style([])
        with library.opened(view["report"]) as report:
            if not view["with"]:
                rows, columns = ranking_rows(report), list(_TILE_COLUMNS)
            else:
                with library.opened(view["with"]) as candidate:
                    rows, columns = change_rows(report, candidate), list(_CHANGE_COLUMNS)
        return rows, columns, grid_style(rows)


def _register_browser(app: Dash) -> None:
    """Connect the clientside callbacks: the charts, and clicks in grids."""
    connect(app, "charts.memory", Input(view_store("memory"), "data"))
    connect(
        app,
        "charts.memory_fields",
        *(Output(f"memory-{name}-field", "style") for name in _FIELDS),
        Input(view_store("memory"), "data"),
    )
    connect(
        app,
        "charts.pick_variable",
        Input("memory-variables", "selectedRows"),
        prevent_initial_call=True,
    )
    connect(
        app,
        "charts.pick_ranked_tile",
        Input("memory-ranking", "selectedRows"),
        prevent_initial_call=True,
    )


def _memory(report: Report, view: dict[str, str]) -> TileMemory:
    """Return the memory of the tiles in the view's breakdown."""
    return shown_memory(
        report, view["breakdown"], view["gaps"] == "1", view["var"], may_lack=bool(view["with"])
    )


def _headline(memory: TileMemory, side: str) -> html.Div:
    """Return the fullest tile with its percentage of the capacity, or that of some variables."""
    (label, *others) = memory.series
    if not others and label != "Total":
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
        hint = "no matching variable; enter a name above or select a variable below"
        return headline("–", label or hint, side=side)
    most = memory.fullest_tile
    tiles = f"{n_tiles:,} tile{'s' * (n_tiles != 1)}"
    caption = f"on the tile with the most ({most}), {format_bytes(total)} on {tiles}: {label}"
    return headline(format_bytes(size), caption, exact=f"{size:,} B", side=side)


def _selected(view: dict[str, str], n_tiles: int) -> tuple[list[int], str]:
    """Return the tiles selected in the view, or none and what is wrong with the selection."""
    try:
        return parse_numbers(view["tiles"], limit=n_tiles, noun="tile"), ""
    except BadView as error:
        return [], str(error)


def _compare_details(baseline: Report, candidate: Report, view: dict[str, str]) -> html.Div:
    """Return the nested table of two reports: for all tiles or the first selected tile."""
    tiles = _selected(view, target(baseline).n_tiles)[0][:1]
    if tiles and tiles[0] >= target(candidate).n_tiles:
        return empty_state(f"The candidate has no tile {tiles[0]:,}; select another.")
    return compare_memory(
        memory_table(baseline, tiles or None), memory_table(candidate, tiles or None)
    )
