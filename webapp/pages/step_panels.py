"""What a step does, of one report or of two: vertices, cycles of its tiles, operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html

from tilescope.analyser import trace
from tilescope.analyser.diff.alignment.pairs import pairs
from tilescope.analyser.memory.liveness import liveness_step_ids, step_program
from tilescope.analyser.quantities import format_percent
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.time.occupancy import BusyTile, slowest_tiles
from tilescope.reports import Report
from tilescope.webapp.components.data_table import (
    change_columns,
    column,
    compared,
    data_table,
    template,
)
from tilescope.webapp.components.histogram import tile_histogram
from tilescope.webapp.components.links import Reports, reports_of, trace_link
from tilescope.webapp.components.panels import empty_state
from tilescope.webapp.library import Library

__all__ = [
    "StepSide",
    "cycles_of_step",
    "flops_of_step",
    "sides_of_step",
    "vertices_of_step",
]

_N_SLOWEST = 20
_MAX_HISTOGRAMS = 4


@dataclass(frozen=True)
class StepSide:
    """A step of one report; ``side`` is empty for a single report."""

    side: str
    details: trace.StepDetails
    slowest: tuple[BusyTile, ...]


def sides_of_step(
    library: Library, view: dict[str, str], pair: tuple[int | None, int | None]
) -> list[StepSide | None]:
    """Return a liveness step of the report, or of both; None where one lacks it."""
    names = ("Baseline", "Candidate") if view["with"] else ("",)
    sides: list[StepSide | None] = []
    for name, key, step in zip(names, ("report", "with"), pair, strict=False):
        if step is None:
            sides.append(None)
            continue
        with library.opened(view[key]) as report:
            sides.append(_side(report, name, step))
    return sides


def vertices_of_step(sides: Sequence[StepSide | None], view: dict[str, str]) -> Any:
    """Return the codelets of a step."""
    if not any(side and side.details.vertices for side in sides):
        return empty_state("This step runs no vertices; select a step of compute.")
    first = column("name", "Codelet", "name", href=template(
        "/memory", reports_of(view), tab="sets", name="{name}"))  # fmt: skip
    if len(sides) > 1:
        return _compare_vertices(sides, first, view)
    rows = [row for row in _vertices(sides[0]) if _matches(row.name, view)]
    columns = [
        first,
        column("vertices", "Vertices", "count"),
        column("tiles", "Tiles", "count"),
        column("slowest", "Slowest vertex, cycles", "count"),
        column("total", "All vertices, cycles", "count"),
        column("state", "State", "bytes"),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "vertices": [row.n_vertices for row in rows],
        "tiles": [row.n_tiles for row in rows],
        "slowest": [row.max_cycles for row in rows],
        "total": [row.total_cycles for row in rows],
        "state": [row.state_bytes for row in rows],
    }
    return data_table(
        columns, data, label="Vertices of the step", file="vertices-of-step",
        empty="No codelet matches; clear the filter.",
    )  # fmt: skip


def cycles_of_step(sides: Sequence[StepSide | None], view: dict[str, str]) -> Any:
    """Return the cycles of a step's tiles: figures by IPU, histograms, slowest tiles."""
    known_sides = [side for side in sides if side is not None]
    figures = _figures(sides, _CYCLES)
    blocks: list[Any] = [html.Div([figures, _links(known_sides, view)])]
    for side in known_sides:
        blocks.append(html.Div([_head(side, "Cycles by tile"), *_histograms(side)]))
        blocks.append(
            html.Div([_head(side, "Slowest tiles"), _slowest(side, _reports(side, view))])
        )
    return html.Div(blocks, className="step-columns")


def flops_of_step(sides: Sequence[StepSide | None], view: dict[str, str]) -> Any:
    """Return the useful operations of a step, by IPU and by codelet."""
    del view
    blocks: list[Any] = [_figures(sides, _FLOPS)]
    if any(side and side.details.flops for side in sides):
        blocks.append(_flops_by_codelet(sides))
    else:
        blocks.append(html.Div("This step does no floating-point operations.",
                               className="grid-note"))  # fmt: skip
    return html.Div(blocks, className="step-columns")


def _side(report: Report, side: str, step: int) -> StepSide:
    """Return a liveness step of one report."""
    step_program(report, step)  # refuses a step that does not exist
    step_id = int(liveness_step_ids(report)[step])
    return StepSide(
        side, trace.step_details(report, step_id), slowest_tiles(report, step_id, _N_SLOWEST)
    )


#: Figures of a step on an IPU: label, unit, value.
_Figure = tuple[str, str, Callable[[trace.StepCost], Any]]
_CYCLES: tuple[_Figure, ...] = (
    ("Cycles", "count", lambda cost: cost.cycles),
    ("Busiest tile, cycles", "count", lambda cost: cost.max_tile_cycles),
    ("Mean over all tiles, cycles", "count", lambda cost: round(cost.mean_tile_cycles, 1)),
    ("Active tiles", "count", lambda cost: cost.n_active_tiles),
    ("Tile balance", "share", lambda cost: cost.tile_balance),
)
_FLOPS: tuple[_Figure, ...] = (
    ("Useful operations", "count", lambda cost: cost.flops),
    ("Cycles", "count", lambda cost: cost.cycles),
    (
        "Operations per cycle",
        "count",
        lambda cost: None if cost.flops_per_cycle is None else round(cost.flops_per_cycle, 2),
    ),
)


def _figures(sides: Sequence[StepSide | None], figures: Sequence[_Figure]) -> Any:
    """Return figures of a step by IPU, of one report or of two."""
    by_ipu = [{cost.ipu_id: cost for cost in side.details.costs} if side else {} for side in sides]
    ipus = sorted({ipu for costs in by_ipu for ipu in costs})
    rows = [
        (f"{label}, IPU {ipu}" if len(ipus) > 1 else label, unit,
         [value(costs[ipu]) if ipu in costs else None for costs in by_ipu])
        for label, unit, value in figures
        for ipu in ipus
    ]  # fmt: skip
    if not rows:
        return empty_state("No IPU takes part in this step.")
    texts = [[_text(value, unit) for value in values] for _, unit, values in rows]
    data: dict[str, list[Any]] = {"name": [label for label, *_ in rows]}
    columns = [column("name", "One execution", "name")]
    if len(sides) == 1:
        columns.append(column("value", "Value", "change"))
        data |= {"value": [cells[0] for cells in texts]}
        return data_table(columns, data, label="Figures of the step", empty="", file="step")
    sides_and_diff = ("baseline", "candidate", "diff")
    columns += [column(name, name.capitalize(), "change") for name in sides_and_diff]
    data |= {
        "baseline": [cells[0] for cells in texts],
        "candidate": [cells[1] for cells in texts],
        "diff": [
            compared([values[0]], [values[1]], "ratio" if unit == "share" else "")["diff"][0]
            for _, unit, values in rows
        ],
    }
    return data_table(columns, data, label="Figures of the step", empty="", file="step")


def _text(value: Any, unit: str) -> str | None:
    """Return a figure for people."""
    if value is None:
        return None
    return format_percent(100 * value) if unit == "share" else f"{value:,}"


def _head(side: StepSide, title: str) -> html.H3:
    """Return a heading with the report's side."""
    return html.H3(f"{title}, {side.side.lower()}" if side.side else title)


def _links(sides: Sequence[StepSide], view: dict[str, str]) -> html.Div:
    """Return the links of a step of the report: to the trace and to its program."""
    side = sides[0]
    if side.side == "Candidate":
        return html.Div()
    link = trace_link("Show in the trace", reports_of(view), side.details.step_id)
    return html.Div(link, className="data-note")


def _reports(side: StepSide, view: dict[str, str]) -> Reports:
    """Return the reports of a page about a side's tiles; those of the candidate stand alone."""
    return {"report": view["with"]} if side.side == "Candidate" else reports_of(view)


def _histograms(side: StepSide) -> list[Any]:
    """Return histograms of cycles per tile, an IPU each."""
    busy = [cost for cost in side.details.costs if cost.histogram.n_tiles.size]
    if not busy:
        return [html.Div("No tile has work of its own in this step.", className="grid-note")]
    parts: list[Any] = []
    for cost in busy[:_MAX_HISTOGRAMS]:
        edges, counts = cost.histogram.edges_cycles.tolist(), cost.histogram.n_tiles.tolist()
        parts.append(tile_histogram(edges, counts, lambda cycles: f"{cycles:,} cycles",
                                    holds=("tile takes", "tiles take")))  # fmt: skip
        idle = cost.histogram.n_idle_tiles
        words = f"IPU {cost.ipu_id}: {idle:,} {'tile is' if idle == 1 else 'tiles are'} idle"
        parts.append(html.Div(words, className="grid-note"))
    if len(busy) > _MAX_HISTOGRAMS:
        parts.append(html.Div(f"The first {_MAX_HISTOGRAMS} of {len(busy)} IPUs.",
                              className="grid-note"))  # fmt: skip
    return parts


def _slowest(side: StepSide, reports: Reports) -> Any:
    """Return the tiles that take longest, which lead to their memory."""
    columns = [
        column("tile", "Tile", "place", href=template("/memory", reports, tiles="{tile}")),
        column("ipu", "IPU", "place"),
        column("cycles", "Cycles", "count"),
    ]  # fmt: skip
    data: dict[str, list[Any]] = {
        "tile": [tile.tile_id for tile in side.slowest],
        "ipu": [tile.ipu_id for tile in side.slowest],
        "cycles": [tile.cycles for tile in side.slowest],
    }
    return data_table(columns, data, label="Slowest tiles", empty="", file="slowest-tiles")


def _vertices(side: StepSide | None) -> Sequence[trace.VertexRow]:
    """Return the codelets of a side; none where it lacks the step."""
    return side.details.vertices if side else []


def _paired(sides: Sequence[StepSide | None]) -> Sequence[Any]:
    """Return the codelets of two sides by name."""
    return pairs(*({row.name: row for row in _vertices(side)} for side in sides))


def _compare_vertices(
    sides: Sequence[StepSide | None], first: dict[str, Any], view: dict[str, str]
) -> Any:
    """Return the codelets of a step of two reports: cycles of all vertices, and their number."""
    results = [pair for pair in _paired(sides) if _matches(pair.key, view)]
    both = [(pair.baseline, pair.candidate) for pair in results]
    columns = [
        first,
        *change_columns("count"),
        column("before", "Vertices, baseline", "count"),
        column("after", "Vertices, candidate", "count"),
    ]
    data: dict[str, list[Any]] = {
        "name": [pair.key for pair in results],
        **compared(*_columns(both, lambda row: row.total_cycles), "cycles"),
        "before": _columns(both, lambda row: row.n_vertices)[0],
        "after": _columns(both, lambda row: row.n_vertices)[1],
    }
    return data_table(
        columns, data, label="Cycles of all vertices of the step, of both reports",
        empty="No codelet matches; clear the filter.", file="vertices-of-step",
    )  # fmt: skip


def _flops_by_codelet(sides: Sequence[StepSide | None]) -> Any:
    """Return the useful operations of every codelet of a step."""
    if len(sides) == 1:
        rows = [row for row in _vertices(sides[0]) if row.flops]
        total = sides[0].details.flops if sides[0] else 0
        columns = [
            column("name", "Codelet", "name"),
            column("flops", "Useful operations", "count"),
            column("share", "% of step", "share"),
            column("vertices", "Vertices", "count"),
        ]
        data: dict[str, list[Any]] = {
            "name": [row.name for row in rows],
            "flops": [row.flops for row in rows],
            "share": [row.flops / total if total else None for row in rows],
            "vertices": [row.n_vertices for row in rows],
        }
    else:
        result = _paired(sides)
        both = [(pair.baseline, pair.candidate) for pair in result]
        columns = [column("name", "Codelet", "name"), *change_columns("count")]
        data = {
            "name": [pair.key for pair in result],
            **compared(*_columns(both, lambda row: row.flops), ""),
        }
    return data_table(
        columns, data, label="Operations by codelet", empty="No codelet counts operations.",
        file="flops-of-step",
    )  # fmt: skip


def _columns(
    both: Sequence[tuple[Any, Any]], value: Callable[[Any], int]
) -> tuple[list[int | None], list[int | None]]:
    """Return a figure of two sides; None where a side lacks the row."""
    first, second = (
        [None if pair[side] is None else value(pair[side]) for pair in both] for side in (0, 1)
    )
    return first, second


def _matches(name: str, view: dict[str, str]) -> bool:
    """Return whether a name passes the filter of rows."""
    return words_fit(search_words(view["name"]), name)
