"""``tilescope programs``: the program tree, one of its nodes, or a search in it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table, report_json
from tilescope.parameters import AsJson, ReportPath

if TYPE_CHECKING:
    from tilescope.analyser.programs import ProgramDetails, ProgramNode
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``programs``."""

    @app.command()
    def programs(
        path: ReportPath,
        as_json: AsJson = False,
        search: Annotated[
            str | None, typer.Option("--search", help="List programs whose label holds this text.")
        ] = None,
        node: Annotated[
            int | None, typer.Option("--node", help="Show one program by its id.")
        ] = None,
        depth: Annotated[
            int | None,
            typer.Option(
                min=0,
                max=200,
                help="How deep the tree is shown; a small one whole, a large one to 3.",
                show_default=False,
            ),
        ] = None,
        limit: Annotated[
            int, typer.Option(min=1, help="How many children or matches are listed.")
        ] = 20,
    ) -> None:
        """Show the program tree, search in it, or show what one program costs."""
        from tilescope import analyser

        if search is not None and node is not None:
            raise typer.BadParameter("--search and --node cannot be used together.")
        with analyser.open(path) as report:
            if node is not None:
                _show_node(report, node, as_json)
            elif search is not None:
                _show_matches(report, search, limit, as_json)
            else:
                depth = _depth(report) if depth is None else depth
                if as_json:
                    print_json(report_json(report) | {"roots": _tree(report, depth, limit)})
                else:
                    _print_tree(report, depth, limit)


#: A tree of at most this many programs is shown whole.
_SMALL_TREE = 150


def _depth(report: Report) -> int:
    """Return how deep a tree is shown if nothing is said."""
    from tilescope.analyser.programs import n_programs

    return 200 if n_programs(report) <= _SMALL_TREE else 3


def _node_json(node: ProgramNode) -> dict[str, object]:
    """Return a node with its label and phase."""
    return asdict(node) | {"label": node.label, "phase": node.phase}


def _tree(report: Report, depth: int, limit: int) -> list[dict[str, object]]:
    """Return the tree as nested objects, each with at most ``limit`` children."""
    from tilescope.analyser.programs import children, roots

    def nested(node: ProgramNode, left: int) -> dict[str, object]:
        answer = _node_json(node)
        if left and node.n_children:
            below = children(report, node.program_id)[:limit]
            answer["children"] = [nested(child, left - 1) for child in below]
        return answer

    return [nested(root, depth) for root in roots(report)]


def _print_tree(report: Report, depth: int, limit: int) -> None:
    """Print the tree, indented; what is left out is counted."""
    from tilescope.analyser.programs import children, roots

    def show(node: ProgramNode, level: int) -> None:
        times = f" {node.repeat_count:,}×" if node.kind == "Repeat" else ""
        tiles = f" ({node.n_tiles:,} tiles)" if node.n_tiles else ""
        print_line(f"{'  ' * level}{node.label}{times}{tiles} (Id: {node.program_id})")
        if not node.n_children:
            return
        if level >= depth:
            print_line(f"{'  ' * (level + 1)}… {node.n_children:,} inside")
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
    """Print programs that were found, with where they stand."""
    from tilescope.analyser.programs import search

    found = search(report, text, limit)
    if as_json:
        print_json(
            report_json(report)
            | {
                "n_matches": found.n_matches,
                "matches": [
                    _node_json(match.node) | {"ancestors": list(match.ancestors)}
                    for match in found.matches
                ],
            }
        )
        return
    print_line(f"{found.n_matches:,} programs hold {text!r}; the first {len(found.matches):,}:")
    print_table(
        [Column("Id", is_number=True), Column("Program"), Column("Tiles", is_number=True)],
        [
            (str(match.node.program_id), match.node.label, f"{match.node.n_tiles:,}")
            for match in found.matches
        ],
    )


def _show_node(report: Report, program_id: int, as_json: bool) -> None:
    """Print one program."""
    from tilescope.analyser.programs import node

    details = node(report, program_id)
    if as_json:
        print_json(
            report_json(report)
            | {
                "node": _node_json(details.node),
                "path": [_node_json(each) for each in details.path],
                "costs": [asdict(each) for each in details.costs],
                "compute_set": details.compute_set_name,
                "vertices": [asdict(each) for each in details.vertices],
                "debug_contexts": [asdict(each) for each in details.debug_contexts],
            }
        )
        return
    _print_details(details)


def _print_details(details: ProgramDetails) -> None:
    """Print where a program stands, what it costs, and what it runs."""
    from tilescope.analyser.quantities import format_bytes

    found = details.node
    for level, each in enumerate((*details.path, found)):
        print_line(f"{'  ' * level}{each.label} (Id: {each.program_id})")
    print_line(f"{found.n_tiles:,} tiles, {format_bytes(found.code_bytes)} of code")
    if details.costs:
        titles = ("IPU", "Cycles", "Busiest tile", "Active tiles", "Sent", "Received", "Ran")
        print_line()
        print_table(
            [Column(title, is_number=True) for title in (*titles, "Cycles in all runs")],
            [
                (
                    str(each.ipu_id),
                    f"{each.cycles:,}",
                    f"{each.max_tile_cycles:,}",
                    f"{each.n_active_tiles:,}",
                    format_bytes(each.sent_bytes),
                    format_bytes(each.received_bytes),
                    f"{each.n_executions:,}×",
                    f"{each.taken_cycles:,}",
                )
                for each in details.costs
            ],
        )
        if any(each.taken_cycles > each.cycles * each.n_executions for each in details.costs):
            print_line("Cycles in all runs hold what was waited for others in this step.")
        elif details.node.phase == "sync" and not any(each.cycles for each in details.costs):
            print_line("It takes no time of its own, and was never waited in.")
    if details.vertices:
        numbers = ("Vertices", "Tiles", "Slowest, cycles", "Code", "State")
        print_line()
        print_table(
            [
                Column("Vertex type"),
                Column("Kind"),
                *(Column(title, is_number=True) for title in numbers),
            ],
            [
                (
                    each.vertex_type,
                    each.kind,
                    f"{each.n_vertices:,}",
                    f"{each.n_tiles:,}",
                    f"{each.max_cycles:,}",
                    format_bytes(each.code_bytes),
                    format_bytes(each.state_bytes),
                )
                for each in details.vertices
            ],
        )
    for context in details.debug_contexts:
        print_line(f"made by {context.layer} {context.operation} {context.name}")
