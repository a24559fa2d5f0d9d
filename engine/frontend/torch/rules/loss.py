"""Losses."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]

#: Reductions by PyTorch's numbers. Source: pytorch, aten/src/ATen/core/Reduction.h.
_REDUCTIONS = ("none", "mean", "sum")


def _reduced(emit: Emission, losses: Value, reduction: int) -> Value:
    kind = _REDUCTIONS[reduction]
    if kind == "none" or not losses.shape:
        return losses
    key = "ReduceMean" if kind == "mean" else "ReduceSum"
    return emit.reduced(key, losses, range(len(losses.shape)), keeps=False)


def _nll(
    emit: Emission,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
) -> Value:
    return _of_classes(
        emit, "NegativeLogLikelihoodLoss", x, target, weight, reduction, ignore_index
    )


def _nll_forward(emit: Emission, *given: Any) -> tuple[Value, Any]:
    return _nll(emit, *given), None


def _of_classes(
    emit: Emission,
    key: str,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
) -> Value:
    is_single = len(target.shape) == 0
    if is_single:
        x, target = emit.reshape(x, (1, *x.shape)), emit.reshape(target, (1,))
    operands = [x, target] if weight is None else [x, target, weight]
    # A label below all classes is no label of theirs: PyTorch's default is to ignore -100.
    out = emit(key, *operands, reduction=_REDUCTIONS[reduction], ignore_index=ignore_index)
    return emit.reshape(out, emit.shape)


def _cross_entropy(
    emit: Emission,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    if target.dtype.startswith("float"):
        return _of_probabilities(emit, x, target, weight, reduction, label_smoothing)
    key = "SoftmaxCrossEntropyLoss"
    plain = _of_classes(emit, key, x, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return plain
    axis = 0 if len(x.shape) == 1 else 1
    n = x.shape[axis]
    smooth = emit("Neg", emit("LogSoftmax", x, axis=axis))
    if weight is not None:
        shape = (n, *(1,) * (len(x.shape) - axis - 1))
        smooth = emit("Mul", smooth, emit.reshape(weight, shape))
    smooth = emit.reduced("ReduceSum", smooth, [axis], keeps=False)
    counts = emit.cast(
        emit("Not", emit("Equal", target, emit.constant(ignore_index, target.dtype))), x.dtype
    )
    smooth = emit("Mul", smooth, counts)
    if _REDUCTIONS[reduction] != "none":
        smooth = _reduced(emit, smooth, 2)
    if _REDUCTIONS[reduction] == "mean":
        if weight is not None:
            first = emit("Max", target, emit.constant(0, target.dtype))
            counts = emit("Mul", counts, emit("Gather", weight, first, axis=0))
        smooth = emit("Div", smooth, _reduced(emit, counts, 2))
    return emit(
        "Add",
        emit.scaled(plain, 1 - label_smoothing),
        emit.scaled(emit.reshape(smooth, plain.shape), label_smoothing / n),
    )


def _of_probabilities(
    emit: Emission,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    label_smoothing: float,
) -> Value:
    axis = 0 if len(x.shape) == 1 else 1
    if label_smoothing:
        share = emit.constant(label_smoothing / x.shape[axis], x.dtype)
        target = emit("Add", emit.scaled(target, 1 - label_smoothing), share)
    terms = emit("Mul", emit("LogSoftmax", x, axis=axis), target)
    if weight is not None:
        shape = (x.shape[axis], *(1,) * (len(x.shape) - axis - 1))
        terms = emit("Mul", terms, emit.reshape(weight, shape))
    losses = emit("Neg", emit.reduced("ReduceSum", terms, [axis], keeps=False))
    return _reduced(emit, losses, reduction)


def _apart(key: str) -> Rule:
    """Return the rule of a loss that is a function of the difference."""

    def rule(emit: Emission, x: Value, target: Value, reduction: int = 1) -> Value:
        apart = emit("Sub", x, emit.cast(target, x.dtype))
        losses = emit("Mul", apart, apart) if key == "square" else emit("Abs", apart)
        return _reduced(emit, losses, reduction)

    return rule


def _smooth_l1(
    emit: Emission, x: Value, target: Value, reduction: int = 1, beta: float = 1.0
) -> Value:
    if beta == 0:
        return _reduced(emit, emit("Abs", emit("Sub", x, target)), reduction)
    size = emit("Abs", emit("Sub", x, target))
    square = emit.scaled(emit("Mul", size, size), 0.5 / beta)
    line = emit("Sub", size, emit.constant(0.5 * beta, x.dtype))
    near = emit("Less", size, emit.constant(beta, x.dtype))
    return _reduced(emit, emit("Where", near, square, line), reduction)


def _huber(
    emit: Emission, x: Value, target: Value, reduction: int = 1, delta: float = 1.0
) -> Value:
    size = emit("Abs", emit("Sub", x, target))
    square = emit.scaled(emit("Mul", size, size), 0.5)
    line = emit.scaled(emit("Sub", size, emit.constant(0.5 * delta, x.dtype)), delta)
    near = emit("LessOrEqual", size, emit.constant(delta, x.dtype))
    return _reduced(emit, emit("Where", near, square, line), reduction)


def _binary_cross_entropy(
    emit: Emission, x: Value, target: Value, weight: Value | None = None, reduction: int = 1
) -> Value:
    one, least = emit.constant(1, x.dtype), emit.constant(-100, x.dtype)
    yes = emit("Max", emit("Log", x), least)
    no = emit("Max", emit("Log", emit("Sub", one, x)), least)
    chosen = emit("Add", emit("Mul", target, yes), emit("Mul", emit("Sub", one, target), no))
    losses = emit("Neg", chosen)
    if weight is not None:
        losses = emit("Mul", losses, weight)
    return _reduced(emit, losses, reduction)


def _with_logits(
    emit: Emission,
    x: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = 1,
) -> Value:
    one = emit.constant(1, x.dtype)
    rest = emit("Mul", emit("Sub", one, target), x)
    tail = emit("Softplus", emit("Neg", x))  # log(1 + exp(-x))
    if pos_weight is not None:
        factor = emit("Mul", emit("Sub", pos_weight, one), target)
        tail = emit("Mul", emit("Add", one, factor), tail)
    losses = emit("Add", rest, tail)
    if weight is not None:
        losses = emit("Mul", losses, weight)
    return _reduced(emit, losses, reduction)


def _kl_div(
    emit: Emission, x: Value, target: Value, reduction: int = 1, *, log_target: bool = False
) -> Value:
    if log_target:
        losses = emit("Mul", emit("Exp", target), emit("Sub", target, x))
        return _reduced(emit, losses, reduction)
    zero = emit.constant(0, x.dtype)
    is_zero = emit("Equal", target, zero)
    logs = emit("Log", emit("Where", is_zero, emit.constant(1, x.dtype), target))
    own = emit("Mul", target, logs)
    return _reduced(emit, emit("Sub", own, emit("Mul", target, x)), reduction)


def _poisson(
    emit: Emission,
    x: Value,
    target: Value,
    log_input: bool,
    full: bool,
    eps: float,
    reduction: int,
) -> Value:
    if log_input:
        losses = emit("Sub", emit("Exp", x), emit("Mul", target, x))
    else:
        safe = emit("Add", x, emit.constant(eps, x.dtype))
        losses = emit("Sub", x, emit("Mul", target, emit("Log", safe)))
    if full:
        above = emit("Greater", target, emit.constant(1, target.dtype))
        safe = emit("Where", above, target, emit.constant(1, target.dtype))
        stirling = emit("Sub", emit("Mul", safe, emit("Log", safe)), safe)
        half = emit.scaled(emit("Log", emit.scaled(safe, 2 * pi)), 0.5)
        term = emit("Where", above, emit("Add", stirling, half), emit.constant(0, target.dtype))
        losses = emit("Add", losses, term)
    return _reduced(emit, losses, reduction)


def _hinge_embedding(
    emit: Emission, x: Value, target: Value, margin: float = 1.0, reduction: int = 1
) -> Value:
    target = emit.cast(target, x.dtype)
    is_one = emit("Equal", target, emit.constant(1, x.dtype))
    is_other = emit("Equal", target, emit.constant(-1, x.dtype))
    zero = emit.constant(0, x.dtype)
    hinge = emit("Relu", emit("Sub", emit.constant(margin, x.dtype), x))
    losses = emit("Add", emit("Where", is_other, hinge, zero), emit("Where", is_one, x, zero))
    return _reduced(emit, losses, reduction)


def _soft_margin(emit: Emission, x: Value, target: Value, reduction: int = 1) -> Value:
    product = emit("Mul", emit("Neg", emit.cast(target, x.dtype)), x)
    return _reduced(emit, emit("Softplus", product), reduction)


def _margin_ranking(
    emit: Emission, a: Value, b: Value, target: Value, margin: float = 0.0, reduction: int = 1
) -> Value:
    apart = emit("Mul", emit("Neg", emit.cast(target, a.dtype)), emit("Sub", a, b))
    losses = emit("Relu", emit("Add", apart, emit.constant(margin, a.dtype)))
    return _reduced(emit, losses, reduction)


def _cosine(emit: Emission, a: Value, b: Value, eps: float) -> Value:
    """Return the cosine between rows; `eps` is added to the squares of their lengths."""
    axis = len(a.shape) - 1

    def total(x: Value, y: Value) -> Value:
        return emit.reduced("ReduceSum", emit("Mul", x, y), [axis], keeps=False)

    added = emit.constant(eps, a.dtype)
    lengths = emit("Mul", emit("Add", total(a, a), added), emit("Add", total(b, b), added))
    return emit("Div", total(a, b), emit("Sqrt", lengths))


def _cosine_embedding(
    emit: Emission, a: Value, b: Value, target: Value, margin: float = 0.0, reduction: int = 1
) -> Value:
    cosine = _cosine(emit, a, b, 1e-12)
    target = emit.cast(target, a.dtype)
    one, zero = emit.constant(1, a.dtype), emit.constant(0, a.dtype)
    same = emit("Where", emit("Equal", target, one), emit("Sub", one, cosine), zero)
    apart = emit("Relu", emit("Sub", cosine, emit.constant(margin, a.dtype)))
    is_other = emit("Equal", target, emit.constant(-1, a.dtype))
    losses = emit("Add", same, emit("Where", is_other, apart, zero))
    return _reduced(emit, losses, reduction)


def _ctc(
    emit: Emission,
    x: Value,
    targets: Value,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Value:
    is_single = len(x.shape) == 2
    if is_single:
        x = emit.reshape(x, (x.shape[0], 1, x.shape[1]))
    n_batch = x.shape[1]
    steps, lengths = (
        emit.reshape(item if isinstance(item, Value) else emit.integers(item), (n_batch,))
        for item in (input_lengths, target_lengths)
    )
    if len(targets.shape) == 1 and n_batch == 1:
        targets = emit.reshape(targets, (1, targets.shape[0]))
    elif len(targets.shape) == 1:
        if lengths.known is None:
            emit.refuse("takes labels one after the other with known lengths only: pad them")
        # Rows as long as the longest label; what is beyond a label is not read.
        counts = np.asarray(lengths.known)
        starts = np.cumsum(counts) - counts
        places = starts[:, None] + np.arange(counts.max())
        places = np.minimum(places, targets.shape[0] - 1)
        targets = emit("Gather", targets, emit.integers(places), axis=0)
    out = emit(
        "ai.graphcore.Ctc",
        *(x, targets, steps, lengths),
        blank=blank,
        reduction=_REDUCTIONS[reduction].title(),
        zeroInfinity=int(zero_infinity),
    )
    return emit.reshape(out, emit.shape)


RULES: Rules = {
    "aten.binary_cross_entropy": _binary_cross_entropy,
    "aten.binary_cross_entropy_with_logits": _with_logits,
    "aten.cosine_embedding_loss": _cosine_embedding,
    "aten.cross_entropy_loss": _cross_entropy,
    "aten.ctc_loss": _ctc,
    "aten.hinge_embedding_loss": _hinge_embedding,
    "aten.huber_loss": _huber,
    "aten.kl_div": _kl_div,
    "aten.l1_loss": _apart("absolute"),
    "aten.margin_ranking_loss": _margin_ranking,
    "aten.mse_loss": _apart("square"),
    "aten.nll_loss": _nll,
    "aten.nll_loss2d": _nll,
    "aten.nll_loss2d_forward": _nll_forward,
    "aten.nll_loss_forward": _nll_forward,
    "aten.nll_loss_nd": _nll,
    "aten.poisson_nll_loss": _poisson,
    "aten.smooth_l1_loss": _smooth_l1,
    "aten.soft_margin_loss": _soft_margin,
}
