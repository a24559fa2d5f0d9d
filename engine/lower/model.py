"""Lowers a model operation by operation, by calling the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import ROOT, Graph, Tensor, dtype_of
from tilescope.engine.ir import Model, Operation, Value
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.convolution import convolution, matmul
from tilescope.engine.library.elementwise import binary, cast, rearranged, unary
from tilescope.engine.library.pool import pool
from tilescope.engine.library.reduce import reduce
from tilescope.engine.library.window import Window
from tilescope.engine.machine import Machine
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

__all__ = ["lower"]


def lower(
    model: Model,
    machine: Machine,
    available_memory: AvailableMemory | None = None,
    partials: PartialsTypes | None = None,
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
    )
    tensors: dict[Value, Tensor] = {}
    for value in model.inputs:
        tensor = graph.add_variable(value.dtype, value.shape or (1,), value.name)
        builder.spread(tensor, grain=_grain(value.shape))
        root.add(StreamCopyIn(value.name, _shaped(tensor, value.shape)))
        tensors[value] = _shaped(tensor, value.shape)
    inside = builder
    for operation in model.operations:
        if inside is builder or inside.debug.name != operation.name:
            # Operations that stand for one node of the model share its place in the tree.
            debug = ROOT.child(operation.name, "onnx", operation.source, _detail(operation))
            inside = replace(builder, sequence=Sequence(operation.name, debug=debug), debug=debug)
        tensors[operation.output] = _OPERATIONS[operation.kind](inside, operation, tensors)
        if inside.sequence.children and inside.sequence not in root.children[-1:]:
            root.add(inside.sequence)
    for name, value in model.outputs:
        if value.constant is None:
            root.add(StreamCopyOut(tensors[value], name))
    return graph, root, builder


def _grain(shape: tuple[int, ...]) -> int:
    """Keep a row of an input together where there are rows enough for the tiles."""
    return 4 if prod(shape) >= 4 else 1


def _shaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tensor.shape == shape else Tensor(tensor.variable, 0, ())


def _detail(operation: Operation) -> dict[str, Any]:
    return {
        "inputs": [[value.name, value.dtype, list(value.shape)] for value in operation.inputs],
        "output": [operation.output.name, operation.output.dtype, list(operation.output.shape)],
        "attributes": {
            key: list(item) if isinstance(item, tuple) else item
            for key, item in operation.attributes.items()
        },
    }


def _tensor(builder: Builder, value: Value, tensors: Mapping[Value, Tensor]) -> Tensor:
    """Return the tensor of a value; a constant becomes a variable where it is used."""
    if value in tensors:
        return tensors[value]
    graph = builder.graph
    array = np.asarray(value.constant)
    made = graph.add_constant(array.reshape(array.shape or (1,)), value.name, debug=builder.debug)
    builder.spread(made, grain=2, first=builder.tiles.take(made.n_elements // 2 + 1))
    return _shaped(made, value.shape)


def _unary(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    return unary(builder, op.attributes["function"], _tensor(builder, op.inputs[0], tensors))


def _binary(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    a, b = (_tensor(builder, value, tensors) for value in op.inputs)
    if a.dtype != b.dtype:
        raise BadModel(f"{op.name!r}: cannot combine {a.dtype} and {b.dtype}; cast one first")
    return binary(builder, op.attributes["function"], a, b, op.output.shape)


def _window(op: Operation) -> Window:
    keys = ("kernel", "stride", "dilation", "padding_before", "padding_after")
    return Window(*(tuple(op.attributes[key]) for key in keys))


def _convolution(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    x, weights = op.inputs
    if weights.constant is None:
        raise BadModel(f"{op.name!r}: weights that are not constant are not supported yet")
    return convolution(
        builder,
        _tensor(builder, x, tensors),
        np.asarray(weights.constant),
        _window(op),
        op.attributes["groups"],
        available_memory_proportion=op.attributes.get("available_memory_proportion"),
        partials_type=op.attributes.get("partials_type"),
    )


def _matmul(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    a, b = op.inputs
    rows, inner = a.shape[-2:]
    columns = b.shape[-1]
    left = _tensor(builder, a, tensors)
    if all(size == 1 for size in b.shape[:-2]):  # one right operand for all rows
        shape = (1, prod(a.shape[:-1]), inner)
        left = rearranged(builder, left, shape, "rearrangeLeft")
        right = _right(builder, b, tensors, (1, inner, columns))
    else:
        batch = op.output.shape[:-2]
        left = left.broadcast_to((*batch, rows, inner))
        left = rearranged(builder, left, (prod(batch), rows, inner), "rearrangeLeft")
        if b.constant is not None:
            spread = np.broadcast_to(b.constant, (*batch, inner, columns))
            right = np.ascontiguousarray(spread).reshape(prod(batch), inner, columns)
        else:
            stretched = tensors[b].broadcast_to((*batch, inner, columns))
            right = rearranged(builder, stretched, (prod(batch), inner, columns), "rearrangeRight")
    product = matmul(
        builder,
        left,
        right,
        available_memory_proportion=op.attributes.get("available_memory_proportion"),
        partials_type=op.attributes.get("partials_type"),
    )
    return rearranged(builder, product, op.output.shape, "rearrange")


def _right(
    builder: Builder, b: Value, tensors: Mapping[Value, Tensor], shape: tuple[int, ...]
) -> Tensor | NDArray[Any]:
    if b.constant is not None:
        return np.asarray(b.constant).reshape(shape)
    return rearranged(builder, tensors[b], shape, "rearrangeRight")


def _pool(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    return pool(
        builder,
        _tensor(builder, op.inputs[0], tensors),
        _window(op),
        is_max=op.kind == "max_pool",
        counts_padding=op.attributes.get("counts_padding", False),
    )


def _reduce(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    return reduce(
        builder,
        op.attributes["operation"],
        _tensor(builder, op.inputs[0], tensors),
        op.attributes["axes"],
        op.attributes["scale"],
    )


def _reshape(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    x = _tensor(builder, op.inputs[0], tensors)
    return rearranged(builder, x, op.attributes["shape"], "rearrange")


def _transpose(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    return _tensor(builder, op.inputs[0], tensors).dim_shuffle(*op.attributes["order"])


def _cast(builder: Builder, op: Operation, tensors: Mapping[Value, Tensor]) -> Tensor:
    x = _tensor(builder, op.inputs[0], tensors)
    dtype = dtype_of(op.output.dtype)
    return x if x.dtype == dtype else cast(builder, x, dtype)


_OPERATIONS: dict[str, Any] = {
    "unary": _unary,
    "binary": _binary,
    "convolution": _convolution,
    "matmul": _matmul,
    "max_pool": _pool,
    "average_pool": _pool,
    "reduce": _reduce,
    "reshape": _reshape,
    "transpose": _transpose,
    "cast": _cast,
}
