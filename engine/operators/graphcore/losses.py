"""Losses of PopART, which a model holds as operators."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.ctc import CtcOperands, ctc_loss
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.elementwise.mapped import call, mapped, operand
from tilescope.engine.operators.graphcore.domain import as_type, decomposed, signed
from tilescope.engine.operators.loss import class_loss
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]

#: Source: graphcore/popart, willow/src/op/loss.cpp.
_REDUCTIONS = {"Mean": "mean", "None": "none", "Sum": "sum"}
#: The smallest probability that has a logarithm. Source: willow/src/popx/op/nllx.cpp.
_LEAST = {"float16": 6.104e-05, "float32": 1e-7, "float64": 1e-7}


def _reduction(node: Node) -> str:
    stated: Any = node.attributes.get("reduction", "Mean")
    if stated not in _REDUCTIONS:
        raise BadModel(
            f"{node}: reduction {stated!r}: expected one of {', '.join(sorted(_REDUCTIONS))}"
        )
    return _REDUCTIONS[stated]


def _reduced(node: Node, expansion: Expansion, x: Value, factor: float = 1.0) -> Value:
    """Emit the sum or the mean of all elements, or the elements themselves, times a factor."""
    reduction = _reduction(node)
    if reduction == "none":
        return x if factor == 1 else mapped(expansion, operand(0) * float(factor), x)
    n_elements = prod(x.shape)
    scale = factor / max(1, n_elements) if reduction == "mean" else factor
    total = reduced(expansion, "sum", reshape(expansion, x, (n_elements,)), [0], scale)
    return reshape(expansion, total, ())


def _identity(node: Node, expansion: Expansion) -> Value:
    return _reduced(node, expansion, node.operand(0))


def _l1(node: Node, expansion: Expansion) -> Value:
    """Emit the sum or the mean of absolute values, times lambda."""
    size = unary(expansion, "absolute", node.operand(0))
    return _reduced(node, expansion, size, node.attributes.get("lambda", 1.0))


def _nll(node: Node, expansion: Expansion) -> Value:
    """Emit the loss of a classification: the classes are the last dimension.

    The mean of no labels, if all are ignored, is 0.

    Raises
    ------
    BadModel
        When probabilities and labels do not fit.
    """
    x, labels = node.operand(0), node.operand(1)
    if not x.shape or labels.shape != x.shape[:-1]:
        raise BadModel(
            f"{node}: labels {labels.name!r} have shape {labels.shape}: expected {x.shape[:-1]},"
            f" that of {x.name!r} without its classes"
        )
    if np.dtype(labels.dtype).kind not in "iu":
        raise BadModel(f"{node}: labels {labels.name!r} are {labels.dtype}: expected integers")
    n_rows, reduction = prod(labels.shape), _reduction(node)
    flat = reshape(expansion, signed(expansion, labels), (n_rows,))
    ignored = node.attributes.get("ignoreIndex")
    losses, _ = class_loss(
        expansion,
        reshape(expansion, x, (n_rows, x.shape[-1])),
        flat,
        reduction="none",
        ignored=ignored,
        least=None if node.attributes.get("inputIsLogProbability", 0) else _LEAST[x.dtype],
    )
    if ignored is None or reduction != "mean":
        return reshape(expansion, _reduced(node, expansion, losses), _shape_of(labels, reduction))
    counts = binary(expansion, "not_equal", flat, scalar(expansion, ignored, flat))
    n_counted = reduced(expansion, "sum", as_type(expansion, counts, x.dtype), [0])
    total = reduced(expansion, "sum", losses, [0])
    mean = mapped(expansion, operand(0) / call("maximum", operand(1), 1.0), total, n_counted)
    return reshape(expansion, mean, ())


def _shape_of(labels: Value, reduction: str) -> tuple[int, ...]:
    return labels.shape if reduction == "none" else ()


def _ctc(node: Node, expansion: Expansion) -> Value:
    """Emit the loss of logarithms of probabilities, shape (steps, batch, classes)."""
    labels, steps, lengths = (signed(expansion, node.operand(i)) for i in range(1, 4))
    given = CtcOperands(
        node.operand(0),
        labels,
        steps,
        lengths,
        blank=node.attributes.get("blank", 0),
        takes_logs=True,
        zero_infinity=bool(node.attributes.get("zeroInfinity", 0)),
    )
    loss = ctc_loss(expansion, given, _reduction(node))
    kind = node.attributes.get("outDataType", TensorProto.UNDEFINED)
    if kind == TensorProto.UNDEFINED:
        return loss
    return as_type(expansion, loss, np.dtype(helper.tensor_dtype_to_np_dtype(kind)).name)


RECORDS = (
    decomposed("Ctc", _ctc),
    decomposed("IdentityLoss", _identity),
    decomposed("L1", _l1),
    decomposed("Nll", _nll),
)
