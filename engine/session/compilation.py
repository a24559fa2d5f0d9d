"""Compilation of a model, or its program from a folder of programs compiled before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tilescope.collection import without_collection
from tilescope.engine.channels import FRAMEWORK, POPLAR
from tilescope.engine.compiler.cache.plans import PlanFolder
from tilescope.engine.compiler.cache.programs import ProgramFolder, lowered_folder
from tilescope.engine.compiler.executable.executable import Executable, Stopwatch
from tilescope.engine.compiler.phase_costs import PhaseCosts
from tilescope.engine.graph import OwnGraph
from tilescope.engine.ir import Model
from tilescope.engine.ir.digest import model_digests
from tilescope.engine.lower import lower
from tilescope.engine.lower.fragments import Fragments
from tilescope.engine.machine import Machine
from tilescope.engine.options import resolve
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.planner.convolution.memo import PlanMemo
from tilescope.engine.program.check import check_nesting
from tilescope.engine.session.capacity import REPORTED, Excess, check_capacity
from tilescope.engine.session.compile import compile_graph
from tilescope.engine.session.compiled_model import CompiledModel, Held
from tilescope.engine.session.lowered_folder import LoweredFolder
from tilescope.engine.session.outline import outline
from tilescope.engine.session.overlap_streaming import overlap_streaming
from tilescope.engine.session.settings import CompileSettings
from tilescope.engine.session.shared_constants import share_constants
from tilescope.engine.session.stored_program import (
    keep_program,
    parts_of,
    recorded,
    take_program,
)
from tilescope.engine.transform import Phase, transform
from tilescope.engine.transform.narrowing import narrowed_types
from tilescope.engine.transform.recurrent_storage import (
    LayerStorage,
    layer_storages,
    store_layers,
)
from tilescope.reports.figures import bytes_past
from tilescope.tracepoints import Tracepoint, traced

__all__ = ["compile_model", "compile_with"]

_log = logging.getLogger(__name__)


def compile_model(  # noqa: PLR0913 # the options of a compilation
    model: Model,
    machine: Machine,
    *,
    is_instrumented: bool | None = None,
    is_checked: bool = False,
    available_memory: AvailableMemory | None = None,
    cache_directory: Path | str | None = None,
    partials: PartialsTypes | None = None,
    outlines: bool = True,
    without: Collection[str] = (),
    excess: Excess | None = REPORTED,
    programs: ProgramFolder | None = None,
) -> CompiledModel:
    """Compile a model for a machine; the result may not fit.

    Parameters
    ----------
    model
        The operator graph.
    machine
        The machine to compile for.
    is_instrumented
        Whether cycle counters occupy tile memory; see `compile_programs`.
    is_checked
        Whether to check that no vertex accesses what another vertex of its compute set writes.
    available_memory
        Share of tile memory available to an operation while it runs. By default 0.6, or half of
        it, a quarter and so on while the model does not fit.
    cache_directory
        Directory of the executable cache; see `compile_programs`.
    partials
        Type of the partial sums of half products; float by default.
    outlines
        Whether repeated operations share vertices and code where that pays.
    without
        Names of passes over the model to leave out; see `tilescope.engine.transform.PASSES`.
    excess
        How large a model that cannot fit may be and still be compiled; None compiles all.
    programs
        Programs compiled before; by default those in the directory of the executable cache.

    Raises
    ------
    BadOption
        When there is no pass of such a name.
    BadModel
        When the model is not well-formed, or has an operation on unsupported types.
    OutOfTileMemory
        When a value, or the least code of its operations, exceeds the tiles by more than `excess`.
    """
    settings = CompileSettings.given(
        is_instrumented, is_checked, available_memory, partials, outlines, without, excess
    )
    cache_directory = cache_directory or resolve().cache_directory
    if programs is None and cache_directory is not None:
        programs = ProgramFolder(cache_directory)
    return compile_with(model, machine, settings, cache_directory, programs)


@traced(FRAMEWORK, "compile model")
@without_collection()
def compile_with(
    model: Model,
    machine: Machine,
    settings: CompileSettings,
    cache_directory: Path | str | None = None,
    programs: ProgramFolder | None = None,
) -> CompiledModel:
    """Compile a model as `compile_model` does, with settings.

    Parameters
    ----------
    model, machine
        The operator graph, and the machine to compile for.
    settings
        All options of the compilation.
    cache_directory
        Directory of the executable cache; None for none.
    programs
        Programs compiled before; None takes and keeps none.

    Raises
    ------
    BadOption, BadModel, OutOfTileMemory
        As for `compile_model`.
    """
    stopwatch = Stopwatch()
    parts = None if programs is None else parts_of(programs, model, machine, settings)
    known = None if parts is None else take_program(parts)
    if known is not None:
        return recorded(known, "hit", stopwatch)
    compiled = _compiled(model, machine, settings, cache_directory)
    state = compiled.executable.record.cache if programs is None else "miss"
    compiled = recorded(compiled, state, stopwatch)
    if parts is None:
        return compiled
    compiled = replace(compiled, executable=replace(compiled.executable, parts=parts))
    keep_program(parts, compiled)
    return compiled


def _compiled(
    model: Model,
    machine: Machine,
    settings: CompileSettings,
    cache_directory: Path | str | None,
) -> CompiledModel:
    """Return a model that is compiled anew."""
    partials, outlines = settings.partials, settings.outlines
    available_memory = settings.available_memory
    before = [phase for phase in Phase if phase is not Phase.PLACE]
    stated, model = model, transform(model, settings.without, before)
    if settings.excess is not None:
        least = 0.0 if available_memory is None else available_memory.matmul
        check_capacity(store_layers(model, machine, least), machine, settings.excess)
    graph_digest, weights_digest = model_digests(stated)
    costs = PhaseCosts(machine)
    digests = costs.exchanges.digests
    near = model.front_end, model.name, machine
    store = LoweredFolder(ProgramFolder(cache_directory, lowered_folder), near, digests)
    costs.exchanges.store = store
    memo = PlanMemo(PlanFolder(cache_directory))
    fragments = Fragments(store, digests)

    def compiled(share: AvailableMemory) -> Executable:
        stored = store_layers(model, machine, share.matmul)
        placed = transform(stored, settings.without, [Phase.PLACE])
        with Tracepoint(POPLAR, "compile.build graph"):
            lowered = lower(placed, machine, share, partials, memo, fragments)
        share_constants(lowered.graph, lowered.programs, lowered.part_constants, digests)
        if outlines:
            outline(lowered.graph, lowered.programs[0], costs)
        overlap_streaming(lowered.graph, lowered.programs[0])
        check_nesting(lowered.programs)
        executable = compile_graph(
            OwnGraph(lowered.graph),
            lowered.programs,
            plans=lowered.plans,
            is_instrumented=settings.is_instrumented,
            is_checked=settings.is_checked,
            cache_directory=cache_directory,
            costs=costs,
            stopwatch=Stopwatch(),
        )
        return replace(executable, notices=(*stored.notices, *narrowed_types(model)))

    def storages(share: AvailableMemory) -> list[LayerStorage]:
        return [*layer_storages(model, machine, share.matmul).values()]

    executable = compiled(available_memory or AvailableMemory())
    if available_memory is None and executable.overfull_tiles.size:
        executable = _with_less(compiled, storages, executable)
    store.save()
    executable = replace(
        executable,
        graph_digest=graph_digest,
        weights_digest=weights_digest,
    )
    buffers = {buffer.name for buffer in executable.graph.remote_buffers}
    held = tuple(Held.of(value, is_off_chip=value.name in buffers) for value in model.held)
    return CompiledModel(model.interface, executable, held, stated.training)


def _with_less(
    compiled: Callable[[AvailableMemory], Executable],
    storages: Callable[[AvailableMemory], list[LayerStorage]],
    executable: Executable,
) -> Executable:
    """Return the program compiled with the largest share of temporary memory at which it fits.

    Shares at which all plans and stored values would stay as they are need no compilation. If the
    program does not fit at any share, it is returned as it is.
    """
    now, smaller = AvailableMemory(), executable
    share = None if _constants_exceed_tiles(executable) else now.halved()
    while share is not None:
        if _binds(share, smaller, now) or _recomputes_more(storages(share), storages(now)):
            _log.info(
                "%d tiles overfull: compiling with %g of tile memory for an operation",
                smaller.overfull_tiles.size,
                share.convolution,
            )
            now, smaller = share, compiled(share)
            if not smaller.overfull_tiles.size:
                return smaller
        share = share.halved()
    return executable


def _recomputes_more(smaller: Sequence[LayerStorage], now: Sequence[LayerStorage]) -> bool:
    """Return whether recurrent layers keep other values at a smaller share."""
    return [layer.storage for layer in smaller] != [layer.storage for layer in now]


def _binds(share: AvailableMemory, executable: Executable, now: AvailableMemory) -> bool:
    """Return whether a smaller share than the present one may change a plan.

    A plan is the fastest that fits, so that it stays until it no longer fits; then the one with the
    least memory stays.
    """
    most_bytes = min(share.convolution, share.matmul) * executable.machine.allocatable_bytes
    shares = now.convolution, now.matmul
    return any(
        plan.temporary_bytes > most_bytes
        and plan.bound != "least_memory"
        and plan.available_memory_proportion in shares
        for plan in executable.plans
    )


def _constants_exceed_tiles(executable: Executable) -> bool:
    """Return whether constants alone do not fit, whatever the plans.

    Zeros do not count: plans may pad.
    """
    n_bytes = sum(
        int(np.count_nonzero(variable.values)) * variable.dtype.n_bytes
        for variable in executable.graph.variables
        if variable.category == "constant" and variable.values is not None
    )
    machine = executable.machine
    return bool(bytes_past(np.array(n_bytes), machine.n_tiles * machine.allocatable_bytes))
