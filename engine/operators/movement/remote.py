"""Copies between the tiles and streaming memory, of values that are not kept on the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import (
    ENGINE_DOMAIN,
    Node,
    Operation,
    Operator,
    Purpose,
    ResultType,
    State,
    Value,
)
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.lower import Lowering
from tilescope.engine.program import RemoteCopyIn, RemoteCopyOut

__all__ = ["RECORDS", "REMOTE_LOAD", "REMOTE_STORE"]


def _types_of_last(node: Node) -> list[ResultType]:
    value = node.operands[-1]
    return [(value.shape, value.dtype)]


def _evaluate(_: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    return [arrays[-1].copy()]


def _purpose(source: Value) -> Purpose:
    """Return what a value in streaming memory is for; what a run computes are activations."""
    if isinstance(source, State):
        return source.purpose
    return Purpose.ACTIVATION if source.is_computed else Purpose.WEIGHT


def _lower_load(lowering: Lowering, op: Operation) -> Tensor:
    """Copy a value to new variables, laid out as before, or as its first reader asks."""
    source, builder, remote = op.operand(0), lowering.builder, lowering.remote
    layout = remote.layout(source, lowering.tensors)
    if layout is None:
        tensor = lowering.allocated(op.output) or lowering.variable(op.output)
    else:
        graph, ipu = builder.graph, op.placement.ipu
        dtype = source.dtype if isinstance(source, State) else None
        tensor = graph.clone(layout, source.name, dtype, builder.debug, ipu=ipu)
    remote.layouts.setdefault(source, tensor)
    for variable in tensor.variables:
        variable.name, variable.purpose = source.name, str(_purpose(source))
    builder.sequence.add(RemoteCopyIn(remote.buffers[source], tensor, debug=builder.debug))
    return tensor


def _lower_store(lowering: Lowering, op: Operation) -> Tensor:
    """Copy a value off the tiles; one that is a known number is written on tiles first."""
    builder, remote, value = lowering.builder, lowering.remote, op.operands[-1]
    number = lowering.single(value)
    if number is None:
        tensor = lowering.tensor(value)
    else:
        layout = remote.layout(op.operand(0), lowering.tensors)
        tensor = lowering.variable(value) if layout is None else builder.graph.clone(layout, "fill")
        fill(builder, tensor, number)
    if len(op.operands) > 1:
        buffer = remote.buffers[op.operand(0)]
        remote.layouts.setdefault(op.operand(0), tensor)
    else:
        buffer = remote.add_result(builder.graph, op.output, tensor)
    builder.sequence.add(RemoteCopyOut(tensor, buffer, debug=builder.debug))
    return tensor


#: A value on the tiles that is in streaming memory: a weight, a state, or what a store returned.
REMOTE_LOAD = Operator(
    name="remote_load",
    domain=ENGINE_DOMAIN,
    infer=_types_of_last,
    evaluate=_evaluate,
    lower=_lower_load,
    differs=True,
)

#: A value that goes to streaming memory: there it replaces what is held, the first of two
#: operands, or is new. The result is what loads read.
REMOTE_STORE = Operator(
    name="remote_store",
    domain=ENGINE_DOMAIN,
    infer=_types_of_last,
    evaluate=_evaluate,
    lower=_lower_store,
    is_kept=True,
)

RECORDS = (REMOTE_LOAD, REMOTE_STORE)
