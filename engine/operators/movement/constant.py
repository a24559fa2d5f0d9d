"""Operators whose result is known once shapes are."""

from __future__ import annotations

import math
from math import prod

import numpy as np
from onnx import helper

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value

__all__ = ["RECORDS"]


#: Elements of a constant that a model makes: those of tiles' memories by far.
_MOST_ELEMENTS = 1 << 31


def _shape(node: Node, expansion: Expansion) -> Value:
    sizes = node.operand(0).shape
    part = slice(node.attributes.get("start", 0), node.attributes.get("end", len(sizes)))
    return expansion.constant(np.array(sizes[part], dtype=np.int64))


def _constant(node: Node, expansion: Expansion) -> Value:
    for key in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if key in node.attributes:
            values = np.asarray(node.attributes[key])
            if key.startswith("value_float"):
                values = values.astype(np.float32)
            return expansion.constant(values)
    raise BadModel(f"{node} has an unsupported kind of value")


def _constant_of_shape(node: Node, expansion: Expansion) -> Value:
    shape = tuple(int(s) for s in node.known(0, "the shape"))
    if min(shape, default=0) < 0 or prod(shape) > _MOST_ELEMENTS:
        raise BadModel(
            f"{node}: a constant of shape {shape}: sizes are 0 or more, and together at most"
            f" {_MOST_ELEMENTS:,} elements"
        )
    fill = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).reshape(-1)
    return expansion.constant(np.full(shape, fill[0], dtype=fill.dtype))


def _size(node: Node, expansion: Expansion) -> Value:
    return expansion.constant(np.array(prod(node.operand(0).shape), dtype=np.int64))


def _range(node: Node, expansion: Expansion) -> Value:
    start, limit, step = (
        node.known(i, subject).reshape(())
        for i, subject in enumerate(("the start", "the limit", "the step"))
    )
    if step == 0:
        raise BadModel(f"{node}: the step is 0, so the range has no end")
    n = max(0, math.ceil((limit - start) / step))
    if n > _MOST_ELEMENTS:
        raise BadModel(
            f"{node}: a range of {n:,} elements; at most {_MOST_ELEMENTS:,} are possible"
        )
    return expansion.constant((start + np.arange(n) * step).astype(start.dtype))


def _eye_like(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    to = node.attributes.get("dtype")
    dtype = x.dtype if to is None else np.dtype(helper.tensor_dtype_to_np_dtype(to)).name
    rows, columns = x.shape
    return expansion.constant(np.eye(rows, columns, k=node.attributes["k"], dtype=dtype))


def _window(node: Node, _: Expansion) -> tuple[Value, ...] | None:
    """Return the node's result by ONNX's reference where its operand is known."""
    node.known(0, "the size")
    return None


RECORDS = (
    *(
        Operator(name=name, decompose=_window, known_operands=(0,))
        for name in ("BlackmanWindow", "HammingWindow", "HannWindow")
    ),
    Operator(name="MelWeightMatrix", decompose=_window, known_operands=(0, 1, 2, 3, 4)),
    Operator(name="Constant", decompose=_constant),
    Operator(name="ConstantOfShape", decompose=_constant_of_shape, known_operands=(0,)),
    Operator(name="EyeLike", decompose=_eye_like),
    Operator(name="Range", decompose=_range, known_operands=(0, 1, 2)),
    Operator(name="Shape", decompose=_shape),
    Operator(name="Size", decompose=_size),
)
