"""Operators that move no data, and those on shapes."""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.node import Node, converter
from tilescope.engine.ir import Value


@converter("Reshape")
def _reshape(node: Node) -> Value:
    x = node.operand(0)
    if "shape" in node.attributes:
        wanted = list(node.attributes["shape"])
    else:
        wanted = [int(s) for s in node.known(1, "the shape").reshape(-1)]
    if not node.attributes.get("allowzero", 0):
        wanted = [x.shape[d] if s == 0 and d < len(x.shape) else s for d, s in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = prod(s for s in wanted if s != -1)
        wanted[wanted.index(-1)] = prod(x.shape) // rest if rest else 0
    return node.reshape(x, tuple(wanted))


@converter("Flatten")
def _flatten(node: Node) -> Value:
    x = node.operand(0)
    axis = node.attributes.get("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    return node.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@converter("Squeeze")
def _squeeze(node: Node) -> Value:
    x = node.operand(0)
    axes = node.axes(len(x.shape))
    if axes is None:
        axes = tuple(d for d, size in enumerate(x.shape) if size == 1)
    return node.reshape(x, tuple(s for d, s in enumerate(x.shape) if d not in axes))


@converter("Unsqueeze")
def _unsqueeze(node: Node) -> Value:
    x = node.operand(0)
    given = node.attributes.get("axes")
    if given is None:
        given = node.known(1, "the axes").reshape(-1).tolist()
    rank = len(x.shape) + len(given)
    axes = {node.axis(a, rank) for a in given}
    sizes = iter(x.shape)
    return node.reshape(x, tuple(1 if d in axes else next(sizes) for d in range(rank)))


@converter("Transpose")
def _transpose(node: Node) -> Value:
    x = node.operand(0)
    order = node.attributes.get("perm", range(len(x.shape))[::-1])
    return node.emit("transpose", x, order=tuple(order))


@converter("Shape")
def _shape(node: Node) -> Value:
    sizes = node.operand(0).shape
    part = slice(node.attributes.get("start", 0), node.attributes.get("end", len(sizes)))
    return node.builder.constant(np.array(sizes[part], dtype=np.int64), node.output)


@converter("Constant")
def _constant(node: Node) -> Value:
    for key in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if key in node.attributes:
            values = np.asarray(node.attributes[key])
            if key.startswith("value_float"):
                values = values.astype(np.float32)
            return node.builder.constant(values, node.output)
    raise BadModel(f"Node {node.name!r} (Constant) has an unsupported kind of value")


@converter("ConstantOfShape")
def _constant_of_shape(node: Node) -> Value:
    shape = tuple(int(s) for s in node.known(0, "the shape"))
    fill = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).reshape(-1)
    return node.builder.constant(np.full(shape, fill[0], dtype=fill.dtype), node.output)
