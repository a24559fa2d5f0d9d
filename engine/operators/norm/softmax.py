"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.softmax import (
    log_softmax,
    log_softmax_in_place,
    softmax,
    softmax_in_place,
)
from tilescope.engine.library.popops.elementwise.operations import fills_variable
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.mapped import call, mapped, operand
from tilescope.engine.operators.movement.layout import full, reshape
from tilescope.engine.operators.parts import along_others
from tilescope.engine.operators.reduction import reduced

__all__ = ["LOG_SOFTMAX", "RECORDS", "SOFTMAX"]


def _evaluate(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the result in numpy, in double precision before it is rounded to the type."""
    (x,) = arrays
    axis = node.attributes["axis"]
    wide = x.astype(np.float64) - x.max(axis=axis, keepdims=True)
    total = np.exp(wide).sum(axis=axis, keepdims=True)
    if node.operator is LOG_SOFTMAX:
        return [np.asarray(wide - np.log(total)).astype(x.dtype)]
    return [np.asarray(np.exp(wide) / total).astype(x.dtype)]


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    """Compute it over an operand that nothing reads afterwards if its place suits."""
    x, axis, is_log = (
        lowering.tensor(op.operand(0)),
        op.attributes["axis"],
        op.operator is LOG_SOFTMAX,
    )
    if lowering.is_free(op.operand(0)) and fills_variable(lowering.builder, x):
        (log_softmax_in_place if is_log else softmax_in_place)(lowering.builder, x, axis)
        return x
    return (log_softmax if is_log else softmax)(lowering.builder, x, axis)


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return y · (g − Σ g · y), or for the logarithm g − exp(y) · Σ g."""
    y, axes = op.output, [op.attributes["axis"]]
    gradient = full(expansion, gradients[0], y.shape)
    if op.operator is LOG_SOFTMAX:
        total = reduced(expansion, "sum", gradient, axes)
        rest = operand(0) - call("exp", operand(1)) * operand(2)
        return [mapped(expansion, rest, gradient, y, total)]
    weighted = mapped(expansion, operand(0) * operand(1), gradient, y)
    total = reduced(expansion, "sum", weighted, axes)
    return [mapped(expansion, operand(1) * (operand(0) - operand(2)), gradient, y, total)]


def _normalised_along(node: Node) -> list[int]:
    return [node.axis(node.attributes["axis"], len(node.operand(0).shape))]


def _primitive(name: str) -> Operator:
    return Operator(
        name=name,
        domain=ENGINE_DOMAIN,
        infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
        evaluate=_evaluate,
        lower=_lower,
        gradient=_gradient,
        parts=along_others(_normalised_along),
    )


SOFTMAX, LOG_SOFTMAX = _primitive("softmax"), _primitive("log_softmax")


def _operator(name: str, primitive: Operator) -> Operator:
    def decompose(node: Node, expansion: Expansion) -> Value:
        x = node.operand(0)
        shape = x.shape
        axis = node.axis(node.attributes["axis"], len(shape))
        if node.version < 13:  # everything from the axis on is one row
            x = reshape(expansion, x, (prod(shape[:axis]), prod(shape[axis:])))
            axis = 1
        return reshape(expansion, expansion.emit(primitive, x, axis=axis), shape)

    return Operator(name=name, decompose=decompose)


RECORDS = (
    SOFTMAX,
    LOG_SOFTMAX,
    _operator("LogSoftmax", LOG_SOFTMAX),
    _operator("Softmax", SOFTMAX),
)
