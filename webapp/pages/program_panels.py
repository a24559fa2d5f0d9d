"""Details of a program: its location, cost, vertices and origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import html

from tilescope.analyser.memory.program_code import ProgramCode
from tilescope.analyser.program.operations import CALL_LAYERS
from tilescope.analyser.program.programs import NodeCost, ProgramDetails
from tilescope.analyser.quantities import (
    MISSING,
    format_bytes,
    format_count,
    format_percent,
    format_runs,
)
from tilescope.webapp.components.links import Reports, page_link, trace_link
from tilescope.webapp.components.panels import empty_state
from tilescope.webapp.components.tables import plain_table, with_csv
from tilescope.webapp.components.training import training_rows

__all__ = ["PROGRAM_TABS", "program_panel", "program_tab"]

#: Tabs of the details of a program.
PROGRAM_TABS = (
    ("cost", "Cost"),
    ("vertices", "Vertices"),
    ("code", "Code"),
    ("debug", "Debug information"),
)


def program_panel(details: ProgramDetails, code: ProgramCode, reports: Reports) -> html.Div:
    """Return the details of a program."""
    blocks: list[Any] = [_title(details), _facts(details, code, reports)]
    if details.costs:
        blocks += [html.H3("Cost of one execution"), _costs(details)]
    if details.vertices:
        blocks += [html.H3(f"Vertices of {details.compute_set_name}"), _vertices(details)]
    if details.debug_contexts:
        blocks += [html.H3("Created by, innermost first"), _debug(details)]
    return html.Div(blocks, className="details")


def program_tab(
    details: ProgramDetails, code: ProgramCode, tab: str, reports: Reports, side: str = ""
) -> html.Div:
    """Return one of `PROGRAM_TABS` for a program; ``side`` names a report of two."""
    heads: list[Any] = [_title(details)]
    if side:
        heads.insert(0, html.Span(side, className=f"side-mark side-{side.lower()}"))
    if tab == "vertices":
        parts = _vertices_tab(details, reports)
    elif tab == "code":
        parts = [_code(details, code)]
    elif tab == "debug":
        parts = _debug_tab(details, reports)
    else:
        parts = _cost_tab(details, code, reports)
    return html.Div([html.Div(heads, className="program-title"), *parts], className="details")


def _title(details: ProgramDetails) -> html.H2:
    """Return kind and name of a program."""
    program = details.node
    kind = html.Span(program.kind, className=f"tree-kind phase-{program.phase}")
    return html.H2([kind, program.name])


def _cost_tab(details: ProgramDetails, code: ProgramCode, reports: Reports) -> list[Any]:
    """Return the facts of a program, and its cost on every IPU."""
    step = details.node.step_id
    links = [] if step is None else [trace_link("Show in the trace", reports, step)]
    if not details.costs:
        note = (
            "A program that holds others has no cost of its own: its cycles are the sum of the"
            " steps in it. Steps of a function count in the function, not in its calls."
            if details.node.n_children
            else "No IPU takes part in it."
        )
        return [_facts(details, code, reports), html.Div(note, className="grid-note data-note")]
    table = _costs(details)
    return [
        html.Div([_facts(details, code, reports), html.Div(links, className="links")]),
        html.H3("Cost of one execution"),
        with_csv(table, file="cost-of-program"),
    ]


def _vertices_tab(details: ProgramDetails, reports: Reports) -> list[Any]:
    """Return the codelets of a program's compute set, one row each."""
    if not details.vertices:
        return [empty_state("This program runs no vertices; select one of kind OnTileExecute.")]
    heads = ("Codelet", "Kind", "Vertices", "Tiles", "Slowest, cycles", "All, cycles", "State",
             "Code per tile")  # fmt: skip
    rows = [
        [
            page_link(vertex.vertex_type, "/memory", reports, tab="sets", name=vertex.vertex_type),
            vertex.kind,
            f"{vertex.n_vertices:,}",
            f"{vertex.n_tiles:,}",
            f"{vertex.max_cycles:,}" + " (data)" * vertex.is_data_dependent,
            f"{vertex.total_cycles:,}",
            format_bytes(vertex.state_bytes),
            format_bytes(vertex.code_bytes),
        ]
        for vertex in details.vertices
    ]
    table = plain_table(heads, rows, numbers=range(2, len(heads)), class_name="any-break")
    return [
        html.H3(f"Vertices of {details.compute_set_name}"),
        with_csv(table, file="vertices-of-program"),
    ]


def _code(details: ProgramDetails, code: ProgramCode) -> html.Div:
    """Return the code of a program and of those in it."""
    inside = details.node.n_children > 0
    rows = [
        ("Exchange code", format_bytes(code.exchange_bytes), "of its exchanges"),
        ("Control code", format_bytes(code.control_bytes),
         "its share: a report holds the sum of a tile, which its steps share evenly"),
        ("Vertex code", format_bytes(code.vertex_bytes),
         "of the codelets it runs, once on every tile; other programs may use it too"),
    ]  # fmt: skip
    head = "Over all tiles, of all programs in it" if inside else "Over all tiles"
    table = plain_table(("Code", head, ""), rows, numbers=(1,))
    return with_csv(table, file="code-of-program")


def _debug_tab(details: ProgramDetails, reports: Reports) -> list[Any]:
    """Return who created a program, and where its operation is listed."""
    if not details.debug_contexts:
        return [empty_state("This program has no debug context: no call of the model or of a"
                            " library created it.")]  # fmt: skip
    calls = [item for item in details.debug_contexts if item.level in CALL_LAYERS]
    links = [
        page_link(
            f"Operation {context.name}",
            "/operations",
            reports,
            layer=context.level,
            find=context.name,
        )
        for context in calls[:2]
    ]
    return [
        html.Div(links, className="links"),
        html.H3("Created by, innermost first"),
        with_csv(_debug(details), file="debug-of-program"),
    ]


def _debug(details: ProgramDetails) -> html.Div:
    """Return the debug contexts around a program."""
    rows = [(context.layer, context.operation, context.name) for context in details.debug_contexts]
    return plain_table(("Layer", "Operation", "Name"), rows)


def _facts(details: ProgramDetails, code: ProgramCode, reports: Reports) -> html.Div:
    """Return the facts of the program itself."""
    program = details.node
    rows: list[tuple[str, Any]] = [
        ("Program", f"{program.program_id:,}"),
        (
            "Inside",
            " › ".join(ancestor.label for ancestor in details.path) or "none (root program)",
        ),
    ]
    if program.n_children:
        rows.append(
            ("Contains", f"{program.n_children:,} program{'s' * (program.n_children != 1)}")
        )
    if details.cycles is not None:
        where = "of all steps in it, " if program.n_children else ""
        runs = format_runs(details.n_runs)
        rows.append(("Cycles", f"{details.cycles:,} {where}{runs}, on the critical path"))
    if program.repeat_count > 1:
        rows.append(("Repeated", f"{program.repeat_count:,} times"))
    if program.n_tiles:
        rows.append(("Tiles", f"{program.n_tiles:,}"))
    where = "over all tiles, of all programs in it" if program.n_children else "over all tiles"
    kinds = (
        (code.exchange_bytes, "exchange"),
        (code.control_bytes, "control"),
        (code.vertex_bytes, "vertex"),
    )
    sizes = ", ".join(f"{format_bytes(size)} {kind}" for size, kind in kinds)
    rows.append(("Code", f"{sizes} code {where}"))
    if program.step_id is not None:
        rows.append(("Step", f"{program.step_id:,}"))
    rows += training_rows(details.training, reports)
    return plain_table(("", ""), rows)


def _costs(details: ProgramDetails) -> html.Div:
    """Return the cost of the step, one column per IPU."""
    rows = [
        ("Own cycles", [f"{cost.cycles:,}" for cost in details.costs]),
        ("Active tiles", [f"{cost.n_active_tiles:,}" for cost in details.costs]),
        ("Busiest tile, cycles", [f"{cost.max_tile_cycles:,}" for cost in details.costs]),
        ("Tile balance, including idle tiles", [_balance(cost) for cost in details.costs]),
        *(
            (label, [format_bytes(size(cost)) for cost in details.costs])
            for label, size in _TRAFFIC
        ),
        ("Floating-point operations", [format_count(cost.flops) for cost in details.costs]),
        ("Executions recorded", [f"{cost.n_executions:,}" for cost in details.costs]),
        ("Cycles in all runs, including waits", [f"{c.taken_cycles:,}" for c in details.costs]),
    ]
    heads = ["", *(f"IPU {cost.ipu_id}" for cost in details.costs)]
    return plain_table(
        heads, [[label, *cells] for label, cells in rows], numbers=range(1, len(heads))
    )


_TRAFFIC: tuple[tuple[str, Callable[[NodeCost], int]], ...] = (
    ("Sent", lambda cost: cost.sent_bytes),
    ("Received", lambda cost: cost.received_bytes),
    ("From/to host", lambda cost: cost.host_in_bytes + cost.host_out_bytes),
    ("From/to remote buffers", lambda cost: cost.remote_in_bytes + cost.remote_out_bytes),
)


def _balance(cost: NodeCost) -> str:
    """Return an IPU's tile balance, mean over busiest tile, as in the execution trace."""
    return MISSING if cost.tile_balance is None else format_percent(100 * cost.tile_balance)


def _vertices(details: ProgramDetails) -> html.Div:
    """Return the codelets of the step, one column per codelet."""
    vertices = details.vertices
    rows = [
        ("Kind", [vertex.kind for vertex in vertices]),
        ("Vertices", [f"{vertex.n_vertices:,}" for vertex in vertices]),
        ("Tiles", [f"{vertex.n_tiles:,}" for vertex in vertices]),
        (
            "Slowest vertex, cycles",
            [
                f"{vertex.max_cycles:,}" + " (data)" * vertex.is_data_dependent
                for vertex in vertices
            ],
        ),
        ("All vertices, cycles", [f"{vertex.total_cycles:,}" for vertex in vertices]),
        ("State", [format_bytes(vertex.state_bytes) for vertex in vertices]),
        ("Code per tile", [format_bytes(vertex.code_bytes) for vertex in vertices]),
    ]
    heads = ["", *(vertex.vertex_type for vertex in vertices)]
    return plain_table(
        heads, [[label, *cells] for label, cells in rows], numbers=range(1, len(heads))
    )
