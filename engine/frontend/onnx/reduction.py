"""Reductions, global pools and softmax."""

from __future__ import annotations

from math import prod

from tilescope.engine.frontend.onnx.node import Node, converter
from tilescope.engine.ir import Value

_REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "sum",
    "ReduceMax": "maximum",
    "ReduceMin": "minimum",
    "ReduceProd": "product",
}


@converter(*_REDUCTIONS)
def _reduce(node: Node) -> Value:
    x = node.operand(0)
    axes = node.axes(len(x.shape))
    if not axes:
        if node.attributes.get("noop_with_empty_axes", 0):
            return x
        axes = tuple(range(len(x.shape)))
    scale = 1 / prod(x.shape[a] for a in axes) if node.op_type == "ReduceMean" else 1.0
    out = node.emit("reduce", x, operation=_REDUCTIONS[node.op_type], axes=axes, scale=scale)
    if node.attributes.get("keepdims", 1):
        return out
    return node.reshape(out, tuple(s for d, s in enumerate(x.shape) if d not in axes))


@converter("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(node: Node) -> Value:
    x = node.operand(0)
    axes = tuple(range(2, len(x.shape)))
    if node.op_type == "GlobalMaxPool":
        return node.emit("reduce", x, operation="maximum", axes=axes, scale=1.0)
    return node.emit("reduce", x, operation="sum", axes=axes, scale=1 / prod(x.shape[2:]))


@converter("Softmax")
def _softmax(node: Node) -> Value:
    x = node.operand(0)
    rank = len(x.shape)
    is_old = node.opset < 13
    axis = node.axis(node.attributes.get("axis", 1 if is_old else -1), rank)
    shape = x.shape
    if is_old:  # everything from the axis on is one row
        x = node.reshape(x, (prod(shape[:axis]), prod(shape[axis:])))
        axis = 1
    largest = node.emit("reduce", x, operation="maximum", axes=(axis,), scale=1.0)
    powers = node.unary("exp", node.binary("subtract", x, largest))
    total = node.emit("reduce", powers, operation="sum", axes=(axis,), scale=1.0)
    return node.reshape(node.binary("multiply", powers, node.unary("inverse", total)), shape)
