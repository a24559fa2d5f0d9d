"""Tabs of the selected operation: its code, cycles and FLOPs by step and tile, and who made it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dash import html

from tilescope.analyser.advice.operation_tiles import OperationTiles
from tilescope.analyser.program.operations import Operations, OperationStep
from tilescope.analyser.quantities import MISSING, format_bytes, format_percent
from tilescope.analyser.trace import TileHistogram
from tilescope.webapp.components.histogram import tile_histogram
from tilescope.webapp.components.links import Reports, program_link, tile_link, trace_link
from tilescope.webapp.components.tables import plain_table

__all__ = ["FIGURE_TABS", "tab_column", "totals"]

#: Tabs of figures, by their value in the address.
FIGURE_TABS = {"code": "Code", "cycles": "Cycles", "flops": "FLOPs"}
#: Steps that are listed, the largest first.
_N_STEPS = 30

_VALUES: dict[str, Callable[[OperationStep], int]] = {
    "code": lambda step: step.code_bytes,
    "cycles": lambda step: step.cycles,
    "flops": lambda step: step.flops,
}


def totals(listed: Operations, head: str = "") -> html.Div:
    """Return what stands where no operation is selected: the totals of all."""
    every = listed.operations
    rows = [
        ("Operations", f"{len(every):,}"),
        ("Cycles in operations", f"{listed.cycles:,}"),
        ("Cycles of the program", f"{listed.total_cycles:,}"),
        ("Code of operations", format_bytes(listed.code_bytes)),
        ("FLOPs", f"{listed.flops:,}"),
    ]
    parts: list[Any] = [_mark(head)] if head else []
    parts += [html.H3("All operations"), plain_table(("", ""), rows, numbers=(1,))]
    return html.Div(parts)


def tab_column(tab: str, tiles: OperationTiles, reports: Reports, head: str = "") -> html.Div:
    """Return a figure of an operation by step, beside it by tile or codelet."""
    parts: list[Any] = [_mark(head)] if head else []
    beside = {"code": _code, "cycles": _cycles, "flops": _flops}[tab](tiles, reports)
    columns = html.Div([_by_step(tab, tiles.steps, reports), beside], className="operation-columns")
    return html.Div([*parts, columns])


def _mark(head: str) -> html.Span:
    """Return the mark of the baseline or the candidate."""
    return html.Span(head, className=f"side-mark side-{head.lower()}")


def _by_step(tab: str, steps: Sequence[OperationStep], reports: Reports) -> html.Div:
    """Return the steps with most of a figure, with bars."""
    value = _VALUES[tab]
    text = format_bytes if tab == "code" else "{:,}".format
    total = sum(value(step) for step in steps)
    ordered = sorted((step for step in steps if value(step)), key=lambda step: -value(step))
    largest = value(ordered[0]) if ordered else 1
    rows = [
        (
            trace_link(f"{step.step_id:,}", reports, step.step_id)
            if step.n_executions
            else f"{step.step_id:,}",
            html.Span(step.kind, className=f"tree-kind phase-{step.phase}"),
            program_link(step.name or MISSING, reports, step.program_id),
            text(value(step)),
            format_percent(100 * value(step) / total),
            html.Div(
                html.Span(style={"width": f"{100 * value(step) / largest:.1f}%"}),
                className=f"share-bar phase-{step.phase}",
            ),
        )
        for step in ordered[:_N_STEPS]
    ]
    n_more = len(ordered) - len(rows)
    title = f"{FIGURE_TABS[tab]} by step" + (f", {n_more:,} more" if n_more else "")
    heads = ("Step", "Kind", "Name", FIGURE_TABS[tab], "%", "")
    table = plain_table(heads, rows, numbers=(0, 3, 4), class_name="by-step")
    if not rows:
        return html.Div([html.H3(title), html.P("None of its steps has any.")])
    return html.Div([html.H3(title), table], className="any-break")


def _spread(
    histogram: TileHistogram, title: str, text: Callable[[int], str], *, of_memory: bool, idle: str
) -> list[Any]:
    """Return a histogram over tiles."""
    if not histogram.n_tiles.size:
        return [html.H3(title), html.P(f"No tile has any; {idle} on all.")]
    bars = tile_histogram(
        histogram.edges_cycles.tolist(),
        histogram.n_tiles.tolist(),
        text,
        holds=("tile has", "tiles have"),
        of_memory=of_memory,
    )
    note = f"{histogram.n_idle_tiles:,} more tiles have none."
    return [html.H3(title), bars, *([html.Div(note)] if histogram.n_idle_tiles else [])]


def _code(tiles: OperationTiles, reports: Reports) -> html.Div:
    """Return code over tiles, and the codelets, whose code other operations share."""
    del reports
    parts = _spread(
        tiles.code_histogram,
        "Control and exchange code on a tile",
        format_bytes,
        of_memory=True,
        idle="no code",
    )
    rows = [
        (
            vertices.vertex_type,
            format_bytes(vertices.code_bytes),
            f"{vertices.n_tiles:,}",
            f"{vertices.n_vertices:,}",
        )
        for vertices in tiles.vertices
    ]
    heads = ("Codelet, shared code", "Code", "Tiles", "Vertices")
    table = plain_table(heads, rows, numbers=(1, 2, 3))
    return html.Div([*parts, html.H3("Codelets"), table], className="any-break")


def _cycles(tiles: OperationTiles, reports: Reports) -> html.Div:
    """Return compute cycles over tiles, and the busiest tile."""
    parts = _spread(
        tiles.busy_histogram,
        "Compute cycles of a tile",
        lambda cycles: f"{cycles:,} cycles",
        of_memory=False,
        idle="no work",
    )
    busiest = tiles.busiest_tile
    if busiest is not None:
        link = tile_link(f"tile {busiest:,}", reports, busiest)
        cycles = int(tiles.busy_cycles[busiest])
        parts.append(html.Div(["Busiest: ", link, f", {cycles:,} cycles."]))
    return html.Div(parts)


def _flops(tiles: OperationTiles, reports: Reports) -> html.Div:
    """Return floating-point operations by codelet, of one execution."""
    del reports
    rows = [
        (
            vertices.vertex_type,
            f"{vertices.flops:,}",
            f"{vertices.total_cycles:,}",
            f"{vertices.flops / vertices.total_cycles:,.2f}" if vertices.total_cycles else MISSING,
        )
        for vertices in tiles.vertices
        if vertices.flops
    ]
    title = html.H3("FLOPs by codelet, of one execution")
    if not rows:
        return html.Div([title, html.P("None of its codelets counts any.")])
    heads = ("Codelet", "FLOPs", "Cycles of vertices", "FLOPs per cycle")
    return html.Div([title, plain_table(heads, rows, numbers=(1, 2, 3))], className="any-break")
