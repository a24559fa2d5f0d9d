"""Compilation as users call it: arguments checked, options resolved, copies expanded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilescope.engine.arguments import a_kind, a_list, a_switch
from tilescope.engine.compiler import CompileOptions, Executable, Stopwatch, compile_image
from tilescope.engine.graph import Graph
from tilescope.engine.options import resolve
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Program
from tilescope.engine.program.check import check_programs
from tilescope.engine.session.expand import expand_programs

__all__ = ["compile_programs"]


def compile_programs(
    graph: Graph,
    programs: Sequence[Program],
    *,
    plans: Sequence[Plan] = (),
    is_instrumented: bool = True,
    is_checked: bool = False,
    cache_directory: Path | str | None = None,
) -> Executable:
    """Compile control programs for the graph's machine.

    Neither the graph nor the programs are changed, and changing them afterwards does not change
    the executable.

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
    cache_directory
        Where to look for what was compiled before, and to keep it; that of the environment's
        options when None.

    Returns
    -------
    Executable
        Also when it does not fit: see `Executable.overfull_tiles`.

    Raises
    ------
    BadGraph
        When a rule of the machine is broken, or an argument is of the wrong kind.
    """
    stopwatch = Stopwatch()
    check_programs(graph, programs)
    for plan in a_list("The plans of a program", plans, "those of a Builder"):
        a_kind("A plan of a program", plan, Plan, "one of those of a Builder")
    a_switch("is_instrumented", is_instrumented)
    a_switch("is_checked", is_checked)
    if cache_directory is not None:
        a_kind("The cache's directory", cache_directory, Path | str, "a path")
    options = CompileOptions(
        is_instrumented=is_instrumented,
        is_checked=is_checked,
        cache_directory=cache_directory or resolve().cache_directory,
    )
    image, expanded = expand_programs(graph, programs)
    return compile_image(image, expanded, tuple(plans), options, stopwatch)
