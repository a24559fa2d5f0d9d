"""Operators whose result is their operand."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.carried import same_axis
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.random_numbers import RANDOM_UNIFORM_LIKE

__all__ = ["BOOL_MASKS", "RECORDS"]


def _identity(node: Node, _: Expansion) -> Value:
    return node.operand(0)


def _dropout(node: Node, expansion: Expansion) -> tuple[Value, Value]:
    x = node.operand(0)
    trains = node.optional(2) is not None and node.known(2, "the training mode").any()
    ratio = node.known(1, "the ratio").item() if node.optional(1) is not None else 0.5
    if trains and ratio:
        return _dropped(node, expansion, ratio)
    dtype = x.dtype if node.version < BOOL_MASKS else "bool"
    return x, expansion.constant(np.ones(x.shape, dtype), "mask")


def _dropped(node: Node, expansion: Expansion, ratio: float) -> tuple[Value, Value]:
    """Emit zeros in a share of the places, the rest scaled to the same mean, and what is kept.

    Raises
    ------
    BadModel
        When the share is not between 0 and 1.
    """
    x = node.operand(0)
    if not 0 <= ratio < 1:
        raise BadModel(f"{node}: its ratio is {ratio}: expected at least 0, and less than 1")
    seed = node.attributes.get("seed")
    drawn = expansion.emit(
        RANDOM_UNIFORM_LIKE,
        x,
        **({} if seed is None else {"seed": float(seed)}),
        dtype=TensorProto.FLOAT,
    )
    is_kept = binary(expansion, "greater_equal", drawn, scalar(expansion, ratio, drawn))
    larger = binary(expansion, "multiply", x, scalar(expansion, 1 / (1 - ratio), x))
    return chosen(expansion, is_kept, larger, scalar(expansion, 0, x)), is_kept


#: From this version on a mask is of bools; before, it has the type of the operand.
BOOL_MASKS = 10


RECORDS = (
    Operator(name="Dropout", decompose=_dropout, known_operands=(1, 2), carries=same_axis),
    Operator(name="Identity", decompose=_identity, carries=same_axis),
)
