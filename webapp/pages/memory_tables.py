"""Tables of the tabs of Memory: compute sets, vertices, exchanges, variables, fullest tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dash import html

from tilescope.analyser.diff import (
    Pair,
    codelet_pairs,
    compute_set_pairs,
    exchange_pairs,
    tile_changes,
    variable_pairs,
)
from tilescope.analyser.memory.address_map import address_map
from tilescope.analyser.memory.lowered_variables import tile_variables
from tilescope.analyser.memory.placement import (
    CodeletPlacement,
    ComputeSetPlacement,
    ExchangePlacement,
    codelet_placements,
    compute_set_placements,
    exchange_placements,
)
from tilescope.analyser.memory.tile_memory import categories, largest_tiles
from tilescope.analyser.memory.variable_list import VariableFilter, VariableRow, list_variables
from tilescope.analyser.quantities import format_lives
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.time.figures import missing_bytes
from tilescope.reports import Report
from tilescope.webapp.components.address_strip import address_strip
from tilescope.webapp.components.data_table import (
    Highlight,
    change_columns,
    column,
    compared,
    data_table,
    template,
)
from tilescope.webapp.components.links import Reports, reports_of
from tilescope.webapp.library import Library
from tilescope.webapp.view import parse_numbers

__all__ = ["LISTS", "fullest_tiles", "listed", "tile_addresses", "variables_of"]

#: Tabs whose rows are of all tiles or of the selected ones.
LISTS = ("sets", "vertices", "exchanges")
_N_FULLEST = 200
_NO_ROW = "No row matches. Clear the filter, or select other tiles."


def listed(library: Library, view: dict[str, str], tiles: Sequence[int]) -> Any:
    """Return the table of one of `LISTS`, of one report or of two."""
    first_table, two = _TABLES[view["tab"]]
    reports = reports_of(view)
    with library.opened(view["report"]) as report:
        if not view["with"]:
            return first_table(report, tiles, view["name"], reports)
        with library.opened(view["with"]) as candidate:
            return two(report, candidate, tiles, view["name"], reports)


def variables_of(library: Library, view: dict[str, str], tile: int | None) -> Any:
    """Return the variables of one tile or of all of them, of one report or of two."""
    variable_filter = VariableFilter(
        text=view["name"], source="all" if tile is None else ("tile", tile)
    )
    with library.opened(view["report"]) as report:
        if view["with"]:
            with library.opened(view["with"]) as candidate:
                return _compare_variables(variable_pairs(report, candidate, variable_filter))
        if tile is None:
            return _all_variables(report, variable_filter, reports_of(view))
        return _parts(report, tile, view["name"], reports_of(view))


def tile_addresses(library: Library, view: dict[str, str], tile: int) -> list[Any]:
    """Return what lies at every address of a tile, of one report or of two below each other."""
    baseline, candidate = library.ask(view, lambda report: address_map(report, tile))
    if candidate is None:
        return [address_strip(baseline, "")]
    return [address_strip(baseline, "Baseline"), address_strip(candidate, "Candidate")]


def fullest_tiles(library: Library, view: dict[str, str]) -> Any:
    """Return the fullest tiles, or those that change most."""
    with library.opened(view["report"]) as report:
        if view["with"]:
            with library.opened(view["with"]) as candidate:
                return _changed_tiles(report, candidate, view)
        return _ranking(report, view)


def _step_columns(title: str, reports: Reports) -> list[dict[str, Any]]:
    """Return a name that leads to the program, and a step that leads to the trace."""
    return [
        column("name", title, "name", href=template("/programs", reports, node="{program}")),
        column("step", "Step", "place", href=template("/trace", reports, at="step:{step}")),
    ]


def _compute_sets(report: Report, tiles: Sequence[int], text: str, reports: Reports) -> Any:
    """Return the compute sets on some tiles."""
    rows = compute_set_placements(report, tiles, text)
    columns = [
        *_step_columns("Compute set", reports),
        column("bytes", "Size", "bytes", hint="State and code"),
        column("state", "State", "bytes", hint="State of its vertices"),
        column("code", "Code", "bytes", hint="Code of its codelets on every tile that uses them;"
               " compute sets may share it"),
        column("vertices", "Vertices", "count"),
        column("tiles", "Tiles", "count"),
        column("instances", "Instances", "count", hint="Steps of the program that run it"),
    ]  # fmt: skip
    data: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "program": [row.program_id for row in rows],
        "step": [row.step_id for row in rows],
        "bytes": [row.bytes for row in rows],
        "state": [row.state_bytes for row in rows],
        "code": [row.code_bytes for row in rows],
        "vertices": [row.n_vertices for row in rows],
        "tiles": [row.n_tiles for row in rows],
        "instances": [row.n_instances for row in rows],
    }
    return data_table(columns, data, label="Compute sets", empty=_NO_ROW, file="compute-sets")


def _codelets(report: Report, tiles: Sequence[int], text: str, reports: Reports) -> Any:
    """Return the codelets on some tiles; a name leads to the compute sets that use it."""
    rows = codelet_placements(report, tiles, text)
    columns = [
        column("name", "Codelet", "name", changes={"tab": "sets", "name": "{name}"}),
        column("kind", "Kind"),
        column("vertices", "Vertices", "count"),
        column("state", "State", "bytes"),
        column("code", "Code", "bytes", hint="Once on every tile that uses the codelet"),
        column("tiles", "Tiles", "count"),
        column("sets", "Compute sets", "count"),
        column("step", "First step", "place", href=template("/trace", reports, at="step:{step}")),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.vertex_type for row in rows],
        "kind": [row.kind for row in rows],
        "vertices": [row.n_vertices for row in rows],
        "state": [row.state_bytes for row in rows],
        "code": [row.code_bytes for row in rows],
        "tiles": [row.n_tiles for row in rows],
        "sets": [row.n_compute_sets for row in rows],
        "step": [row.step_id for row in rows],
    }
    return data_table(columns, data, label="Vertices", empty=_NO_ROW, file="vertices")


def _exchanges(report: Report, tiles: Sequence[int], text: str, reports: Reports) -> Any:
    """Return the exchanges on some tiles."""
    rows = exchange_placements(report, tiles, text)
    busy = "Busiest of the selected tiles, cycles" if tiles else "Busiest tile, cycles"
    columns = [
        *_step_columns("Exchange", reports),
        column("kind", "Kind"),
        column("code", "Code", "bytes", hint="Exchange code on the tiles in question"),
        column("fragments", "Fragments", "count", hint="Received on the busiest tile"),
        column("sent", "Sent", "bytes", hint="By all tiles in one execution"),
        column("received", "Received", "bytes", hint="By all tiles in one execution"),
        column("tiles", "Active tiles", "count"),
        column("cycles", "Busy cycles", "count", hint=busy),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.name or row.kind for row in rows],
        "program": [row.program_id for row in rows],
        "step": [row.step_id for row in rows],
        "kind": [row.kind for row in rows],
        "code": [row.code_bytes for row in rows],
        "fragments": [row.n_fragments for row in rows],
        "sent": [row.sent_bytes for row in rows],
        "received": [row.received_bytes for row in rows],
        "tiles": [row.n_active_tiles for row in rows],
        "cycles": [row.max_tile_cycles for row in rows],
    }
    return data_table(columns, data, label="Exchanges", empty=_NO_ROW, file="exchanges")


def _compare(
    pairs: Sequence[Pair[Any]],
    title: str,
    sizes: tuple[str, Callable[[Any], int]],
    counts: tuple[str, Callable[[Any], int]],
    **attributes: Any,
) -> Any:
    """Return rows of two reports with their sizes, and with a count on either side."""
    size, count = sizes[1], counts[1]
    sides = [(pair.baseline, pair.candidate) for pair in pairs]
    columns = [
        attributes.pop("first"),
        *change_columns(),
        column("before", f"{counts[0]}, baseline", "count"),
        column("after", f"{counts[0]}, candidate", "count"),
    ]
    data: dict[str, list[Any]] = {
        "name": [_both(pair) for pair in pairs],
        "step": [getattr(pair.baseline, "step_id", None) for pair in pairs],
        "program": [getattr(pair.baseline, "program_id", None) for pair in pairs],
        **compared(
            [None if baseline_row is None else size(baseline_row) for baseline_row, _ in sides],
            [None if candidate_row is None else size(candidate_row) for _, candidate_row in sides],
        ),
        "before": [
            None if baseline_row is None else count(baseline_row) for baseline_row, _ in sides
        ],
        "after": [
            None if candidate_row is None else count(candidate_row) for _, candidate_row in sides
        ],
    }
    label = f"{title} of both reports, {sizes[0]}"
    return data_table(columns, data, label=label, empty=_NO_ROW, **attributes)


def _both(pair: Pair[Any]) -> str:
    """Return the name of a pair, both names where they differ."""
    names = [getattr(side, "name", None) for side in (pair.baseline, pair.candidate)]
    if None in names or names[0] == names[1]:
        return pair.key or getattr(pair.known, "kind", "")
    return f"{names[0]} → {names[1]}"


def _compare_sets(
    baseline: Report, candidate: Report, tiles: Sequence[int], text: str, reports: Reports
) -> Any:
    """Return the compute sets of two reports."""
    first = column("name", "Compute set", "name", href=_program(reports))
    pairs = compute_set_pairs(baseline, candidate, tiles, text)
    size: Callable[[ComputeSetPlacement], int] = lambda row: row.bytes  # noqa: E731
    counts = ("Vertices", lambda row: row.n_vertices)
    return _compare(
        pairs, "Compute sets", ("state and code", size), counts, first=first, file="compute-sets"
    )


def _compare_codelets(
    baseline: Report, candidate: Report, tiles: Sequence[int], text: str, _reports: Reports
) -> Any:
    """Return the codelets of two reports."""
    first = column("name", "Codelet", "name", changes={"tab": "sets", "name": "{name}"})
    size: Callable[[CodeletPlacement], int] = lambda row: row.state_bytes + row.code_bytes  # noqa: E731
    pairs = codelet_pairs(baseline, candidate, tiles, text)
    counts = ("Vertices", lambda row: row.n_vertices)
    return _compare(
        pairs, "Vertices", ("state and code", size), counts, first=first, file="vertices"
    )


def _compare_exchanges(
    baseline: Report, candidate: Report, tiles: Sequence[int], text: str, reports: Reports
) -> Any:
    """Return the exchanges of two reports."""
    first = column("name", "Exchange", "name", href=_program(reports))
    size: Callable[[ExchangePlacement], int] = lambda row: row.code_bytes  # noqa: E731
    counts = ("Bytes received", lambda row: row.received_bytes)
    pairs = exchange_pairs(baseline, candidate, tiles, text)
    return _compare(pairs, "Exchanges", ("code", size), counts, first=first, file="exchanges")


def _program(reports: Reports) -> str:
    """Return the address of a row's program."""
    return template("/programs", reports, node="{program}")


_TABLES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sets": (_compute_sets, _compare_sets),
    "vertices": (_codelets, _compare_codelets),
    "exchanges": (_exchanges, _compare_exchanges),
}


def _name_column() -> dict[str, Any]:
    """Return the names of variables; a click draws one over the tiles."""
    changes = {"breakdown": "variables", "var": "{name}"}
    return column("name", "Variable", "name", changes=changes, hint="Draws it over the tiles")


def _life(reports: Reports, **parameters: str) -> str:
    """Return where Liveness shows a variable at its first step."""
    return template("/liveness", reports, step="{start}", var="{name}", **parameters)


def _all_variables(report: Report, variable_filter: VariableFilter, reports: Reports) -> Any:
    """Return the variables of a report over all tiles."""
    rows = list_variables(report, variable_filter).rows
    labels = _labels(report)
    columns = [
        _name_column(),
        column("bytes", "Size", "bytes"),
        column("tiles", "Tiles", "count"),
        column("largest", "Largest on a tile", "bytes"),
        column("dtype", "Type"),
        column("category", "Category"),
        column("lives", "Live steps", sort="start", href=_life(reports)),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "bytes": [row.bytes for row in rows],
        "tiles": [row.n_tiles for row in rows],
        "largest": [row.max_tile_bytes for row in rows],
        "dtype": [row.dtype for row in rows],
        "category": [labels.get(row.category, row.category) for row in rows],
        "lives": ["always" if row.is_always_live else format_lives(row.lives) for row in rows],
        "start": [None if row.is_always_live else row.start_step for row in rows],
    }
    return data_table(columns, data, label="Variables", empty=_NO_ROW, file="variables")


def _parts(report: Report, tile: int, text: str, reports: Reports) -> Any:
    """Return the parts of variables on a tile, the largest first."""
    parts, labels = tile_variables(report, tile), _labels(report)
    words = search_words(text)
    rows = [row for row, name in enumerate(parts.name) if words_fit(words, name)]
    rows.sort(key=lambda row: -int(parts.bytes[row]))
    columns = [
        _name_column(),
        column("bytes", "Size", "bytes"),
        column("offset", "Address", "address"),
        column("dtype", "Type"),
        column("category", "Category"),
        column("region", "Region"),
        column("start", "Live steps", "life", end="end", href=_life(reports, tile=str(tile))),
    ]
    data: dict[str, list[Any]] = {
        "offset": [int(parts.offset_bytes[row]) for row in rows],
        "bytes": [int(parts.bytes[row]) for row in rows],
        "name": [parts.name[row] for row in rows],
        "dtype": [parts.dtype[row] for row in rows],
        "category": [labels.get(parts.category[row], "") for row in rows],
        "region": [parts.region[row] for row in rows],
        "start": [None if parts.is_always_live[row] else int(parts.start_step[row])
                  for row in rows],
        "end": [None if parts.is_always_live[row] else int(parts.end_step[row])
                for row in rows],
    }  # fmt: skip
    table = data_table(
        columns,
        data,
        label=f"Variables of tile {tile}",
        empty=_NO_ROW,
        file=f"variables-of-tile-{tile}",
    )
    note = (
        f"{len(rows):,} of {len(parts):,} parts, the largest first. Those that live at different"
        " steps may share addresses."
    )
    return html.Div([html.Div(note, className="grid-note"), table])


def _compare_variables(pairs: Sequence[Pair[VariableRow]]) -> Any:
    """Return the variables of two reports."""
    size: Callable[[VariableRow], int] = lambda row: row.bytes  # noqa: E731
    counts = ("Tiles", lambda row: row.n_tiles)
    return _compare(
        pairs, "Variables", ("bytes", size), counts, first=_name_column(), file="variables"
    )


def _labels(report: Report) -> dict[str, str]:
    """Return the labels of memory categories by name."""
    return {category.name: category.label for category in categories(report)}


def _ranking(report: Report, view: dict[str, str]) -> Any:
    """Return the fullest tiles of one report."""
    ranking = largest_tiles(report, _N_FULLEST)
    capacity = ranking.capacity_bytes
    sizes = [int(size) for size in ranking.excluding_gaps_bytes]
    lacks = missing_bytes(report)[ranking.tile_id]
    lacking = [column("lacks", "Lacks", "bytes")] if lacks.any() else []
    columns = [
        column("tile", "Tile", "place", changes={"tiles": "{tile}"}),
        column("ipu", "IPU", "place"),
        *lacking,
        column("including", "Highest address", "bytes"),
        column("excluding", "Excluding gaps", "bytes"),
        column("share", "% of capacity", "share"),
    ]
    data: dict[str, list[Any]] = {
        "tile": [int(tile) for tile in ranking.tile_id],
        "ipu": [int(ipu) for ipu in ranking.ipu_id],
        "lacks": lacks.tolist(),
        "including": [int(size) for size in ranking.including_gaps_bytes],
        "excluding": sizes,
        "share": [size / capacity if capacity else None for size in sizes],
    }
    order = (
        "those that lack most first, then those that hold most without gaps"
        if lacking
        else "those that hold most without gaps first"
    )
    return html.Div(
        [
            html.Div(f"{len(sizes):,} tiles, {order}.", className="grid-note"),
            data_table(
                columns, data, label="Fullest tiles", empty="This report has no memory of tiles.",
                file="fullest-tiles", highlight=Highlight("tile", _marks(view)),
            ),
        ]
    )  # fmt: skip


def _changed_tiles(baseline: Report, candidate: Report, view: dict[str, str]) -> Any:
    """Return the tiles that change most between two reports."""
    changes = tile_changes(baseline, candidate)
    tiles = [int(tile) for tile in changes.largest(_N_FULLEST)]
    columns = [column("tile", "Tile", "place", changes={"tiles": "{tile}"}), *change_columns()]
    data: dict[str, list[Any]] = {
        "tile": tiles,
        **compared(
            [int(changes.baseline_bytes[tile]) for tile in tiles],
            [int(changes.candidate_bytes[tile]) for tile in tiles],
        ),
    }
    note = f"The {_N_FULLEST} tiles that change most."
    return html.Div(
        [
            html.Div(note, className="grid-note"),
            data_table(
                columns, data, label="Tiles that change", empty="No tile changes.",
                file="changed-tiles", highlight=Highlight("tile", _marks(view)),
            ),
        ]
    )  # fmt: skip


def _marks(view: dict[str, str]) -> list[int]:
    """Return the tiles of the view that a table highlights; none if they are no numbers."""
    try:
        return parse_numbers(view["tiles"], limit=1 << 20, noun="tile")
    except ValueError:
        return []
