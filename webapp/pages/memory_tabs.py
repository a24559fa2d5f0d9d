"""The tabs below the chart of Memory: what is on all tiles or on the selected ones, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, html, no_update

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.tile_memory import memory_table
from tilescope.reports import Report
from tilescope.webapp.answer import answer
from tilescope.webapp.components.controls import choice, tabs, text_box
from tilescope.webapp.components.panels import empty_state, guarded
from tilescope.webapp.components.tables import compare_memory, nested_memory, with_csv
from tilescope.webapp.library import Library
from tilescope.webapp.pages.memory_tables import (
    LISTS,
    fullest_tiles,
    listed,
    tile_addresses,
    variables_of,
)
from tilescope.webapp.view import BadView, Parameter, parse_numbers, view_store

__all__ = ["TAB_PANEL", "TAB_PARAMETERS", "memory_tabs", "register_tabs", "selected_tiles"]

TAB_PARAMETERS = (
    Parameter("tab", "details", "memory-tabs"),
    Parameter("name", "", "memory-name"),
    Parameter("as", "table", "memory-as"),
)

#: Maximum number of columns of the Details table.
_MAX_COLUMNS = 12
#: What the tabs depend on.
TAB_PANEL = {"tabs": ("tab", "name", "as", "tiles")}
_VIEW = Input(view_store("memory", "tabs"), "data")


def memory_tabs() -> html.Div:
    """Return the tabs without content."""
    forms = [("table", "Table"), ("map", "Address map")]
    above = [
        html.Div(choice("memory-as", "Show as", forms), className="only-variables"),
        text_box("memory-name", "Filter rows", "words of the name", is_search=True),
    ]
    tabs_: dmc.Tabs = tabs(
        "memory-tabs",
        [
            ("details", "Details", _slot("details")),
            ("sets", "Compute sets", _slot("sets")),
            ("vertices", "Vertices", _slot("vertices")),
            ("exchanges", "Exchanges", _slot("exchanges")),
            ("variables", "Variables", _slot("variables")),
            ("tiles", "Fullest tiles", _slot("ranking")),
        ],
    )
    return html.Div([html.Div(above, className="tabs-filter"), tabs_], className="filtered-tabs")


def register_tabs(app: Dash, library: Library) -> None:
    """Connect the tabs; only the one that is shown is answered."""

    def show(tab: str, content: Any, position: str = "") -> None:
        slot = f"memory-{position or tab}"

        @answer(app, f"{slot}-error", [Output(slot, "children")], _VIEW)
        def respond(view: dict[str, str]) -> tuple[Any]:
            return (content(library, view) if view["tab"] == tab else no_update,)

    show("details", _details)
    show("variables", _variables)
    show("tiles", fullest_tiles, "ranking")
    for tab in LISTS:
        show(tab, _list)


def selected_tiles(view: dict[str, str], n_tiles: int) -> tuple[list[int], str]:
    """Return the tiles selected in the view, or none and what is wrong with the selection."""
    try:
        return parse_numbers(view["tiles"], limit=n_tiles, noun="tile"), ""
    except BadView as error:
        return [], str(error)


def _slot(tab: str) -> html.Div:
    """Return the place of a tab's content, and of its errors."""
    return guarded(f"memory-{tab}-error", html.Div(id=f"memory-{tab}"))


def _tiles(library: Library, view: dict[str, str]) -> tuple[list[int], str]:
    """Return the selected tiles, which all reports of the view have, and what is wrong."""
    counts = library.ask(view, lambda report: target(report).n_tiles)
    return selected_tiles(view, min(number for number in counts if number is not None))


def _note(tiles: Sequence[int], problem: str, *, first_only: bool = False) -> list[Any]:
    """Return which tiles a table is about."""
    if problem:
        return [html.Div(problem, className="wrong", role="alert")]
    if not tiles:
        text = "All tiles. Select tiles in the chart, or by number above it, to see theirs."
    elif len(tiles) == 1:
        text = f"Tile {tiles[0]:,}"
    elif first_only:
        text = f"Tile {tiles[0]:,}, the first of {len(tiles):,} selected tiles"
    else:
        label = ", ".join(f"{tile:,}" for tile in tiles[:8])
        text = f"{len(tiles):,} tiles: {label}{' …' if len(tiles) > 8 else ''}"
    return [html.Div(text, className="grid-note data-note")]


def _details(library: Library, view: dict[str, str]) -> Any:
    """Return memory as nested rows, a column for all tiles or for every selected one."""
    if view["with"]:
        with library.opened(view["report"]) as first, library.opened(view["with"]) as second:
            return _compare_details(first, second, view)
    with library.opened(view["report"]) as report:
        tiles, _ = selected_tiles(view, target(report).n_tiles)
        table = nested_memory(memory_table(report, tiles[:_MAX_COLUMNS] or None))
    n_more = len(tiles) - _MAX_COLUMNS
    note = f"The first {_MAX_COLUMNS} of {len(tiles):,} selected tiles." if n_more > 0 else ""
    return with_csv(table, file="tile-memory", note=note)


def _compare_details(baseline: Report, candidate: Report, view: dict[str, str]) -> html.Div:
    """Return the nested table of two reports: for all tiles or the first selected tile."""
    tiles = selected_tiles(view, target(baseline).n_tiles)[0][:1]
    if tiles and tiles[0] >= target(candidate).n_tiles:
        return empty_state(f"The candidate has no tile {tiles[0]:,}; select another.")
    table = compare_memory(
        memory_table(baseline, tiles or None), memory_table(candidate, tiles or None)
    )
    return with_csv(table, file="tile-memory")


def _list(library: Library, view: dict[str, str]) -> list[Any]:
    """Return compute sets, vertices or exchanges on the selected tiles or on all."""
    tiles, problem = _tiles(library, view)
    return [*_note(tiles, problem), listed(library, view, tiles)]


def _variables(library: Library, view: dict[str, str]) -> list[Any]:
    """Return the variables of the first selected tile, as a table or by address, or of all."""
    tiles, problem = _tiles(library, view)
    note = _note(tiles, problem, first_only=True)
    if view["as"] not in {"table", "map"}:
        raise BadView(f"Unknown form {view['as'][:40]!r} in the address; choose table or map.")
    if view["as"] == "table":
        return [*note, variables_of(library, view, tiles[0] if tiles else None)]
    if not tiles:
        return [empty_state("Select a tile, in the chart or by number above it, to see its map.")]
    try:
        return [*note, *tile_addresses(library, view, tiles[0])]
    except BadQuestion as error:
        return [empty_state(str(error))]
