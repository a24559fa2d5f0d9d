"""Lowers a model: its inputs, its operations, its outputs, and what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import ROOT, Graph, TileSet, Variable, own_graph
from tilescope.engine.ir import Model, Operation, State, TrainingPass, Value, read_from_outside
from tilescope.engine.ir.held import HELD_FROM_HOST, HELD_TO_HOST, HOST_SETTINGS, held_stream
from tilescope.engine.library.builder import Builder
from tilescope.engine.lower.fragments import Fragments
from tilescope.engine.lower.lowering import Lowering
from tilescope.engine.lower.pipeline import crosses_ipus, lower_pipeline
from tilescope.engine.lower.remote import remote_values
from tilescope.engine.machine import Machine
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.planner.convolution.memo import PlanMemo
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Repeat, Sequence, StreamCopyIn, StreamCopyOut

__all__ = ["Lowered", "lower"]


@dataclass(frozen=True)
class Lowered:
    """A model on tiles.

    Parameters
    ----------
    programs
        That of a run; then, of a model that holds values, `HELD_FROM_HOST`, `HELD_TO_HOST` and
        `HOST_SETTINGS`.
    plans
        Those of its operations.
    part_constants
        Those that operations on parts of a batch added.
    """

    graph: Graph
    programs: list[Sequence]
    plans: list[Plan]
    part_constants: list[Variable]


def lower(
    model: Model,
    machine: Machine,
    available_memory: AvailableMemory | None = None,
    partials: PartialsTypes | None = None,
    plan_memo: PlanMemo | None = None,
    fragments: Fragments | None = None,
) -> Lowered:
    """Return the graph, its programs, and its plans.

    Parameters
    ----------
    model, machine
        The operator graph, and the machine to lower it for.
    available_memory, partials, plan_memo
        As for `Builder`.
    fragments
        Looks up what equal operations added to an earlier program; None lowers all anew.

    Raises
    ------
    BadModel
        When an operation has no lowering, or no tile is left to compute.
    """
    n_io_tiles = 0 if model.locations.is_on_chip else model.locations.n_io_tiles
    if n_io_tiles >= machine.tiles_per_ipu:
        raise BadModel(
            f"{n_io_tiles} I/O tiles leave none to compute: {machine.name} has"
            f" {machine.tiles_per_ipu} tiles per IPU"
        )
    graph = own_graph(machine, n_io_tiles=n_io_tiles)
    root = Sequence(model.name)
    builder = Builder(
        graph,
        root,
        ROOT,
        available_memory=available_memory or AvailableMemory(),
        partials=partials or PartialsTypes(),
        plan_memo=plan_memo or PlanMemo(),
    )
    readers = _forward_readers(model)
    ipus = _ipus(model)
    lowering = Lowering(
        builder,
        model.front_end,
        readers=readers,
        fragments=fragments,
        tiles_of_ipu=_tiles_of_ipu(model, graph),
    )
    for value in remote_values(model):
        lowering.remote.add(graph, value)
    for held in sorted(model.held, key=lambda value: isinstance(value, State)):
        if held not in lowering.remote.buffers:
            lowering.on_ipu(ipus.get(held)).add_held(held)
    if model.is_pipelined:
        lower_pipeline(lowering, model, ipus)
    elif model.n_rounds == 1:
        _add_round(lowering, model, ipus)
    else:
        body = Sequence("round")
        _add_round(replace(lowering, builder=replace(builder, sequence=body)), model, ipus)
        root.add(Repeat(model.n_rounds, body, "rounds"))
    lowering.add(model.closing, (), model.closing_updates)
    lowering.update(model.closing_updates, is_training=_is_trained(model))
    programs = [root]
    if model.held:
        programs += _programs_of_held(lowering, model)
    for variable in graph.variables:
        variable.arrangement = None  # nobody asks for it any more
    return Lowered(graph, programs, builder.plans, lowering.part_constants)


def _tiles_of_ipu(model: Model, graph: Graph) -> dict[int, TileSet]:
    """Return the tiles of the IPUs that operations of a model are on.

    Raises
    ------
    BadModel
        When the machine does not have one.
    """
    machine, tiles = graph.machine, {}
    # Copies follow the operations that need them: a message names one of the model's own.
    own_first = sorted((*model.operations, *model.closing), key=lambda op: op.origin is None)
    for operation in own_first:
        ipu = operation.placement.ipu
        if ipu is None or ipu in tiles:
            continue
        if ipu >= machine.n_ipus:
            raise BadModel(
                f"{operation} is on IPU {ipu}, but {machine.name} has {machine.n_ipus}:"
                " ask for a machine of more IPUs, or place it on another one"
            )
        of_ipu = graph.compute_tiles // machine.tiles_per_ipu == ipu
        tiles[ipu] = TileSet.of(machine, graph.compute_tiles[of_ipu])
    return tiles


def _ipus(model: Model) -> dict[Value, int]:
    """Return by input and held value the IPU of its first reader."""
    ipus: dict[Value, int] = {}
    for operation in (*model.operations, *model.closing):
        if operation.placement.ipu is not None and not crosses_ipus(operation):
            for value in read_from_outside(operation):
                ipus.setdefault(value, operation.placement.ipu)
    for update in (*model.updates, *model.closing_updates):
        if update.held not in ipus and update.value in ipus:
            ipus[update.held] = ipus[update.value]
    return ipus


def _add_round(lowering: Lowering, model: Model, ipus: Mapping[Value, int]) -> None:
    """Lower the operations of a model, with its inputs and outputs."""
    for value in model.inputs:
        if value.known is None:
            content = None if model.data is None else model.data[value.name]
            lowering.on_ipu(ipus.get(value)).add_input(value, content)
    lowering.add(model.operations, [value for _, value in model.outputs], model.updates)
    for name, value in model.outputs:
        if value.known is None and model.data is None:
            lowering.builder.sequence.add(StreamCopyOut(lowering.tensor(value), name))
    lowering.update(model.updates, is_training=_is_trained(model))


def _is_trained(model: Model) -> bool:
    """Return whether a model has a backward pass."""
    return any(operation.training_pass is not None for operation in model.operations)


def _forward_readers(model: Model) -> dict[Value, list[Operation]]:
    """Return the operations of the forward pass by what they read."""
    readers: dict[Value, list[Operation]] = {}
    if not model.held and not remote_values(model):
        return readers
    for operation in model.operations:
        if operation.training_pass in (None, TrainingPass.FORWARD):
            for value in dict.fromkeys(operation.operands):
                readers.setdefault(value, []).append(operation)
    return readers


def _programs_of_held(lowering: Lowering, model: Model) -> list[Sequence]:
    """Return the programs that write and read held values."""
    written, read, settings = (Sequence(name) for name in ("fromHost", "toHost", "settings"))
    for held in model.held:
        if held in lowering.remote.buffers:
            continue  # the host reads and writes streaming memory without a program
        tensor = lowering.tensors[held]
        written.add(StreamCopyIn(held_stream(HELD_FROM_HOST, held.name), tensor))
        read.add(StreamCopyOut(tensor, held_stream(HELD_TO_HOST, held.name)))
        if held.is_setting:
            settings.add(StreamCopyIn(held_stream(HOST_SETTINGS, held.name), tensor))
    return [written, read, settings]
