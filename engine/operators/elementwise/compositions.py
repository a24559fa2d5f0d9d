"""Elementwise operators that are expressions of the library's functions.

PopART rewrites most of them in the same way: graphcore/popart sdk-release-3.4,
willow/src/onnxpasses and willow/src/patterns.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, bounded, scalar, unary

__all__ = ["RECORDS", "modulo"]


def _acos(expansion: Expansion, x: Value) -> Value:
    return binary(
        expansion, "subtract", scalar(expansion, math.pi / 2, x), unary(expansion, "asin", x)
    )


def _sign(expansion: Expansion, x: Value) -> Value:
    """Emit -1 below 0, and 1 from there on: its product with x has a slope of 1 at 0."""
    is_negative = binary(expansion, "less", x, scalar(expansion, 0, x))
    return chosen(expansion, is_negative, scalar(expansion, -1, x), scalar(expansion, 1, x))


def _sinh(expansion: Expansion, x: Value) -> Value:
    """Emit ±(e + e / (e + 1)) / 2 with e = exp(|x|) − 1, which keeps small results exact.

    The ratio is 1 long before e is infinite.
    """
    sign = _sign(expansion, x)
    e = unary(expansion, "expm1", binary(expansion, "multiply", sign, x))
    most = scalar(expansion, float(np.finfo(x.dtype).max) / 2, x)
    finite = bounded(expansion, "minimum", e, most)
    above = binary(expansion, "add", finite, scalar(expansion, 1, x))
    twice = binary(expansion, "add", e, binary(expansion, "divide", finite, above))
    half = binary(expansion, "multiply", sign, scalar(expansion, 0.5, x))
    return binary(expansion, "multiply", twice, half)


def _cosh(expansion: Expansion, x: Value) -> Value:
    """Emit (e + 1 / e) / 2 with e = exp(|x|), whose inverse is finite."""
    e = unary(expansion, "exp", unary(expansion, "absolute", x))
    both = binary(expansion, "add", e, unary(expansion, "inverse", e))
    return binary(expansion, "multiply", both, scalar(expansion, 0.5, x))


def _asinh(expansion: Expansion, x: Value) -> Value:
    """Emit ±log1p(|x| + x² / (1 + √(x² + 1)))."""
    unit, square, sign = (
        scalar(expansion, 1, x),
        unary(expansion, "square", x),
        _sign(expansion, x),
    )
    root = unary(expansion, "sqrt", binary(expansion, "add", square, unit))
    rest = binary(expansion, "divide", square, binary(expansion, "add", unit, root))
    size = binary(expansion, "multiply", sign, x)
    log = unary(expansion, "log1p", binary(expansion, "add", size, rest))
    return binary(expansion, "multiply", sign, log)


def _acosh(expansion: Expansion, x: Value) -> Value:
    unit = scalar(expansion, 1, x)
    root = unary(
        expansion, "sqrt", binary(expansion, "subtract", unary(expansion, "square", x), unit)
    )
    return unary(expansion, "log", binary(expansion, "add", x, root))


def _atanh(expansion: Expansion, x: Value) -> Value:
    """Emit log1p(2x / (1 − x)) / 2."""
    twice = binary(expansion, "add", x, x)
    ratio = binary(
        expansion, "divide", twice, binary(expansion, "subtract", scalar(expansion, 1, x), x)
    )
    return binary(
        expansion, "multiply", unary(expansion, "log1p", ratio), scalar(expansion, 0.5, x)
    )


def _softsign(expansion: Expansion, x: Value) -> Value:
    below = binary(expansion, "add", unary(expansion, "absolute", x), scalar(expansion, 1, x))
    return binary(expansion, "divide", x, below)


#: Operators of one operand and no attributes.
_FUNCTIONS: dict[str, Callable[[Expansion, Value], Value]] = {
    "Acos": _acos,
    "Acosh": _acosh,
    "Asinh": _asinh,
    "Atanh": _atanh,
    "Cosh": _cosh,
    "Sinh": _sinh,
    "Softsign": _softsign,
}


def _of_one(name: str, function: Callable[[Expansion, Value], Value]) -> Operator:
    return Operator(
        name=name, decompose=lambda node, expansion: function(expansion, node.operand(0))
    )


def _is_infinite(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    is_infinite = unary(expansion, "is_inf", x)
    for key, function in (("detect_negative", "greater"), ("detect_positive", "less")):
        if not node.attributes.get(key, 1):
            side = binary(expansion, function, x, scalar(expansion, 0, x))
            is_infinite = binary(expansion, "logical_and", is_infinite, side)
    return is_infinite


def _mean(node: Node, expansion: Expansion) -> Value:
    total = node.operand(0)
    for value in node.operands[1:]:
        total = binary(expansion, "add", total, value)
    return binary(expansion, "multiply", total, scalar(expansion, 1 / len(node.operands), total))


def _mod(node: Node, expansion: Expansion) -> Value:
    """Emit C's remainder; without fmod the result has the sign of the divisor."""
    a, b = node.operand(0), node.operand(1)
    if node.attributes.get("fmod", 0):
        return binary(expansion, "remainder", a, b)
    return modulo(expansion, a, b)


def modulo(expansion: Expansion, a: Value, b: Value) -> Value:
    """Emit the remainder that has the sign of the divisor."""
    rest = binary(expansion, "remainder", a, b)
    zero = scalar(expansion, 0, rest)
    opposes = binary(
        expansion,
        "not_equal",
        binary(expansion, "less", rest, zero),
        binary(expansion, "less", b, zero),
    )
    is_off = binary(expansion, "logical_and", opposes, binary(expansion, "not_equal", rest, zero))
    return chosen(expansion, is_off, binary(expansion, "add", rest, b), rest)


def _thresholded_relu(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    is_above = binary(expansion, "greater", x, scalar(expansion, node.attributes["alpha"], x))
    return chosen(expansion, is_above, x, scalar(expansion, 0, x))


def _shrink(node: Node, expansion: Expansion) -> Value:
    """Emit x + bias below −lambd, x − bias above lambd, and 0 between."""
    x, bound = node.operand(0), node.attributes["lambd"]
    bias = scalar(expansion, node.attributes["bias"], x)
    is_above = binary(expansion, "greater", x, scalar(expansion, bound, x))
    is_below = binary(expansion, "less", x, scalar(expansion, -bound, x))
    inside = chosen(
        expansion, is_above, binary(expansion, "subtract", x, bias), scalar(expansion, 0, x)
    )
    return chosen(expansion, is_below, binary(expansion, "add", x, bias), inside)


def _bit_shift(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    is_left = node.attributes["direction"] == "LEFT"
    function = "shift_left" if is_left else "shift_right_sign_extend"
    return binary(expansion, function, x, node.operand(1))


RECORDS = (
    *(_of_one(name, function) for name, function in _FUNCTIONS.items()),
    Operator(name="BitShift", decompose=_bit_shift),
    Operator(name="IsInf", decompose=_is_infinite),
    Operator(name="Mean", decompose=_mean),
    Operator(name="Mod", decompose=_mod),
    Operator(name="Shrink", decompose=_shrink),
    Operator(name="ThresholdedRelu", decompose=_thresholded_relu),
)
