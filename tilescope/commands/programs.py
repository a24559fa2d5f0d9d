"""``tilescope programs``: the program tree, a single node, or search results."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import (
    Column,
    print_json,
    print_line,
    print_name,
    print_table,
    reading,
    report_json,
)
from tilescope.parameters import AsJson, IpusOption, ReportPath, RunOption, examples

if TYPE_CHECKING:
    from tilescope.analyser.program.program_tree import ProgramNode
    from tilescope.analyser.program.programs import ProgramDetails
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``programs``."""

    @app.command(
        epilog=examples(
            "programs report --depth 2",
            "programs report --search conv",
            "programs report --node 7 --run 0",
        )
    )
    def programs(
        path: ReportPath,
        as_json: AsJson = False,
        search: Annotated[
            str | None,
            typer.Option("--search", help="List programs whose label has these words."),
        ] = None,
        node: Annotated[int | None, typer.Option("--node", help="Show one program, by id.")] = None,
        ipu: IpusOption = None,
        run: RunOption = None,
        depth: Annotated[
            int | None,
            typer.Option(
                min=0,
                max=200,
                help="Depth of the tree; by default all of a small tree, 3 levels of a large one.",
                show_default=False,
            ),
        ] = None,
        limit: Annotated[
            int, typer.Option(min=1, help="Number of children or matches listed.")
        ] = 20,
    ) -> None:
        """Show the program tree, search it, or show the cost of one program."""
        if search is not None and node is not None:
            raise typer.BadParameter("--search and --node are mutually exclusive.")
        if node is None and (ipu or run is not None):
            raise typer.BadParameter("--ipu and --run require --node N.")
        with reading(path) as report:
            if node is not None:
                _show_node(report, _chosen(report, node, ipu or [], run), as_json)
            elif search is not None:
                _show_matches(report, search, limit, as_json)
            else:
                depth = _depth(report) if depth is None else depth
                if as_json:
                    print_json(report_json(report) | {"roots": _tree(report, depth, limit)})
                else:
                    _print_tree(report, depth, limit)


#: A tree of at most this many programs is shown in full.
_SMALL_TREE = 150


def _depth(report: Report) -> int:
    """Return the default depth of the tree."""
    from tilescope.analyser.program.program_tree import n_programs

    return 200 if n_programs(report) <= _SMALL_TREE else 3


def _node_json(node: ProgramNode) -> dict[str, object]:
    """Return a node with its label and phase."""
    return asdict(node) | {"label": node.label, "phase": node.phase}


def _tree(report: Report, depth: int, limit: int) -> list[dict[str, object]]:
    """Return the tree as nested objects with at most ``limit`` children per node."""
    from tilescope.analyser.program.programs import children, roots

    def nested(node: ProgramNode, left: int) -> dict[str, object]:
        answer = _node_json(node)
        if left and node.n_children:
            below = children(report, node.program_id)[:limit]
            answer["children"] = [nested(child, left - 1) for child in below]
        return answer

    return [nested(root, depth) for root in roots(report)]


def _print_tree(report: Report, depth: int, limit: int) -> None:
    """Print the tree, indented, with the number of omitted programs."""
    from tilescope.analyser.program.programs import children, roots

    def show(node: ProgramNode, level: int) -> None:
        times = f" {node.repeat_count:,}×" if node.kind == "Repeat" else ""
        tiles = f" ({node.n_tiles:,} tiles)" if node.n_tiles else ""
        kind, name = node.kind, f" ({node.name})" if node.name else ""
        after = f"{times}{tiles} (Id: {node.program_id})"
        print_name(f"{'  ' * level}{kind}", name, after)
        if not node.n_children:
            return
        if level >= depth:
            print_line(f"{'  ' * (level + 1)}… {node.n_children:,} nested")
            return
        below = children(report, node.program_id)
        for child in below[:limit]:
            show(child, level + 1)
        if len(below) > limit:
            print_line(f"{'  ' * (level + 1)}… {len(below) - limit:,} more")

    titles = {"control": "Control program", "function": "Function"}
    for root in roots(report):
        print_line(f"{titles.get(root.root_kind, root.root_kind)} {root.root_index}")
        show(root, 1)


def _show_matches(report: Report, text: str, limit: int, as_json: bool) -> None:
    """Print the matches of a search."""
    from tilescope.analyser.program.programs import search

    matches = search(report, text, limit)
    if as_json:
        print_json(
            report_json(report)
            | {
                "n_matches": matches.n_matches,
                "matches": [
                    _node_json(match.node) | {"ancestors": list(match.ancestors)}
                    for match in matches.matches
                ],
            }
        )
        return
    print_line(
        f"{matches.n_matches:,} programs contain {text!r}; the first {len(matches.matches):,}:"
    )
    print_table(
        [Column("Id", is_number=True), Column("Program"), Column("Tiles", is_number=True)],
        [
            (str(match.node.program_id), match.node.label, f"{match.node.n_tiles:,}")
            for match in matches.matches
        ],
    )


def _chosen(report: Report, program_id: int, ipus: list[int], run_id: int | None) -> ProgramDetails:
    """Return one program with its costs on some IPUs, in one run or all."""
    from tilescope.analyser.machine.target import tile_range
    from tilescope.analyser.program.programs import node

    details = node(report, program_id, run_id)
    for ipu in ipus:
        tile_range(report, ("ipu", ipu))
    costs = tuple(cost for cost in details.costs if not ipus or cost.ipu_id in ipus)
    return replace(details, costs=costs)


def _show_node(report: Report, details: ProgramDetails, as_json: bool) -> None:
    """Print one program."""
    from tilescope.analyser.memory.program_code import program_code
    from tilescope.analyser.time.occupancy import slowest_tiles

    if as_json:
        step_id, number = details.node.step_id, details.node.program_id
        slowest = () if step_id is None else slowest_tiles(report, step_id)
        print_json(
            report_json(report)
            | {
                "node": _node_json(details.node),
                "path": [_node_json(parent) for parent in details.path],
                "cycles": details.cycles,
                "costs": [asdict(cost) for cost in details.costs],
                "code": asdict(program_code(report, number)),
                "slowest_tiles": [asdict(tile) for tile in slowest],
                "compute_set": details.compute_set_name,
                "vertices": [asdict(vertex) for vertex in details.vertices],
                "debug_contexts": [asdict(context) for context in details.debug_contexts],
                "training": None if details.training is None else asdict(details.training),
            }
        )
        return
    _print_details(details)


def _print_details(details: ProgramDetails) -> None:
    """Print the path of a program, its cost and its vertices."""
    from tilescope.analyser.quantities import format_bytes, format_runs

    found = details.node
    for level, node in enumerate((*details.path, found)):
        print_name("  " * level, node.label, f" (Id: {node.program_id})")
    inside = " in it" if found.n_children else ""
    code = format_bytes(details.code_inside_bytes)
    print_line(f"{found.n_tiles:,} tiles, {code} of code{inside}")
    if found.n_children and details.cycles is not None:
        print_line(f"{details.cycles:,} cycles in it, {format_runs(details.n_runs)}")
    if details.costs:
        titles = ("IPU", "Cycles", "Busiest tile", "Active tiles", "Sent", "Received", "Executions")
        print_line()
        print_table(
            [Column(title, is_number=True) for title in (*titles, "Cycles, all runs")],
            [
                (
                    str(cost.ipu_id),
                    f"{cost.cycles:,}",
                    f"{cost.max_tile_cycles:,}",
                    f"{cost.n_active_tiles:,}",
                    format_bytes(cost.sent_bytes),
                    format_bytes(cost.received_bytes),
                    f"{cost.n_executions:,}×",
                    f"{cost.taken_cycles:,}",
                )
                for cost in details.costs
            ],
        )
        if any(cost.taken_cycles > cost.cycles * cost.n_executions for cost in details.costs):
            print_line("Cycles of all runs include time spent waiting in this step.")
        elif details.node.phase == "sync" and not any(cost.cycles for cost in details.costs):
            print_line("This sync takes no cycles, and no IPU waited in it.")
    if details.vertices:
        numbers = ("Vertices", "Tiles", "Max cycles", "Code", "State")
        print_line()
        print_table(
            [
                Column("Vertex type"),
                Column("Kind"),
                *(Column(title, is_number=True) for title in numbers),
            ],
            [
                (
                    vertex.vertex_type,
                    vertex.kind,
                    f"{vertex.n_vertices:,}",
                    f"{vertex.n_tiles:,}",
                    f"{vertex.max_cycles:,}",
                    format_bytes(vertex.code_bytes),
                    format_bytes(vertex.state_bytes),
                )
                for vertex in details.vertices
            ],
        )
    if details.training is not None:
        print_line(f"Pass of the training step: {details.training.label.lower()}")
    for context in details.debug_contexts:
        print_name(f"Created by {context.layer} {context.operation} ", context.name)
