"""Where: the elements of one operand or the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.elementwise.in_place import select_in_place, selects_in_place
from tilescope.engine.library.popops.elementwise.operations import select
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.carried import elementwise
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.parts import broadcast

__all__ = ["RECORDS", "SELECT", "chosen"]


def _type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    condition, a, b = node.operands
    if a.dtype != b.dtype:
        raise BadModel(f"{node}: cannot choose between {a.dtype} and {b.dtype}; cast one first")
    try:
        return [(np.broadcast_shapes(condition.shape, a.shape, b.shape), a.dtype)]
    except ValueError:
        raise BadModel(
            f"{node}: shapes {condition.shape}, {a.shape} and {b.shape} do not broadcast"
        ) from None


def _array(_: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    return [np.where(*arrays)]


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    condition, a, b = (lowering.tensor(value) for value in op.operands)
    # Over the first if nothing reads it afterwards and its place suits.
    if lowering.is_free(op.operand(1)) and selects_in_place(
        lowering.builder, a, b, condition, op.output.shape
    ):
        select_in_place(lowering.builder, a, b, condition)
        return a
    return select(lowering.builder, a, b, condition)


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    condition, gradient = op.operand(0), full(expansion, gradients[0], op.output.shape)
    zero = expansion.constant(np.zeros((), gradient.dtype), "zero")
    of_b = chosen(expansion, condition, zero, gradient)
    return None, chosen(expansion, condition, gradient, zero), of_b


SELECT = Operator(
    name="select",
    domain=ENGINE_DOMAIN,
    infer=_type,
    evaluate=_array,
    lower=_lower,
    gradient=_gradient,
    parts=broadcast,
)


def chosen(expansion: Expansion, condition: Value, a: Value, b: Value) -> Value:
    """Emit the elements of ``a`` where the condition holds, those of ``b`` elsewhere."""
    return expansion.emit(SELECT, condition, a, b)


RECORDS = (
    SELECT,
    Operator(
        name="Where",
        decompose=lambda node, expansion: chosen(expansion, *(node.operand(i) for i in range(3))),
        carries=elementwise,
    ),
)
