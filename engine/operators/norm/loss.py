"""Losses of classifications, forward: the negative logarithm of a class's probability."""

from __future__ import annotations

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.norm.softmax import LOG_SOFTMAX
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]

_REDUCTIONS = ("none", "mean", "sum")


def _loss(node: Node, into: Expansion, logs: Value) -> Value:
    """Emit the loss from logarithms of probabilities: (batch, classes, …).

    Raises
    ------
    BadModel
        When the reduction does not exist, or the classes do not fit.
    """
    target, weight = node.operand(1), node.optional(2)
    how, ignored = node.attributes.get("reduction", "mean"), node.attributes.get("ignore_index")
    if how not in _REDUCTIONS:
        raise BadModel(f"{node}: reduction {how!r}: expected one of {', '.join(_REDUCTIONS)}")
    n_classes = logs.shape[1]
    if target.shape != (logs.shape[0], *logs.shape[2:]):
        raise BadModel(
            f"{node}: targets of shape {target.shape} do not fit scores of shape {logs.shape}"
        )
    spread = (1, n_classes, *(1,) * (len(logs.shape) - 2))
    classes = into.constant(np.arange(n_classes, dtype=target.dtype).reshape(spread), "classes")
    rows = reshape(into, target, (logs.shape[0], 1, *logs.shape[2:]))
    is_target = binary(into, "equal", classes, rows)
    if ignored is not None:
        counts = binary(into, "not_equal", rows, scalar(into, ignored, rows))
        is_target = binary(into, "logical_and", is_target, counts)
    zero = scalar(into, 0, logs)
    factor: Value = scalar(into, 1, logs) if weight is None else reshape(into, weight, spread)
    weights = chosen(into, is_target, factor, zero)
    weighted = chosen(into, is_target, binary(into, "multiply", logs, factor), zero)
    losses = unary(into, "negate", reduced(into, "sum", weighted, [1]))
    if how == "none":
        return reshape(into, losses, target.shape)
    axes = range(len(logs.shape))
    total = reduced(into, "sum", losses, axes)
    if how == "mean":
        total = binary(into, "divide", total, reduced(into, "sum", weights, axes))
    return reshape(into, total, ())


def _negative_log_likelihood(node: Node, into: Expansion) -> Value:
    return _loss(node, into, node.operand(0))


def _softmax_cross_entropy(node: Node, into: Expansion) -> tuple[Value, Value]:
    logs = into.emit(LOG_SOFTMAX, node.operand(0), axis=1)
    return _loss(node, into, logs), logs


RECORDS = (
    Operator(name="NegativeLogLikelihoodLoss", decompose=_negative_log_likelihood),
    Operator(name="SoftmaxCrossEntropyLoss", decompose=_softmax_cross_entropy),
)
