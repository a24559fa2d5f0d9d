"""Operators whose result is known once shapes are."""

from __future__ import annotations

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value

__all__ = ["RECORDS"]


def _shape(node: Node, into: Expansion) -> Value:
    sizes = node.operand(0).shape
    part = slice(node.attributes.get("start", 0), node.attributes.get("end", len(sizes)))
    return into.constant(np.array(sizes[part], dtype=np.int64))


def _constant(node: Node, into: Expansion) -> Value:
    for key in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if key in node.attributes:
            values = np.asarray(node.attributes[key])
            if key.startswith("value_float"):
                values = values.astype(np.float32)
            return into.constant(values)
    raise BadModel(f"{node} has an unsupported kind of value")


def _constant_of_shape(node: Node, into: Expansion) -> Value:
    shape = tuple(int(s) for s in node.known(0, "the shape"))
    fill = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).reshape(-1)
    return into.constant(np.full(shape, fill[0], dtype=fill.dtype))


RECORDS = (
    Operator(name="Constant", decompose=_constant),
    Operator(name="ConstantOfShape", decompose=_constant_of_shape),
    Operator(name="Shape", decompose=_shape),
)
