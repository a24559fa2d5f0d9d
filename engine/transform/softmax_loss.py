"""Finds losses of what softmax made probabilities of."""

from __future__ import annotations

from collections.abc import Iterator

from tilescope.engine.ir import Expansion, Model, Operation, Value
from tilescope.engine.operators.loss import PROBABILITY_LOSS
from tilescope.engine.operators.movement.layout import RESHAPE, reshape
from tilescope.engine.operators.norm.softmax import SOFTMAX
from tilescope.engine.transform.uses import Mapped, Match, Uses, rewritten

__all__ = ["find_softmax_loss"]


def find_softmax_loss(model: Model) -> Model:
    """Return a model to be trained, whose losses of softmax know the scores before it.

    The gradient of the scores, p − 1 at the label, is finite where that of the probabilities is
    not: where a probability is too small for its type. What the forward pass computes stays. Where
    the gradient of the probabilities is asked for, they keep it.
    """
    if model.training is None:
        return model
    uses = Uses(model)
    return rewritten(model, _losses(uses, frozenset(model.training.anchors)))


def _losses(uses: Uses, asked: frozenset[str]) -> Iterator[Match]:
    for loss in uses.operations:
        if loss.operator is not PROBABILITY_LOSS or len(loss.operands) > 2:
            continue
        softmax = _softmax_of(uses, loss.operand(0), asked)
        if softmax is not None:
            yield _with_scores(loss, softmax.operand(0))


def _with_scores(loss: Operation, scores: Value) -> Match:
    def emit(expansion: Expansion, mapped: Mapped) -> Value:
        rows, labels = (mapped(value) for value in loss.operands)
        by_row = reshape(expansion, mapped(scores), rows.shape)
        return expansion.emit(PROBABILITY_LOSS, rows, labels, by_row, **loss.attributes)

    return Match(loss, frozenset({loss}), loss.source, emit)


def _softmax_of(uses: Uses, rows: Value, asked: frozenset[str]) -> Operation | None:
    """Return the softmax over the last dimension that rows come from, through reshapes.

    None where the gradient of a value on the way is asked for.
    """
    n_classes = rows.shape[-1]
    while rows.shape and rows.shape[-1] == n_classes:
        producer = uses.producer.get(rows)
        if producer is None or rows.name in asked:
            return None
        if producer.operator is SOFTMAX:
            is_by_row = producer.attributes["axis"] % len(rows.shape) == len(rows.shape) - 1
            return producer if is_by_row else None
        if producer.operator is not RESHAPE:
            return None
        rows = producer.operand(0)
    return None
