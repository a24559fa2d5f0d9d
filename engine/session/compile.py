"""The compilation entry point: validates arguments, resolves options, expands copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilescope.engine.arguments import a_kind, a_list, a_switch
from tilescope.engine.compiler.compile import compile_image
from tilescope.engine.compiler.executable.executable import Executable, Stopwatch
from tilescope.engine.compiler.options import CompileOptions
from tilescope.engine.compiler.phase_costs import PhaseCosts
from tilescope.engine.graph import Graph, GraphCopy, OwnGraph
from tilescope.engine.options import resolve
from tilescope.engine.options.catalogue import INDEPENDENT_REPLICAS
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Program
from tilescope.engine.program.check import check_programs
from tilescope.engine.session.expand import expand_programs

__all__ = ["compile_graph", "compile_programs"]


def compile_programs(
    graph: Graph,
    programs: Sequence[Program],
    *,
    plans: Sequence[Plan] = (),
    is_instrumented: bool | None = None,
    is_checked: bool = False,
    cache_directory: Path | str | None = None,
    costs: PhaseCosts | None = None,
) -> Executable:
    """Compile control programs for the graph's machine.

    Neither the graph nor the programs are changed, and later changes to them do not affect the
    executable.

    Parameters
    ----------
    graph
        Variables and compute sets; every variable in use must be mapped.
    programs
        Control programs, run by index.
    plans
        Plans to keep for the report.
    is_instrumented
        Whether cycle counters occupy tile memory. If None, they do unless the environment's options
        turn ``debug.instrument`` off.
    is_checked
        Whether to check that no vertex reads or writes what another vertex of its compute set
        writes.
    cache_directory
        Directory of the executable cache; if None, the one in the environment's options.
    costs
        Costs computed before for the same machine, which this compilation adds to.

    Returns
    -------
    Executable
        The compiled program, even if it does not fit: see `Executable.overfull_tiles`.

    Raises
    ------
    BadGraph
        When a rule of the machine is violated, or an argument has the wrong type.
    """
    stopwatch = Stopwatch()
    check_programs(graph, programs)
    for plan in a_list("The plans of a program", plans, "the plans of a Builder"):
        a_kind("A plan of a program", plan, Plan, "a plan of a Builder")
    if is_instrumented is not None:
        a_switch("is_instrumented", is_instrumented)
    a_switch("is_checked", is_checked)
    if cache_directory is not None:
        a_kind("The cache's directory", cache_directory, Path | str, "a path")
    return compile_graph(
        GraphCopy(graph),
        programs,
        plans=plans,
        is_instrumented=is_instrumented,
        is_checked=is_checked,
        cache_directory=cache_directory,
        costs=costs,
        stopwatch=stopwatch,
    )


def compile_graph(
    graph: GraphCopy | OwnGraph,
    programs: Sequence[Program],
    *,
    plans: Sequence[Plan],
    is_instrumented: bool | None,
    is_checked: bool,
    cache_directory: Path | str | None,
    costs: PhaseCosts | None,
    stopwatch: Stopwatch,
) -> Executable:
    """Compile control programs as `compile_programs` does; none of the arguments is checked.

    Parameters
    ----------
    graph
        A copy of a caller's graph, or the engine's own.
    programs, plans, is_instrumented, is_checked, cache_directory, costs
        As for `compile_programs`.
    stopwatch
        Started when the compilation began.

    Raises
    ------
    BadGraph
        When a rule of the machine is violated.
    """
    resolved = resolve()
    options = CompileOptions(
        is_instrumented=resolved.allows_instrumentation
        if is_instrumented is None
        else is_instrumented,
        is_checked=is_checked,
        cache_directory=cache_directory or resolved.cache_directory,
        is_independent=resolved.flag(INDEPENDENT_REPLICAS),
    )
    image, expanded = expand_programs(graph, programs)
    return compile_image(image, expanded, tuple(plans), options, stopwatch, costs)
