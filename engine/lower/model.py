"""Lowers a model: its inputs, its operations, its outputs."""

from __future__ import annotations

from tilescope.engine.graph import ROOT, Graph
from tilescope.engine.ir import Model
from tilescope.engine.library.builder import Builder
from tilescope.engine.lower.lowering import Lowering
from tilescope.engine.machine import Machine
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.planner.convolution.memo import PlanMemo
from tilescope.engine.program import Sequence, StreamCopyOut

__all__ = ["lower"]


def lower(
    model: Model,
    machine: Machine,
    available_memory: AvailableMemory | None = None,
    partials: PartialsTypes | None = None,
    plan_memo: PlanMemo | None = None,
) -> tuple[Graph, Sequence, Builder]:
    """Return the graph, the program of one inference, and the builder with its plans."""
    graph = Graph(machine)
    root = Sequence(model.name)
    builder = Builder(
        graph,
        root,
        ROOT,
        available_memory=available_memory or AvailableMemory(),
        partials=partials or PartialsTypes(),
        plan_memo=plan_memo or PlanMemo(),
    )
    lowering = Lowering(builder, model.front_end)
    for value in model.inputs:
        if value.known is None:
            lowering.add_input(value, None if model.data is None else model.data[value.name])
    lowering.add(model.operations, [value for _, value in model.outputs])
    for name, value in model.outputs:
        if value.known is None and model.data is None:
            root.add(StreamCopyOut(lowering.tensor(value), name))
    return graph, root, builder
