"""Elementwise operators that are expressions of the library's functions.

PopART rewrites most of them in the same way: graphcore/popart sdk-release-3.4,
willow/src/onnxpasses and willow/src/patterns.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary

__all__ = ["RECORDS"]


def _acos(into: Expansion, x: Value) -> Value:
    return binary(into, "subtract", scalar(into, math.pi / 2, x), unary(into, "asin", x))


def _sinh(into: Expansion, x: Value) -> Value:
    """Emit (e + e / (e + 1)) / 2 with e = exp(x) − 1, which keeps small results exact."""
    e = unary(into, "expm1", x)
    rest = binary(into, "divide", e, binary(into, "add", e, scalar(into, 1, x)))
    return binary(into, "multiply", binary(into, "add", e, rest), scalar(into, 0.5, x))


def _cosh(into: Expansion, x: Value) -> Value:
    e = unary(into, "exp", x)
    both = binary(into, "add", e, unary(into, "inverse", e))
    return binary(into, "multiply", both, scalar(into, 0.5, x))


def _asinh(into: Expansion, x: Value) -> Value:
    """Emit sign(x) log1p(|x| + x² / (1 + √(x² + 1)))."""
    one, size, square = scalar(into, 1, x), unary(into, "absolute", x), unary(into, "square", x)
    root = unary(into, "sqrt", binary(into, "add", square, one))
    rest = binary(into, "divide", square, binary(into, "add", one, root))
    log = unary(into, "log1p", binary(into, "add", size, rest))
    return binary(into, "multiply", unary(into, "sign", x), log)


def _acosh(into: Expansion, x: Value) -> Value:
    one = scalar(into, 1, x)
    root = unary(into, "sqrt", binary(into, "subtract", unary(into, "square", x), one))
    return unary(into, "log", binary(into, "add", x, root))


def _atanh(into: Expansion, x: Value) -> Value:
    """Emit log1p(2x / (1 − x)) / 2."""
    twice = binary(into, "add", x, x)
    ratio = binary(into, "divide", twice, binary(into, "subtract", scalar(into, 1, x), x))
    return binary(into, "multiply", unary(into, "log1p", ratio), scalar(into, 0.5, x))


def _softsign(into: Expansion, x: Value) -> Value:
    below = binary(into, "add", unary(into, "absolute", x), scalar(into, 1, x))
    return binary(into, "divide", x, below)


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
    return Operator(name=name, decompose=lambda node, into: function(into, node.operand(0)))


def _is_infinite(node: Node, into: Expansion) -> Value:
    x = node.operand(0)
    found = unary(into, "is_inf", x)
    for key, function in (("detect_negative", "greater"), ("detect_positive", "less")):
        if not node.attributes.get(key, 1):
            side = binary(into, function, x, scalar(into, 0, x))
            found = binary(into, "logical_and", found, side)
    return found


def _mean(node: Node, into: Expansion) -> Value:
    total = node.operand(0)
    for value in node.operands[1:]:
        total = binary(into, "add", total, value)
    return binary(into, "multiply", total, scalar(into, 1 / len(node.operands), total))


def _mod(node: Node, into: Expansion) -> Value:
    """Emit C's remainder; without fmod the result has the sign of the divisor."""
    a, b = node.operand(0), node.operand(1)
    rest = binary(into, "remainder", a, b)
    if node.attributes.get("fmod", 0):
        return rest
    zero = scalar(into, 0, rest)
    opposes = binary(
        into, "not_equal", binary(into, "less", rest, zero), binary(into, "less", b, zero)
    )
    is_off = binary(into, "logical_and", opposes, binary(into, "not_equal", rest, zero))
    return chosen(into, is_off, binary(into, "add", rest, b), rest)


def _thresholded_relu(node: Node, into: Expansion) -> Value:
    x = node.operand(0)
    is_above = binary(into, "greater", x, scalar(into, node.attributes["alpha"], x))
    return chosen(into, is_above, x, scalar(into, 0, x))


def _shrink(node: Node, into: Expansion) -> Value:
    """Emit x + bias below −lambd, x − bias above lambd, and 0 between."""
    x, bound = node.operand(0), node.attributes["lambd"]
    bias = scalar(into, node.attributes["bias"], x)
    is_above = binary(into, "greater", x, scalar(into, bound, x))
    is_below = binary(into, "less", x, scalar(into, -bound, x))
    inside = chosen(into, is_above, binary(into, "subtract", x, bias), scalar(into, 0, x))
    return chosen(into, is_below, binary(into, "add", x, bias), inside)


def _bit_shift(node: Node, into: Expansion) -> Value:
    x = node.operand(0)
    is_left = node.attributes["direction"] == "LEFT"
    function = "shift_left" if is_left else "shift_right_sign_extend"
    return binary(into, function, x, node.operand(1))


RECORDS = (
    *(_of_one(name, function) for name, function in _FUNCTIONS.items()),
    Operator(name="BitShift", decompose=_bit_shift),
    Operator(name="IsInf", decompose=_is_infinite),
    Operator(name="Mean", decompose=_mean),
    Operator(name="Mod", decompose=_mod),
    Operator(name="Shrink", decompose=_shrink),
    Operator(name="ThresholdedRelu", decompose=_thresholded_relu),
)
