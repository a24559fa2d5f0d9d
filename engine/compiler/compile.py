"""The compiler: the image of a graph and its programs in, an executable out."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.cache.cached import CachedCompilation
from tilescope.engine.compiler.cycles.cycles import take_slow_paths
from tilescope.engine.compiler.executable.executable import Executable, Step, Stopwatch
from tilescope.engine.compiler.lower.lowering import Lowering
from tilescope.engine.compiler.memory.layout import lay_out
from tilescope.engine.compiler.memory.liveness import live_ranges
from tilescope.engine.compiler.options import CompileOptions
from tilescope.engine.compiler.phase_costs import PhaseCosts
from tilescope.engine.graph import GraphImage
from tilescope.engine.graph.vertex.check import check_compute_sets
from tilescope.engine.host.memory import keep_freed
from tilescope.engine.log_output import TRACE
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Program
from tilescope.tracepoints import traced

__all__ = ["compile_image"]

_log = logging.getLogger(__name__)


@traced(POPLAR, "compile")
def compile_image(
    graph: GraphImage,
    programs: Sequence[Program],
    plans: Sequence[Plan],
    options: CompileOptions,
    stopwatch: Stopwatch,
    costs: PhaseCosts | None = None,
) -> Executable:
    """Compile control programs of a frozen graph.

    Parameters
    ----------
    graph
        Variables and compute sets; every variable in use must be mapped.
    programs
        Control programs, checked, on variables and compute sets of the image, with copies expanded.
    plans
        Plans to keep for the report.
    options
        What to check and count, and the location of the cache.
    stopwatch
        Started when the compilation began.
    costs
        Costs computed before for the same machine.

    Raises
    ------
    BadGraph
        When a rule of the machine is broken.
    """
    keep_freed()
    costs = costs or PhaseCosts(graph.machine)
    lowering = Lowering(graph, costs, is_independent=options.is_independent)
    cached = CachedCompilation(graph, programs, lowering.compute_cost, options)
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
        if options.is_checked:
            check_compute_sets(graph.compute_sets)
            _log.info("checked %d compute sets against the rule", len(graph.compute_sets))
        liveness = live_ranges(graph, roots)
        memory = lay_out(graph, lowering.steps, liveness, is_instrumented=options.is_instrumented)
        cached.keep(lowering.around, memory)
    take_slow_paths(lowering.steps, memory.slow_tiles, lowering.vertex_uses, costs.compute)
    uses = [use for key in sorted(lowering.vertex_uses) for use in lowering.vertex_uses[key]]
    for node in lowering.nodes:
        node.freeze()
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
        record=stopwatch.record(cached.state),
    )
    _log_memory(executable)
    return executable


def _log_steps(steps: Sequence[Step]) -> None:
    """Log every step and its cost."""
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
    """Log the fullest tile, and every tile at the finest log level."""
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
