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


def _loss(node: Node, expansion: Expansion, logs: Value) -> Value:
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
    classes = expansion.constant(
        np.arange(n_classes, dtype=target.dtype).reshape(spread), "classes"
    )
    rows = reshape(expansion, target, (logs.shape[0], 1, *logs.shape[2:]))
    is_target = binary(expansion, "equal", classes, rows)
    if ignored is not None:
        counts = binary(expansion, "not_equal", rows, scalar(expansion, ignored, rows))
        is_target = binary(expansion, "logical_and", is_target, counts)
    zero = scalar(expansion, 0, logs)
    factor: Value = (
        scalar(expansion, 1, logs) if weight is None else reshape(expansion, weight, spread)
    )
    weights = chosen(expansion, is_target, factor, zero)
    weighted = chosen(expansion, is_target, binary(expansion, "multiply", logs, factor), zero)
    losses = unary(expansion, "negate", reduced(expansion, "sum", weighted, [1]))
    if how == "none":
        return reshape(expansion, losses, target.shape)
    axes = range(len(logs.shape))
    total = reduced(expansion, "sum", losses, axes)
    if how == "mean":
        total = binary(expansion, "divide", total, reduced(expansion, "sum", weights, axes))
    return reshape(expansion, total, ())


def _negative_log_likelihood(node: Node, expansion: Expansion) -> Value:
    return _loss(node, expansion, node.operand(0))


def _softmax_cross_entropy(node: Node, expansion: Expansion) -> tuple[Value, Value]:
    logs = expansion.emit(LOG_SOFTMAX, node.operand(0), axis=1)
    return _loss(node, expansion, logs), logs


RECORDS = (
    Operator(name="NegativeLogLikelihoodLoss", decompose=_negative_log_likelihood),
    Operator(name="SoftmaxCrossEntropyLoss", decompose=_softmax_cross_entropy),
)
