"""Program Tree: what the program is made of, opened a level at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, html

from analyser.programs import NodeCost, ProgramDetails, node
from analyser.quantities import MISSING, format_bytes, format_count, format_percent
from webapp.answer import answer
from webapp.browser import connect, marked
from webapp.components.controls import text_box
from webapp.components.panels import empty_state, guarded
from webapp.components.tables import plain_table
from webapp.library import Library
from webapp.view import Parameter, parse_number, view_store

__all__ = ["ICON", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/programs"
TITLE = "Program Tree"
ICON = "programs"
VIEW = (Parameter("find", "", "programs-find"), Parameter("node"))

_LEGEND = (
    ("control", "Sequence, Repeat and other control"),
    ("compute", "OnTileExecute"),
    ("exchange", "DoExchange"),
    ("global_exchange", "GlobalExchange"),
    ("sync", "Sync"),
    ("stream_copy", "StreamCopy"),
    ("other", "WriteUndef and others"),
)


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            text_box("programs-find", "Search", "kind or name", width="260px", is_search=True),
            html.Button("Previous", id="programs-back", className="text-button"),
            html.Button("Next", id="programs-next", className="text-button"),
            html.Span(id="programs-note", className="grid-note", role="status"),
        ],
        className="toolbar",
    )
    legend = html.Div(
        [
            html.Span([html.Span(className=f"swatch phase-{phase}"), label])
            for phase, label in _LEGEND
        ],
        className="legend",
    )
    tree = html.Div(
        id="program-tree",
        className="tree",
        role="tree",
        tabIndex="0",
    )
    marked(tree, aria_label="Programs")
    details = guarded("programs-error", html.Div(id="programs-details"))
    return html.Div(
        [
            html.Div([toolbar, tree, legend], className="card tree-card"),
            html.Div(details, className="card tree-details"),
        ],
        className="tree-page",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    connect(
        app,
        "programs.show",
        Output("programs-note", "children"),
        Input(view_store("programs"), "data"),
        prevent_initial_call=True,
    )
    connect(
        app,
        "programs.step",
        Output("programs-note", "children", allow_duplicate=True),
        Input("programs-next", "n_clicks"),
        Input("programs-back", "n_clicks"),
        prevent_initial_call=True,
    )

    @answer(
        app,
        "programs-error",
        [Output("programs-details", "children")],
        Input(view_store("programs"), "data"),
    )
    def show_details(view: dict[str, str]) -> tuple[Any]:
        number = parse_number(view, "node", noun="program", hint="select one")
        if number is None:
            which = " The tree is that of the source." if view["with"] else ""
            return (empty_state(f"Select a program in the tree to see its details.{which}"),)
        with library.opened(view["report"]) as report:
            return (_details(node(report, number)),)


def _details(details: ProgramDetails) -> html.Div:
    """Return what is known of a program."""
    program = details.node
    blocks: list[Any] = [
        html.H2(
            [html.Span(program.kind, className=f"tree-kind phase-{program.phase}"), program.name]
        ),
        _facts(details),
    ]
    if details.costs:
        blocks += [html.H3("Cost of one execution"), _costs(details)]
    if details.vertices:
        blocks += [html.H3(f"Vertices of {details.compute_set_name}"), _vertices(details)]
    if details.debug_contexts:
        rows = [(each.layer, each.operation, each.name) for each in details.debug_contexts]
        blocks += [
            html.H3("Created by, innermost first"),
            plain_table(("Layer", "Operation", "Name"), rows),
        ]
    return html.Div(blocks, className="details")


def _facts(details: ProgramDetails) -> html.Div:
    """Return the facts of the program itself."""
    program = details.node
    rows: list[tuple[str, str]] = [
        ("Program", f"{program.program_id:,}"),
        ("Inside", " › ".join(each.label for each in details.path) or "nothing: it is a root"),
    ]
    if program.n_children:
        rows.append(
            ("Contains", f"{program.n_children:,} program{'s' * (program.n_children != 1)}")
        )
    if program.repeat_count > 1:
        rows.append(("Repeated", f"{program.repeat_count:,} times"))
    if program.n_tiles:
        rows.append(("Tiles", f"{program.n_tiles:,}"))
    rows.append(("Code", f"{format_bytes(program.code_bytes)} over all tiles"))
    if program.step_id is not None:
        rows.append(("Step", f"{program.step_id:,}"))
    return plain_table(("", ""), rows)


def _costs(details: ProgramDetails) -> html.Div:
    """Return the cost of the step, a column for each IPU."""
    rows = [
        ("Cycles of its own", [f"{cost.cycles:,}" for cost in details.costs]),
        ("Tiles with work", [f"{cost.n_active_tiles:,}" for cost in details.costs]),
        ("Busiest tile, cycles", [f"{cost.max_tile_cycles:,}" for cost in details.costs]),
        ("Tile balance, idle tiles included", [_balance(cost) for cost in details.costs]),
        *(
            (label, [format_bytes(size(cost)) for cost in details.costs])
            for label, size in _TRAFFIC
        ),
        ("Floating-point operations", [format_count(cost.flops) for cost in details.costs]),
        ("Executions recorded", [f"{cost.n_executions:,}" for cost in details.costs]),
        ("Cycles in all runs, waits included", [f"{c.taken_cycles:,}" for c in details.costs]),
    ]
    heads = ["", *(f"IPU {cost.ipu_id}" for cost in details.costs)]
    return plain_table(
        heads, [[label, *cells] for label, cells in rows], numbers=range(1, len(heads))
    )


_TRAFFIC: tuple[tuple[str, Callable[[NodeCost], int]], ...] = (
    ("Sent", lambda cost: cost.sent_bytes),
    ("Received", lambda cost: cost.received_bytes),
    ("From and to the host", lambda cost: cost.host_in_bytes + cost.host_out_bytes),
    ("From and to remote buffers", lambda cost: cost.remote_in_bytes + cost.remote_out_bytes),
)


def _balance(cost: NodeCost) -> str:
    """Return the mean over the busiest tile of an IPU, as the execution trace defines it."""
    return MISSING if cost.tile_balance is None else format_percent(100 * cost.tile_balance)


def _vertices(details: ProgramDetails) -> html.Div:
    """Return the codelets that run, a column for each."""
    found = details.vertices
    rows = [
        ("Kind", [each.kind for each in found]),
        ("Vertices", [f"{each.n_vertices:,}" for each in found]),
        ("Tiles", [f"{each.n_tiles:,}" for each in found]),
        (
            "Slowest vertex, cycles",
            [f"{each.max_cycles:,}" + " (data)" * each.is_data_dependent for each in found],
        ),
        ("All vertices, cycles", [f"{each.total_cycles:,}" for each in found]),
        ("State", [format_bytes(each.state_bytes) for each in found]),
        ("Code on a tile", [format_bytes(each.code_bytes) for each in found]),
    ]
    heads = ["", *(each.vertex_type for each in found)]
    return plain_table(
        heads, [[label, *cells] for label, cells in rows], numbers=range(1, len(heads))
    )
