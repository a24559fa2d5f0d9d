"""The compiler: program trees in, an executable out."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from tilescope.engine.arguments import a_kind, a_list, a_switch
from tilescope.engine.compiler.cache import CachedCompilation
from tilescope.engine.compiler.cycles import take_slow_paths
from tilescope.engine.compiler.executable import CompileRecord, Executable, Step
from tilescope.engine.compiler.liveness import live_ranges
from tilescope.engine.compiler.lowering import Lowering
from tilescope.engine.compiler.memory import lay_out
from tilescope.engine.graph import Graph
from tilescope.engine.graph.check import check_compute_sets
from tilescope.engine.log_output import TRACE
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Program
from tilescope.engine.program.check import check_programs

__all__ = ["compile_programs"]

_log = logging.getLogger(__name__)


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
    began_us, timer = time.time_ns() // 1000, time.perf_counter_ns()
    check_programs(graph, programs)
    for plan in a_list("The plans of a program", plans, "those of a Builder"):
        a_kind("A plan of a program", plan, Plan, "one of those of a Builder")
    a_switch("is_instrumented", is_instrumented)
    a_switch("is_checked", is_checked)
    if cache_directory is not None:
        a_kind("The cache's directory", cache_directory, Path | str, "a path")
    lowering = Lowering(graph)
    options = {"is_instrumented": is_instrumented, "is_checked": is_checked}
    cached = CachedCompilation(graph, programs, lowering.compute_cost, options, cache_directory)
    if cached.found is not None:
        lowering.around.update(cached.found.around)
    roots = lowering.lower(programs)
    _log.info(
        "lowered %d programs: %d compute sets, %d variables, %d steps, %d program nodes",
        len(programs),
        len(graph.compute_sets),
        len(graph.variables),
        len(lowering.steps),
        len(lowering.nodes),
    )
    if _log.isEnabledFor(logging.DEBUG):
        _log_steps(lowering.steps)
    memory = cached.memory(len(lowering.steps))
    if memory is None:
        if is_checked:
            check_compute_sets(graph.compute_sets)
            _log.info("checked %d compute sets against the rule", len(graph.compute_sets))
        ranges = live_ranges(graph, lowering.steps, roots)
        memory = lay_out(
            graph, lowering.steps, ranges, graph.machine, is_instrumented=is_instrumented
        )
        cached.keep(lowering.around, memory)
    take_slow_paths(lowering.steps, memory.slow_tiles, lowering.vertex_uses, graph.machine)
    uses = [use for key in sorted(lowering.vertex_uses) for use in lowering.vertex_uses[key]]
    elapsed_us = (time.perf_counter_ns() - timer) // 1000
    executable = Executable(
        graph=graph,
        machine=graph.machine,
        steps=tuple(lowering.steps),
        nodes=tuple(lowering.nodes),
        roots=tuple(roots),
        functions=tuple(lowering.functions),
        memory=memory,
        vertex_uses=tuple(uses),
        plans=tuple(plans),
        record=CompileRecord(cached.state, began_us, elapsed_us),
    )
    _log_memory(executable)
    return executable


def _log_steps(steps: Sequence[Step]) -> None:
    """Log each step with what it costs."""
    for step in steps:
        _log.debug(
            "step %d %s %s: %d cycles, %d bytes exchanged",
            step.step_id,
            step.kind,
            step.name,
            step.cost.cycles.max(),
            step.cost.received_bytes.sum(),
        )


def _log_memory(executable: Executable) -> None:
    """Log the fullest tile, and at the finest level every tile."""
    tile_bytes = executable.memory.including_gaps
    fullest = int(tile_bytes.argmax())
    _log.info(
        "laid out memory: fullest tile %d with %d of %d bytes, %d tiles overfull",
        fullest,
        tile_bytes[fullest],
        executable.machine.allocatable_bytes,
        executable.overfull_tiles.size,
    )
    if _log.isEnabledFor(TRACE):
        for tile_id, n_bytes in enumerate(tile_bytes.tolist()):
            _log.log(TRACE, "tile %d: %d bytes", tile_id, n_bytes)
