"""Expressions of elementwise functions, which one vertex of a tile computes in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.expression import (
    MOST_OPERANDS,
    Expression,
    call,
    operand,
)
from tilescope.engine.codelets.popops.elementwise.fused import fused_codelets
from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.elementwise.derivative import derivative, substituted
from tilescope.engine.library.popops.elementwise.in_place import fits_in_place
from tilescope.engine.library.popops.elementwise.map import map_expression, map_in_place
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.functions import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.parts import broadcast

__all__ = ["MAP", "RECORDS", "SCALED_ADD", "Expression", "call", "mapped", "operand", "value_of"]

Array = NDArray[Any]


def _type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    first = node.operand(0)
    for value in node.operands:
        if value.dtype != first.dtype:
            raise BadModel(
                f"{node}: cannot combine {first.dtype} and {value.dtype}; cast one first"
            )
    return [(np.broadcast_shapes(*(value.shape for value in node.operands)), first.dtype)]


def _array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the result in numpy, in single precision or better before it is rounded."""
    wide = [x.astype(np.promote_types(x.dtype, np.float32)) for x in arrays]
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    result = np.broadcast_to(value_of(node.attributes["expression"], wide), shape)
    return [np.array(result.astype(arrays[0].dtype))]


def value_of(expression: Expression, arrays: Sequence[Array]) -> Any:
    """Return an expression of arrays in numpy."""
    if expression.value is not None:
        return np.asarray(expression.value, arrays[0].dtype)
    if not expression.function:
        return arrays[expression.index]
    parts = [value_of(inner, arrays) for inner in expression.parts]
    if expression.function == "select":
        return np.where(parts[2], parts[0], parts[1])
    if expression.function == "clamp":
        return np.minimum(np.maximum(parts[0], parts[1]), parts[2])
    table = UNARY_FUNCTIONS if len(parts) == 1 else BINARY_FUNCTIONS
    return table[expression.function](*parts)


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    """Compute it over the first operand if nothing reads that afterwards and its place suits."""
    expression, builder = op.attributes["expression"], lowering.builder
    operands = [lowering.tensor(value) for value in op.operands]
    codelets = fused_codelets(expression, is_in_place=True)
    if lowering.is_free(op.operand(0)) and fits_in_place(
        builder, "map", codelets, operands, op.output.shape
    ):
        map_in_place(builder, expression, operands)
        return operands[0]
    return map_expression(builder, expression, operands)


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradients of the operands, in the shape of the result."""
    (gradient,) = gradients
    assert gradient is not None
    formula, n = op.attributes["expression"], len(op.operands)
    if n == MOST_OPERANDS:
        slopes = [derivative(formula, i, Expression(value=1.0)) for i in range(n)]
        return [
            None
            if slope is None
            else mapped(
                expansion,
                operand(0) * operand(1),
                mapped(expansion, slope, *op.operands),
                gradient,
            )
            for slope in slopes
        ]
    of_operands = [derivative(formula, i, operand(n)) for i in range(n)]
    if any(value.shape != op.output.shape for value in op.operands):
        gradient = full(expansion, gradient, op.output.shape)  # to be summed where it was broadcast
    found: list[Value | None] = []
    for of_operand in of_operands:
        if of_operand is None:
            found.append(None)
        elif of_operand.is_operand:  # it is only added
            found.append(gradient)
        else:
            found.append(mapped(expansion, of_operand, *op.operands, gradient))
    return found


MAP = Operator(
    name="map",
    domain=ENGINE_DOMAIN,
    infer=_type,
    evaluate=_array,
    lower=_lower,
    gradient=_gradient,
    parts=broadcast,
)


def mapped(expansion: Expansion, expression: Expression, *operands: Value) -> Value:
    """Emit an expression over operands of one floating-point type, which broadcast.

    Those that it does not use are left out.
    """
    used = sorted({node.index for node in expression.nodes() if node.is_operand})
    places = {index: operand(place) for place, index in enumerate(used)}
    parts = [places.get(index, operand(0)) for index in range(len(operands))]
    return expansion.emit(
        MAP, *(operands[index] for index in used), expression=substituted(expression, parts)
    )


def _scaled_add_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    x, y = node.operand(0), node.operand(1)
    if x.shape != y.shape or x.dtype != y.dtype:
        raise BadModel(f"{node}: cannot add {y.dtype} {y.shape} to {x.dtype} {x.shape}, scaled")
    return [(x.shape, x.dtype)]


def _scaled_add_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    x, y = arrays[:2]
    scale = arrays[2] if len(arrays) > 2 else np.asarray(node.attributes["scale"], x.dtype)
    return [np.asarray(x + scale * y).astype(x.dtype)]


def _lower_scaled_add(lowering: Lowering, op: Operation) -> Tensor:
    """Add to the first operand, or to a copy of it where something reads it afterwards."""
    x, y, *scale = (lowering.tensor(value) for value in op.operands)
    if not lowering.is_free(op.operand(0)):
        x = lowering.copied(op.operand(0))
    scaled_add(lowering.builder, x, y, scale[0] if scale else op.attributes["scale"])
    return x


#: x + scale · y; the scale is an attribute, or a third operand of one element.
SCALED_ADD = Operator(
    name="scaled_add",
    domain=ENGINE_DOMAIN,
    infer=_scaled_add_type,
    evaluate=_scaled_add_array,
    lower=_lower_scaled_add,
    parts=broadcast,
)

RECORDS = (MAP, SCALED_ADD)
