"""Connectionist temporal classification: the loss of a sequence whose alignment is not known.

Source: A. Graves and others, Connectionist Temporal Classification, ICML 2006, section 4.1;
https://pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html for the reductions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.ctc_options import CtcLossOptions
from tilescope.engine.library.popnn.ctc.loss import ctc_loss as library_ctc_loss
from tilescope.engine.library.popnn.ctc.loss import (
    ctc_loss_and_gradient,
    least_impossible,
)
from tilescope.engine.library.popops.elementwise.map import call, map_in_place, operand
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.elementwise.mapped import mapped
from tilescope.engine.operators.movement.layout import full, reshape
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS", "CtcOperands", "ctc_loss"]

Array = NDArray[Any]


@dataclass(frozen=True)
class CtcOperands:
    """What a loss is computed from.

    Parameters
    ----------
    scores
        Shape (steps, batch, classes): what softmax makes probabilities of.
    labels
        Integers, shape (batch, longest label); what is beyond the length of a label is not read.
    steps, lengths
        Integers, shape (batch,): steps of every sequence, and lengths of labels; all of them if
        None.
    blank
        The class of no label.
    zero_infinity
        Whether losses and gradients of labels that no alignment gives are 0.
    takes_logs
        Whether the scores are logarithms of probabilities.
    """

    scores: Value
    labels: Value
    steps: Value | None = None
    lengths: Value | None = None
    blank: int = 0
    zero_infinity: bool = False
    takes_logs: bool = False


def _alphas(emitted: Array, may_jump: Array) -> Array:
    """Return by step and state the logarithm of the probability of what ends there."""
    n_states = emitted.shape[1]
    column = np.full(n_states + 2, -np.inf)
    column[2] = 0
    alphas = []
    for entry in emitted:
        jumps = np.where(may_jump, column[:-2], -np.inf)
        column[2:] = np.logaddexp.reduce([column[2:], column[1:-1], jumps]) + entry
        alphas.append(column[2:].copy())
    return np.array(alphas)


def _of_sequence(logs: Array, label: Array, blank: int) -> tuple[float, Array]:
    """Return the loss of a sequence and its gradient; an infinite loss has one without meaning."""
    states = np.full(2 * label.size + 1, blank)
    states[1::2] = label
    may_jump = np.zeros(states.size, bool)
    may_jump[3::2] = label[1:] != label[:-1]
    emitted = logs[:, states]
    alphas = _alphas(emitted, may_jump)
    onwards = np.append([False, False], may_jump[::-1])[: states.size]
    betas = _alphas(emitted[::-1, ::-1], onwards)[::-1, ::-1]
    total = np.logaddexp.reduce(alphas[-1, -2:])
    gradient = np.exp(logs)
    if np.isfinite(total):
        visits = np.exp(alphas + betas - emitted - total)
        np.subtract.at(gradient, (np.arange(len(logs))[:, None], states), visits)
    return -float(total), gradient


def _evaluate(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return losses and gradients in numpy, in double precision before they are rounded."""
    scores, labels, steps, lengths = arrays
    logs = scores.astype(np.float64)
    if not node.attributes["takes_logs"]:
        logs -= np.logaddexp.reduce(logs, 2, keepdims=True)
    losses = np.zeros(labels.shape[0])
    gradient = np.exp(logs)
    for i, (n, length) in enumerate(zip(steps, lengths, strict=True)):
        losses[i], gradient[:n, i] = _of_sequence(
            logs[:n, i], labels[i, :length], node.attributes["blank"]
        )
    if node.attributes["zero_infinity"]:
        is_over = np.isinf(losses)
        losses[is_over], gradient[:, is_over] = 0, 0
    return [losses.astype(scores.dtype), gradient.astype(scores.dtype)]


def _types(node: Node) -> list[tuple[tuple[int, ...], str]]:
    scores = node.operand(0)
    return [((scores.shape[1],), scores.dtype), (scores.shape, scores.dtype)]


def _lower(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    operands = [lowering.tensor(value) for value in op.operands]
    options = CtcLossOptions(
        op.attributes["blank"],
        zero_infinity=op.attributes["zero_infinity"],
        takes_logs=op.attributes["takes_logs"],
    )
    results: tuple[Tensor, ...]
    if op.outputs[1:] in ((), (None,)):
        results = (library_ctc_loss(lowering.builder, *operands, options=options),)
    else:
        results = ctc_loss_and_gradient(lowering.builder, *operands, options=options)
    if not options.zero_infinity:
        is_over = call("greater", operand(0), least_impossible(results[0].dtype))
        infinite = call("select", float("inf"), operand(0), is_over)
        map_in_place(lowering.builder, infinite, [results[0]])
    return tuple(t for value, t in zip(op.outputs, results, strict=False) if value is not None)


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradient that the loss came with, times that of the loss, up to the last steps.

    Raises
    ------
    BadModel
        When the loss depends on the gradient.
    """
    if gradients[1] is not None:
        raise BadModel(f"{op}: the gradient of its gradient is not supported")
    scores, of_scores = op.operand(0), op.outputs[1]
    assert of_scores is not None, "ctc_loss names both results"
    n_steps, n_batch, _ = scores.shape
    by_sequence = reshape(expansion, full(expansion, gradients[0], (n_batch,)), (1, n_batch, 1))
    number = expansion.constant(np.arange(n_steps)[:, None].astype(np.int32), "numbers")
    steps = reshape(expansion, expansion.emit(CAST, op.operand(2), dtype="int32"), (1, n_batch))
    is_due = reshape(expansion, binary(expansion, "less", number, steps), (n_steps, n_batch, 1))
    counts = expansion.emit(CAST, is_due, dtype=scores.dtype)
    factor = binary(expansion, "multiply", counts, by_sequence)
    if op.attributes["takes_logs"]:
        # The library's is with respect to what softmax takes.
        of_scores = mapped(expansion, operand(0) - call("exp", operand(1)), of_scores, scores)
    return binary(expansion, "multiply", of_scores, factor), None, None, None


#: From scores, labels, steps and lengths: losses by sequence, and the gradient of their sum. Beyond
#: the steps of a sequence, this holds probabilities.
CTC = Operator(
    name="ctc_loss",
    domain=ENGINE_DOMAIN,
    infer=_types,
    evaluate=_evaluate,
    lower=_lower,
    gradient=_gradient,
)

RECORDS = (CTC,)


def ctc_loss(expansion: Expansion, given: CtcOperands, reduction: str) -> Value:
    """Emit the loss.

    Parameters
    ----------
    given
        What it is computed from.
    reduction
        ``mean``: of the losses by length of their labels; ``sum``; or ``none``, a loss by sequence,
        shape (batch,). A loss is infinite where no alignment gives the label.

    Raises
    ------
    BadModel
        When shapes or types do not fit.
    """
    _check(expansion.node, given)
    n_steps, n_batch, _ = given.scores.shape
    dtype = given.scores.dtype
    labels = expansion.emit(CAST, given.labels, dtype="int32")
    steps = _counts(expansion, given.steps, n_steps, n_batch, "steps")
    lengths = _counts(expansion, given.lengths, given.labels.shape[1], n_batch, "lengths")
    losses = expansion.emit_all(
        CTC,
        2,
        *(given.scores, labels, steps, lengths),
        blank=given.blank,
        zero_infinity=given.zero_infinity and not given.takes_logs,
        takes_logs=given.takes_logs,
    )[0]
    if given.zero_infinity and given.takes_logs:
        is_over = call("greater", operand(0), float(np.finfo(dtype).max))
        losses = mapped(expansion, call("select", 0.0, operand(0), is_over), losses)
    if reduction == "none":
        return losses
    if reduction == "mean":
        own = expansion.emit(CAST, lengths, dtype=dtype)
        losses = mapped(expansion, operand(0) / call("maximum", operand(1), 1.0), losses, own)
    scale = 1 / n_batch if reduction == "mean" else 1.0
    return reshape(expansion, reduced(expansion, "sum", losses, [0], scale), ())


def _counts(expansion: Expansion, value: Value | None, most: int, n_batch: int, name: str) -> Value:
    """Emit counts by sequence as int32, the largest where none are given."""
    if value is None:
        return expansion.constant(np.full(n_batch, most, np.int32), name)
    return expansion.emit(CAST, value, dtype="int32")


def _check(node: Node, given: CtcOperands) -> None:
    """Refuse operands that do not fit.

    Raises
    ------
    BadModel
        Says what is expected.
    """
    scores, labels = given.scores, given.labels
    if len(scores.shape) != 3 or not scores.dtype.startswith("float"):
        raise BadModel(
            f"{node}: ctc takes scores of shape (steps, batch, classes), and {scores.name!r} is"
            f" {scores.dtype} {scores.shape}"
        )
    _, n_batch, n_classes = scores.shape
    if len(labels.shape) != 2 or labels.shape[0] != n_batch or not labels.shape[1]:
        raise BadModel(
            f"{node}: labels of shape {labels.shape} do not fit scores of shape {scores.shape}:"
            f" ctc takes labels of shape ({n_batch}, longest label)"
        )
    if not 0 <= given.blank < n_classes:
        raise BadModel(f"{node}: the blank is class {given.blank} of {n_classes}")
    for value in (labels, given.steps, given.lengths):
        if value is None:
            continue
        if np.dtype(value.dtype).kind not in "iu":
            raise BadModel(f"{node}: {value.name!r} is {value.dtype}: expected integers")
        if value is not labels and value.shape != (n_batch,):
            raise BadModel(f"{node}: {value.name!r} has shape {value.shape}: expected ({n_batch},)")
