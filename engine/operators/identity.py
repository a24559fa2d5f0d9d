"""Operators whose result is their operand."""

from __future__ import annotations

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value

__all__ = ["RECORDS"]


def _identity(node: Node, _: Expansion) -> Value:
    return node.operand(0)


def _dropout(node: Node, into: Expansion) -> tuple[Value, Value]:
    x = node.operand(0)
    trains = node.optional(2) is not None and node.known(2, "the training mode").any()
    ratio = node.known(1, "the ratio").item() if node.optional(1) is not None else 0.5
    if trains and ratio:
        raise BadModel(f"{node} is in training mode; only inference is supported")
    dtype = x.dtype if node.version < _BOOL_MASKS else "bool"
    return x, into.constant(np.ones(x.shape, dtype), "mask")


#: From this version on a mask is of bools; before, it has the type of the operand.
_BOOL_MASKS = 10


RECORDS = (
    Operator(name="Dropout", decompose=_dropout, known_operands=(1, 2)),
    Operator(name="Identity", decompose=_identity),
)
