"""Details of a program: its location, cost, vertices and origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import html

from tilescope.analyser.programs import NodeCost, ProgramDetails
from tilescope.analyser.quantities import MISSING, format_bytes, format_count, format_percent
from tilescope.webapp.components.tables import plain_table

__all__ = ["program_panel"]


def program_panel(details: ProgramDetails) -> html.Div:
    """Return the details of a program."""
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
        rows = [
            (context.layer, context.operation, context.name) for context in details.debug_contexts
        ]
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
        (
            "Inside",
            " › ".join(ancestor.label for ancestor in details.path) or "none (root program)",
        ),
    ]
    if program.n_children:
        rows.append(
            ("Contains", f"{program.n_children:,} program{'s' * (program.n_children != 1)}")
        )
    if program.repeat_count > 1:
        rows.append(("Repeated", f"{program.repeat_count:,} times"))
    if program.n_tiles:
        rows.append(("Tiles", f"{program.n_tiles:,}"))
    where = "over all tiles, of all programs in it" if program.n_children else "over all tiles"
    rows.append(("Code", f"{format_bytes(details.code_inside_bytes)} {where}"))
    if program.step_id is not None:
        rows.append(("Step", f"{program.step_id:,}"))
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
    found = details.vertices
    rows = [
        ("Kind", [vertex.kind for vertex in found]),
        ("Vertices", [f"{vertex.n_vertices:,}" for vertex in found]),
        ("Tiles", [f"{vertex.n_tiles:,}" for vertex in found]),
        (
            "Slowest vertex, cycles",
            [f"{vertex.max_cycles:,}" + " (data)" * vertex.is_data_dependent for vertex in found],
        ),
        ("All vertices, cycles", [f"{vertex.total_cycles:,}" for vertex in found]),
        ("State", [format_bytes(vertex.state_bytes) for vertex in found]),
        ("Code per tile", [format_bytes(vertex.code_bytes) for vertex in found]),
    ]
    heads = ["", *(vertex.vertex_type for vertex in found)]
    return plain_table(
        heads, [[label, *cells] for label, cells in rows], numbers=range(1, len(heads))
    )
