"""Normalisations and softmax."""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise import binary, unary
from tilescope.engine.operators.layout import reshape
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]


def _batch_normalization(node: Node, into: Expansion) -> Value:
    x = node.operand(0)
    if node.attributes.get("training_mode", 0):
        raise BadModel(f"{node} is in training mode; only inference is supported")
    scale, bias, mean, variance = (
        node.known(i, what).astype(np.float64)
        for i, what in enumerate(("the scale", "the bias", "the mean", "the variance"), start=1)
    )
    factor = scale / np.sqrt(variance + node.attributes["epsilon"])
    shape = (-1, *(1,) * (len(x.shape) - 2))
    factor_value, offset_value = (
        into.constant(values.reshape(shape).astype(x.dtype), name)
        for name, values in (("scale", factor), ("offset", bias - mean * factor))
    )
    return binary(into, "add", binary(into, "multiply", x, factor_value), offset_value)


def _softmax(node: Node, into: Expansion) -> Value:
    x = node.operand(0)
    rank = len(x.shape)
    axis = node.axis(node.attributes["axis"], rank)
    shape = x.shape
    if node.version < 13:  # everything from the axis on is one row
        x = reshape(into, x, (prod(shape[:axis]), prod(shape[axis:])))
        axis = 1
    largest = reduced(into, "maximum", x, (axis,))
    powers = unary(into, "exp", binary(into, "subtract", x, largest))
    total = reduced(into, "sum", powers, (axis,))
    return reshape(into, binary(into, "multiply", powers, unary(into, "inverse", total)), shape)


RECORDS = (
    Operator(name="BatchNormalization", decompose=_batch_normalization),
    Operator(name="Softmax", decompose=_softmax),
)
