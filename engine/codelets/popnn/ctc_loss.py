"""Columns of the alignments of labels with steps: a vertex computes one step of its part.

The states of a label are its classes with blanks between and around them. Alpha of a state is the
logarithm of the probability of all alignments of the steps up to one that end in it; beta that of
the alignments of the steps from one on that begin in it. A vertex holds some steps and some states
of one sequence. Its counter is the step whose turn it is, which may be another vertex's; then the
counter alone moves. The first two codelets store what they compute; the other two compute the
other quantity between two columns that alternate, and add alpha times beta, without the
probability that both contain, to the gradient of the class.

Source: A. Graves and others, Connectionist Temporal Classification, ICML 2006, section 4.
Law: graphcore/poplibs sdk-release-3.4, lib/popnn/PerformanceEstimation.hpp, alphaCycles to
gradGivenBetaCycles, with one step and the classes of the vertex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._exponential import log_add

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "ALPHA",
    "BETA",
    "COLUMN_CYCLES",
    "EXTRA_BLANK_CYCLES",
    "GRADIENT_COLUMN_CYCLES",
    "GRADIENT_EXTRA_BLANK_CYCLES",
    "GRADIENT_GIVEN_ALPHA",
    "GRADIENT_GIVEN_BETA",
]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp"
#: Cycles of a sum of logarithms, and of a product.
_ADD_CYCLES, _MULTIPLY_CYCLES = 4 + 1 + 3 + 1 + 6 + 1, 1
#: Cycles of a class and the blank beside it: loads and stores, sums and products, the comparison.
COLUMN_CYCLES = 2 * (1 + 3) + 2 * (_ADD_CYCLES + _MULTIPLY_CYCLES) + 2
#: Cycles of the same with the gradient, which is read and written by class.
GRADIENT_COLUMN_CYCLES = COLUMN_CYCLES + 2 * (2 + 1) + 2 * (_ADD_CYCLES + _MULTIPLY_CYCLES)
#: Cycles of the blank after the last class.
EXTRA_BLANK_CYCLES = _ADD_CYCLES + _MULTIPLY_CYCLES
GRADIENT_EXTRA_BLANK_CYCLES = 2 * EXTRA_BLANK_CYCLES
#: Operations of a sum of logarithms. Source: include/poplibs_support/FlopEstimation.hpp
_ADD_FLOPS = 6


@jit
def _is_idle(alphas, valid_label, valid_time, step, label_offset, time_offset):  # type: ignore[no-untyped-def]
    """Whether the label ends before the part, or the step is not in the part or the sequence."""
    past = min(time_offset + alphas.shape[0], valid_time)
    return valid_label < label_offset or step < time_offset or step >= past


@jit
def _classes(label, valid_label, label_offset):  # type: ignore[no-untyped-def]
    """Return how many classes of the part the label has."""
    return min(valid_label - label_offset, label.size - 1)


def _alpha_column(*, has_gradient: bool) -> Any:
    """Return the kernel of a column of alphas from the column before it."""

    def column(  # type: ignore[no-untyped-def]
        alphas, before, label, probabilities, previous, n, has_blank, betas, gradients, blank, zero
    ):
        """Take the last state of the part before this one as `previous`."""
        state = 0
        of_blank = probabilities[blank]
        for k in range(n):
            both = log_add(previous, before[state])
            alphas[state] = max(both + of_blank, zero)
            if has_gradient:
                gradients[blank] = log_add(gradients[blank], max(both + betas[state], zero))
            symbol = label[k + 1]
            total = before[state] if symbol == label[k] else both
            total = log_add(total, before[state + 1])
            alphas[state + 1] = max(total + probabilities[symbol], zero)
            if has_gradient:
                term = max(total + betas[state + 1], zero)
                gradients[symbol] = log_add(gradients[symbol], term)
            previous = before[state + 1]
            state += 2
        if has_blank:
            both = log_add(previous, before[state])
            alphas[state] = max(both + of_blank, zero)
            if has_gradient:
                gradients[blank] = log_add(gradients[blank], max(both + betas[state], zero))

    return jit(column)


def _beta_column(*, has_gradient: bool) -> Any:
    """Return the kernel of a column of betas from the column after it."""

    def column(  # type: ignore[no-untyped-def]
        betas, after, label, probabilities, following, second, n, has_blank, alphas, gradients,
        blank, zero,
    ):  # fmt: skip
        """Take the first two states of the part after this one as `following` and `second`."""
        of_blank = probabilities[blank]
        if has_blank:
            following, second = after[2 * n], zero
            betas[2 * n] = max(following + of_blank, zero)
            if has_gradient:
                term = max(following + alphas[2 * n], zero)
                gradients[blank] = log_add(gradients[blank], term)
        for k in range(n - 1, -1, -1):
            state, symbol = 2 * k, label[k]
            total = log_add(after[state + 1], following)
            if not (has_blank and k == n - 1) and symbol != label[k + 1]:
                total = log_add(total, second)
            betas[state + 1] = max(total + probabilities[symbol], zero)
            if has_gradient:
                term = max(total + alphas[state + 1], zero)
                gradients[symbol] = log_add(gradients[symbol], term)
            both = log_add(after[state], after[state + 1])
            betas[state] = max(both + of_blank, zero)
            if has_gradient:
                gradients[blank] = log_add(gradients[blank], max(both + alphas[state], zero))
            following, second = after[state], after[state + 1]

    return jit(column)


_alphas, _alphas_and_gradient = (_alpha_column(has_gradient=g) for g in (False, True))
_betas, _betas_and_gradient = (_beta_column(has_gradient=g) for g in (False, True))


@jit
def _loss_of(alphas, n, has_blank, is_end, loss):  # type: ignore[no-untyped-def]
    """Store the logarithm of the probability of the alignments that end in the part."""
    if has_blank:
        last = alphas[2 * n]
        loss[0] = log_add(alphas[2 * n - 1], last) if n else last
    elif is_end:
        loss[0] = alphas[2 * n - 1]


@jit
def _alpha(  # type: ignore[no-untyped-def]
    label, probabilities, valid_label, valid_time, count, alphas, previous_time,
    previous_label, previous_label_time, label_out, loss,
    label_offset, time_offset, n_classes, blank, is_last, zero,
):  # fmt: skip
    step = count[0]
    count[0] = step + 1
    if _is_idle(alphas, valid_label[0], valid_time[0], step, label_offset, time_offset):
        return
    t = step - time_offset
    n = _classes(label, valid_label[0], label_offset)
    has_blank = is_last == 1 or n < label.size - 1
    row = probabilities[t * n_classes : (t + 1) * n_classes]
    before = previous_time if t == 0 else alphas[t - 1]
    previous = previous_label_time[0] if t == 0 else previous_label[0]
    column = alphas[t]
    _alphas(column, before, label, row, previous, n, has_blank, column, row, blank, zero)
    if step == valid_time[0] - 1:
        _loss_of(column, n, has_blank, label_offset + n == valid_label[0], loss)
    if n:
        label_out[0] = column[2 * n - 1]


@jit
def _gradient_given_beta(  # type: ignore[no-untyped-def]
    label, probabilities, valid_label, valid_time, count, betas, previous_time,
    previous_part, previous_label, previous_label_time, label_out, gradients, loss,
    label_offset, time_offset, n_classes, blank, is_last, zero,
):  # fmt: skip
    step = count[0]
    count[0] = step + 1
    if _is_idle(betas, valid_label[0], valid_time[0], step, label_offset, time_offset):
        return
    t = step - time_offset
    n = _classes(label, valid_label[0], label_offset)
    has_blank = is_last == 1 or n < label.size - 1
    row = probabilities[t * n_classes : (t + 1) * n_classes]
    to = gradients[t * n_classes : (t + 1) * n_classes]
    old = step & 1
    before = previous_part[old] if t == 0 else previous_time[old]
    previous = previous_label_time[0] if t == 0 else previous_label[0]
    column = previous_time[1 - old]
    _alphas_and_gradient(
        column, before, label, row, previous, n, has_blank, betas[t], to, blank, zero
    )
    if step == valid_time[0] - 1:
        _loss_of(column, n, has_blank, label_offset + n == valid_label[0], loss)
    if n:
        label_out[0] = column[2 * n - 1]


@jit
def _start(column, n, has_blank):  # type: ignore[no-untyped-def]
    """Let alignments end in the blank after the label."""
    if has_blank:
        column[2 * n] = 0


@jit
def _beta(  # type: ignore[no-untyped-def]
    label, probabilities, valid_label, valid_time, count, betas, previous_time,
    previous_label, previous_label_time, label_out,
    label_offset, time_offset, n_classes, blank, is_last, zero,
):  # fmt: skip
    step = count[0]
    count[0] = step - 1
    if _is_idle(betas, valid_label[0], valid_time[0], step, label_offset, time_offset):
        return
    t = step - time_offset
    n = _classes(label, valid_label[0], label_offset)
    has_blank = is_last == 1 or n < label.size - 1
    row = probabilities[t * n_classes : (t + 1) * n_classes]
    is_first = t == betas.shape[0] - 1
    is_end = step == valid_time[0] - 1
    following = previous_label_time[0] if is_first else previous_label[0]
    second = previous_label_time[1] if is_first else previous_label[1]
    if is_end:
        _start(previous_time, n, has_blank)
        if not has_blank and label_offset + n == valid_label[0]:
            following = np.float32(0)
    after = previous_time if is_first or is_end else betas[t + 1]
    column = betas[t]
    _betas(column, after, label, row, following, second, n, has_blank, column, row, blank, zero)
    label_out[0] = column[0]
    label_out[1] = column[1] if n else zero


@jit
def _gradient_given_alpha(  # type: ignore[no-untyped-def]
    label, probabilities, valid_label, valid_time, count, alphas, previous_time,
    previous_part, previous_label, previous_label_time, label_out, gradients,
    label_offset, time_offset, n_classes, blank, is_last, zero,
):  # fmt: skip
    step = count[0]
    count[0] = step - 1
    if _is_idle(alphas, valid_label[0], valid_time[0], step, label_offset, time_offset):
        return
    t = step - time_offset
    n = _classes(label, valid_label[0], label_offset)
    has_blank = is_last == 1 or n < label.size - 1
    row = probabilities[t * n_classes : (t + 1) * n_classes]
    to = gradients[t * n_classes : (t + 1) * n_classes]
    is_first = t == alphas.shape[0] - 1
    is_end = step == valid_time[0] - 1
    following = previous_label_time[0] if is_first else previous_label[0]
    second = previous_label_time[1] if is_first else previous_label[1]
    old = 1 - (step & 1)
    if is_end:
        _start(previous_time[old], n, has_blank)
        if not has_blank and label_offset + n == valid_label[0]:
            following = np.float32(0)
    after = previous_part[old] if is_first and not is_end else previous_time[old]
    column = previous_time[1 - old]
    _betas_and_gradient(
        column, after, label, row, following, second, n, has_blank, alphas[t], to, blank, zero
    )
    label_out[0] = column[0]
    label_out[1] = column[1] if n else zero


def _codelet(name: str, kernel: Any, stored: str, *, has_gradient: bool) -> Codelet:
    """Return the codelet that stores alphas or betas, or that adds to the gradient given them."""
    per_class = GRADIENT_COLUMN_CYCLES if has_gradient else COLUMN_CYCLES
    flops_per_class = (2 + 2 * has_gradient) * (_ADD_FLOPS + 1)
    columns = [
        Field("previous_time", "inout", 2, kind="view", dtype_of=stored),
        Field("previous_part", "in", 2, kind="view", dtype_of=stored),
    ]
    if not has_gradient:
        is_changed = stored == "betas"
        columns = [Field("previous_time", "inout" if is_changed else "in", dtype_of=stored)]
    fields = [
        Field("label", "in", dtype="int32"),
        Field("probabilities", "in"),
        *(Field(f"valid_{part}", "in", dtype="int32") for part in ("label", "time")),
        Field("count", "inout", dtype="int32"),
        Field(stored, "in" if has_gradient else "inout", 2, kind="view"),
        *columns,
        *(Field(f"previous_{part}", "in", dtype_of=stored) for part in ("label", "label_time")),
        Field("label_out", "inout", dtype_of=stored),
    ]
    if has_gradient:
        fields.append(Field("gradients", "inout", dtype_of=stored))
    if (stored == "alphas") is not has_gradient:
        fields.append(Field("loss", "inout", dtype_of=stored))

    def law(batch: Batch, _: Machine) -> Counts:
        return np.asarray(per_class * (batch.n_elements("label") - 1))

    def flops(batch: Batch) -> Counts:
        return np.asarray(flops_per_class * (batch.n_elements("label") - 1))

    scalars = [Scalar(s) for s in ("label_offset", "time_offset", "n_classes", "blank")]
    return Codelet(
        f"popnn::{name}",
        tuple(fields),
        kernel,
        law,
        code_bytes=700 if has_gradient else 500,  # Assumption: a loop, its ends and the choices
        source=_SOURCE,
        scalars=(
            *scalars,
            Scalar("is_last", on_device=False),
            Scalar("zero", "float", on_device=False),
        ),
        flops=flops,
        is_supervisor=False,
    )


ALPHA = _codelet("CTCAlpha", _alpha, "alphas", has_gradient=False)
BETA = _codelet("CTCBeta", _beta, "betas", has_gradient=False)
GRADIENT_GIVEN_ALPHA = _codelet(
    "CTCGradGivenAlpha", _gradient_given_alpha, "alphas", has_gradient=True
)
GRADIENT_GIVEN_BETA = _codelet("CTCGradGivenBeta", _gradient_given_beta, "betas", has_gradient=True)
