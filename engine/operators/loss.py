"""Losses of classifications: the negative logarithm of a class's probability."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.softmax import log_softmax
from tilescope.engine.library.popops.elementwise.map import map_expression
from tilescope.engine.library.popops.elementwise.operations import unary as apply_unary
from tilescope.engine.library.popops.slicing.scalar_in_rows import (
    MASKED_LABEL,
    select_scalar_from_rows,
    update_scalar_in_rows,
)
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.elementwise.mapped import call, mapped, operand
from tilescope.engine.operators.indexing.indexing import GATHER
from tilescope.engine.operators.movement.layout import TRANSPOSE, full, reshape
from tilescope.engine.operators.norm.softmax import LOG_SOFTMAX
from tilescope.engine.operators.parts import rows
from tilescope.engine.operators.reduction import reduced

__all__ = [
    "CLASS_LOSS",
    "CROSS_ENTROPY",
    "PROBABILITY_LOSS",
    "RECORDS",
    "REDUCTIONS",
    "class_loss",
]

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]

#: What becomes of the losses of all elements.
REDUCTIONS = ("none", "mean", "sum")


def _picked(rows: Array, labels: Array) -> Array:
    """Return the element of every row at its label, 0 where the label is masked."""
    values = np.take_along_axis(rows, np.maximum(labels, 0)[:, None].astype(np.int64), 1)[:, 0]
    return np.where(labels == MASKED_LABEL, 0, values).astype(rows.dtype)


def _class_loss_array(_: Node, arrays: Sequence[Array]) -> list[Array]:
    return [-_picked(*arrays)]


def _lower_class_loss(lowering: Lowering, op: Operation) -> Tensor:
    logs, labels = (lowering.tensor(value) for value in op.operands)
    picked = select_scalar_from_rows(lowering.builder, logs, labels)
    return apply_unary(lowering.builder, "negate", picked)


def _class_loss_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    logs, labels = op.operands
    gradient = full(expansion, gradients[0], op.output.shape)
    zeros = expansion.constant(np.zeros(logs.shape, logs.dtype), "zeros")
    marks = expansion.emit(LABELS_LESS_ONE, zeros, labels)
    return binary(
        expansion, "multiply", marks, reshape(expansion, gradient, (*labels.shape, 1))
    ), None


#: From logarithms of probabilities in rows, and a label for every row: the negative one there.
CLASS_LOSS = Operator(
    name="class_loss",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(1).shape, node.operand(0).dtype)],
    evaluate=_class_loss_array,
    lower=_lower_class_loss,
    gradient=_class_loss_gradient,
    parts=rows(2),
)


def _less_one_array(_: Node, arrays: Sequence[Array]) -> list[Array]:
    rows, labels = arrays[0].copy(), arrays[1]
    (marked,) = np.nonzero(labels != MASKED_LABEL)
    rows[marked, labels[marked]] -= 1
    return [rows]


def _lower_less_one(lowering: Lowering, op: Operation) -> Tensor:
    """Subtract from the operand, or from a copy of it where something reads it afterwards."""
    rows, labels = op.operands
    tensor = lowering.tensor(rows)
    if not lowering.is_free(rows):
        tensor = lowering.copied(rows)
    update_scalar_in_rows(lowering.builder, tensor, lowering.tensor(labels))
    return tensor


#: Rows less 1 at the label of each: of probabilities, the gradient of their cross entropy.
LABELS_LESS_ONE = Operator(
    name="labels_less_one",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=_less_one_array,
    lower=_lower_less_one,
    parts=rows(2),
)


#: What a gradient divides by at least. Source: graphcore/popart, willow/src/popx/op/nllx.cpp.
_LEAST_DIVISOR = {"float16": 6.104e-05}


def _probability_loss_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    picked = _picked(arrays[0], arrays[1])
    return [-np.log(np.maximum(picked, picked.dtype.type(node.attributes["least"])))]


def _lower_probability_loss(lowering: Lowering, op: Operation) -> Tensor:
    rows, labels = (lowering.tensor(value) for value in op.operands[:2])
    picked = select_scalar_from_rows(lowering.builder, rows, labels)
    loss = -call("log", call("maximum", operand(0), op.attributes["least"]))
    return map_expression(lowering.builder, loss, [picked])


def _probability_loss_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return −g / p at the label; of scores, (p − 1 at the label) · g, which stays finite."""
    rows, labels = op.operands[:2]
    gradient = reshape(
        expansion, full(expansion, gradients[0], op.output.shape), (*labels.shape, 1)
    )
    if len(op.operands) > 2:
        marks = expansion.emit(LABELS_LESS_ONE, rows, labels)
        return None, None, binary(expansion, "multiply", marks, gradient)
    zeros = expansion.constant(np.zeros(rows.shape, rows.dtype), "zeros")
    marks = expansion.emit(LABELS_LESS_ONE, zeros, labels)
    least = _LEAST_DIVISOR.get(rows.dtype, 1e-10)
    slope = operand(0) * operand(1) / call("maximum", operand(2), least)
    return mapped(expansion, slope, marks, gradient, rows), None


#: From probabilities in rows, and a label for every row: the negative logarithm there. The scores
#: that softmax made the probabilities of may be a third operand: the gradient is theirs then.
PROBABILITY_LOSS = Operator(
    name="probability_loss",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(1).shape, node.operand(0).dtype)],
    evaluate=_probability_loss_array,
    lower=_lower_probability_loss,
    gradient=_probability_loss_gradient,
    parts=rows(3),
)


def _cross_entropy_array(_: Node, arrays: Sequence[Array]) -> list[Array]:
    x, labels = arrays
    wide = x.astype(np.float64) - x.max(axis=1, keepdims=True)
    logs = (wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))).astype(x.dtype)
    return [-_picked(logs, labels), logs]


def _cross_entropy_types(node: Node) -> list[Type]:
    x, labels = node.operand(0), node.operand(1)
    return [(labels.shape, x.dtype), (x.shape, x.dtype)]


def _lower_cross_entropy(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    x, labels = (lowering.tensor(value) for value in op.operands)
    logs = log_softmax(lowering.builder, x, 1)
    loss = apply_unary(
        lowering.builder, "negate", select_scalar_from_rows(lowering.builder, logs, labels)
    )
    both = (loss, logs)
    return tuple(t for value, t in zip(op.outputs, both, strict=False) if value is not None)


def _cross_entropy_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return (p − 1 at the label) · g, and what the logarithms of the probabilities add to it."""
    labels, logs = op.operand(1), op.outputs[1]
    assert logs is not None, "with_loss and the decomposition name both results"
    total: Value | None = None
    if gradients[0] is not None:
        gradient = full(expansion, gradients[0], labels.shape)
        rest = expansion.emit(LABELS_LESS_ONE, unary(expansion, "exp", logs), labels)
        column = reshape(expansion, gradient, (*labels.shape, 1))
        total = binary(expansion, "multiply", rest, column)
    if gradients[1] is not None:
        (of_logs,) = LOG_SOFTMAX.gradient(  # type: ignore[misc] # it has one
            _as_log_softmax(op, logs), expansion, [gradients[1]]
        )
        assert of_logs is not None
        total = of_logs if total is None else binary(expansion, "add", total, of_logs)
    return total, None


def _as_log_softmax(op: Operation, logs: Value) -> Operation:
    return Operation(
        operator=LOG_SOFTMAX,
        name=op.name,
        source=op.source,
        inputs=op.inputs[:1],
        attributes={"axis": 1},
        outputs=(logs,),
    )


#: From scores in rows and a label for every row: the losses, and the logarithms of probabilities.
CROSS_ENTROPY = Operator(
    name="cross_entropy",
    domain=ENGINE_DOMAIN,
    infer=_cross_entropy_types,
    evaluate=_cross_entropy_array,
    lower=_lower_cross_entropy,
    gradient=_cross_entropy_gradient,
    parts=rows(2, 2),
)


def class_loss(
    expansion: Expansion,
    scores: Value,
    labels: Value,
    weight: Value | None = None,
    *,
    reduction: str = "mean",
    ignored: int | None = None,
    takes_logs: bool = True,
    least: float | None = None,
) -> tuple[Value, Value]:
    """Emit the loss of a classification, and the logarithms of the probabilities.

    Parameters
    ----------
    scores
        Shape (batch, classes, …): logarithms of probabilities, or what softmax makes
        probabilities of.
    labels
        Integers, shape (batch, …).
    weight
        Of every class; 1 if None.
    reduction
        One of `REDUCTIONS`; a mean is over the weights of the labels that count.
    ignored
        A label that does not count.
    takes_logs
        Whether the scores are logarithms of probabilities.
    least
        Where it is given, the scores are probabilities, and smaller ones count as this; they come
        back in place of logarithms.

    Raises
    ------
    BadModel
        When the reduction does not exist, or labels and scores do not fit.
    """
    node = expansion.node
    if reduction not in REDUCTIONS:
        raise BadModel(f"{node}: reduction {reduction!r}: expected one of {', '.join(REDUCTIONS)}")
    field = scores.shape[2:]
    if len(scores.shape) < 2 or labels.shape != (scores.shape[0], *field):
        raise BadModel(
            f"{node}: labels of shape {labels.shape} do not fit scores of shape {scores.shape}"
        )
    if np.dtype(labels.dtype).kind not in "iu":
        raise BadModel(f"{node}: labels {labels.name!r} are {labels.dtype}: expected integers")
    n_rows, n_classes = prod(labels.shape), scores.shape[1]
    order = (0, *range(2, len(scores.shape)), 1)
    by_row = scores if not field else expansion.emit(TRANSPOSE, scores, order=order)
    rows = reshape(expansion, by_row, (n_rows, n_classes))
    flat = reshape(expansion, labels, (n_rows,))
    counts: Value | None = None
    if ignored is not None:
        counted = binary(expansion, "not_equal", flat, scalar(expansion, ignored, flat))
        flat = chosen(expansion, counted, flat, scalar(expansion, MASKED_LABEL, flat))
        counts = expansion.emit(CAST, counted, dtype=scores.dtype)
    logs = rows
    if least is not None:
        losses = expansion.emit(PROBABILITY_LOSS, rows, flat, least=float(least))
    elif takes_logs:
        losses = expansion.emit(CLASS_LOSS, rows, flat)
    else:
        losses, logs = expansion.emit_all(CROSS_ENTROPY, 2, rows, flat)
    if weight is not None:
        first = expansion.constant(np.zeros((), flat.dtype), "first")
        found = expansion.emit(GATHER, weight, binary(expansion, "maximum", flat, first), axis=0)
        counts = found if counts is None else binary(expansion, "multiply", found, counts)
    if counts is not None:
        losses = binary(expansion, "multiply", losses, counts)
    spread = (labels.shape[0], *field, n_classes)
    back = (0, len(scores.shape) - 1, *range(1, len(scores.shape) - 1))
    logs = reshape(expansion, logs, spread)
    if field:
        logs = expansion.emit(TRANSPOSE, logs, order=back)
    if reduction == "none":
        return reshape(expansion, losses, labels.shape), logs
    is_plain = reduction == "mean" and counts is None
    total = reduced(expansion, "sum", losses, [0], 1 / n_rows if is_plain else 1.0)
    if reduction == "mean" and counts is not None:
        total = binary(expansion, "divide", total, reduced(expansion, "sum", counts, [0]))
    return reshape(expansion, total, ()), logs


def _of_node(node: Node, expansion: Expansion, *, takes_logs: bool) -> tuple[Value, Value]:
    return class_loss(
        expansion,
        node.operand(0),
        node.operand(1),
        node.optional(2),
        reduction=node.attributes.get("reduction", "mean"),
        ignored=node.attributes.get("ignore_index"),
        takes_logs=takes_logs,
    )


RECORDS = (
    CLASS_LOSS,
    CROSS_ENTROPY,
    LABELS_LESS_ONE,
    PROBABILITY_LOSS,
    Operator(
        name="NegativeLogLikelihoodLoss",
        decompose=lambda node, expansion: _of_node(node, expansion, takes_logs=True)[0],
    ),
    Operator(
        name="SoftmaxCrossEntropyLoss",
        decompose=lambda node, expansion: _of_node(node, expansion, takes_logs=False),
    ),
)
