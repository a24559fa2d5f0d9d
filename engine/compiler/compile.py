"""The compiler: program trees in, an executable out."""

from __future__ import annotations

from collections.abc import Sequence

from engine.compiler.executable import Executable
from engine.compiler.liveness import live_ranges
from engine.compiler.lowering import Lowering
from engine.compiler.memory import lay_out
from engine.graph import Graph
from engine.graph.check import check_compute_sets
from engine.planner.plan import Plan
from engine.program import Program

__all__ = ["compile_programs"]


def compile_programs(
    graph: Graph,
    programs: Sequence[Program],
    *,
    plans: Sequence[Plan] = (),
    is_instrumented: bool = True,
    is_checked: bool = False,
) -> Executable:
    """Compile control programs for the graph's machine.

    Parameters
    ----------
    graph
        Variables and compute sets; every variable that is used must be mapped.
    programs
        Control programs, run by their index.
    plans
        Plans to keep for the report.
    is_instrumented
        Whether cycle counters take memory on the tiles.
    is_checked
        Whether to check that no vertex reads or writes what another one of its compute set
        writes.

    Returns
    -------
    Executable
        Also when it does not fit: see `Executable.overfull_tiles`.

    Raises
    ------
    BadGraph
        When a rule of the machine is broken.
    """
    lowering = Lowering(graph)
    roots = lowering.lower(programs)
    if is_checked:
        check_compute_sets(graph.compute_sets)
    ranges = live_ranges(graph, lowering.steps, roots)
    memory = lay_out(graph, lowering.steps, ranges, graph.machine, is_instrumented=is_instrumented)
    uses = [use for key in sorted(lowering.vertex_uses) for use in lowering.vertex_uses[key]]
    return Executable(
        graph=graph,
        machine=graph.machine,
        steps=tuple(lowering.steps),
        nodes=tuple(lowering.nodes),
        roots=tuple(roots),
        functions=tuple(lowering.functions),
        memory=memory,
        vertex_uses=tuple(uses),
        plans=tuple(plans),
    )
