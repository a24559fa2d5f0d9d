"""Gradients of elementwise functions: one expression each, over the gradient and operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.non_linearity import non_linearity_input_gradient
from tilescope.engine.library.popops.elementwise.derivative import OF_OPERAND, OF_RESULT
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.mapped import Expression, call, mapped, operand
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.parts import broadcast

__all__ = [
    "RECORDS",
    "SLOPE_AT_KINK",
    "binary_gradient",
    "non_linearity_gradient",
    "unary_gradient",
]

#: Attribute: the slope where a function has none, of a relu or a root at 0, and of a maximum or
#: minimum, in its first operand, where both are equal. By default 0, infinity and a half.
SLOPE_AT_KINK = "slope_at_kink"

#: The gradient of the result; what the function was given or returned; its other operand.
_G, _X, _Y = operand(0), operand(1), operand(2)

Gradients = Sequence[Value | None]


def _where(condition: Expression, value: Expression) -> Expression:
    return call("select", value, 0.0, condition)


#: Functions whose gradient the library has a vertex for; it takes the result.
_OF_LIBRARY = frozenset({"relu", "sigmoid", "tanh"})


def _evaluate(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    act, gradient = (a.astype(np.float64) for a in arrays)
    kind = node.attributes["kind"]
    return [np.asarray(_SLOPES[kind](act) * gradient).astype(arrays[0].dtype)]


def _normal(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))


def _gelu_slope(x: NDArray[Any]) -> NDArray[Any]:
    factor = math.sqrt(2 / math.pi)
    t = np.tanh(factor * (x + 0.044715 * x**3))
    return np.asarray((1 + t) / 2 + x / 2 * (1 - t**2) * factor * (1 + 3 * 0.044715 * x**2))


def _gelu_erf_slope(x: NDArray[Any]) -> NDArray[Any]:
    from scipy import special  # heavy, and few models have constants of it

    return np.asarray(special.ndtr(x) + x * _normal(x))


def _swish_slope(x: NDArray[Any]) -> NDArray[Any]:
    s = 1 / (1 + np.exp(-x))
    return np.asarray(s * (1 + x * (1 - s)))


#: Slopes in numpy, by what the library takes: the result of the first three, else the operand.
_SLOPES: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "relu": lambda y: np.asarray(y > 0, np.float64),
    "sigmoid": lambda y: y * (1 - y),
    "tanh": lambda y: 1 - y**2,
    "gelu": _gelu_slope,
    "gelu_erf": _gelu_erf_slope,
    "hard_sigmoid": lambda x: np.where(np.abs(x) <= 2.5, 0.2, 0.0),
    "hard_swish": lambda x: np.where(x >= 3, 1.0, np.where(x <= -3, 0.0, x / 3 + 0.5)),
    "swish": _swish_slope,
}


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    act, gradient = (lowering.tensor(value) for value in op.operands)
    return non_linearity_input_gradient(lowering.builder, op.attributes["kind"], act, gradient)


#: The gradient of a non-linearity, from its result or operand and the gradient of its result.
NON_LINEARITY_GRADIENT = Operator(
    name="non_linearity_gradient",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=_evaluate,
    lower=_lower,
    parts=broadcast,
)


def non_linearity_gradient(op: Operation, expansion: Expansion, gradients: Gradients) -> Gradients:
    """Return the gradient of the operand of a non-linearity."""
    kind, gradient = op.attributes["kind"], full(expansion, gradients[0], op.output.shape)
    return [expansion.emit(NON_LINEARITY_GRADIENT, op.operand(0), gradient, kind=kind)]


def unary_gradient(op: Operation, expansion: Expansion, gradients: Gradients) -> Gradients:
    """Return the gradient of a function of one operand; None where it is zero everywhere."""
    (gradient,), function = gradients, op.attributes["function"]
    assert gradient is not None
    if SLOPE_AT_KINK in op.attributes:
        return [_with_kink(op, expansion, gradient, op.attributes[SLOPE_AT_KINK])]
    if function in _OF_LIBRARY:
        wide = full(expansion, gradient, op.output.shape)
        return [expansion.emit(NON_LINEARITY_GRADIENT, op.output, wide, kind=function)]
    if function == "negate":
        return [mapped(expansion, -_G, gradient)]
    if function in OF_RESULT:
        return [mapped(expansion, OF_RESULT[function], gradient, op.output)]
    if function in OF_OPERAND:
        return [mapped(expansion, OF_OPERAND[function], gradient, op.operand(0))]
    return [None]  # steps, and functions that return bools or take integers


def _with_kink(op: Operation, expansion: Expansion, gradient: Value, slope: float) -> Value:
    """Return the gradient of a relu or a root, with a slope where the operand is 0."""
    slopes = {"relu": _where(call("greater", _X, 0.0), _G), "sqrt": 0.5 * _G / call("sqrt", _X)}
    beside = slopes[op.attributes["function"]]
    at_kink = call("select", slope * _G, beside, call("equal", _X, 0.0))
    return mapped(expansion, at_kink, gradient, op.operand(0))


_Rule = Callable[[Operation, Expansion, Value], Gradients]


def _add(_op: Operation, _: Expansion, gradient: Value) -> Gradients:
    return gradient, gradient


def _subtract(_op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
    return gradient, mapped(expansion, -_G, gradient)


def _multiply(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
    a, b = op.operands
    return mapped(expansion, _G * _X, gradient, b), mapped(expansion, _G * _X, gradient, a)


def _divide(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
    a, b = op.operands
    of_b = mapped(expansion, -(_G * _X / (_Y * _Y)), gradient, a, b)
    return mapped(expansion, _G / _X, gradient, b), of_b


def _atan2(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
    """Return the gradients of the angle of a point, of its height and its width; 0 at 0."""
    a, b = op.operands
    square = _X * _X + _Y * _Y
    is_angle = call("not_equal", square, 0.0)
    return (
        mapped(expansion, _where(is_angle, _G * _Y / square), gradient, a, b),
        mapped(expansion, _where(is_angle, -(_G * _X / square)), gradient, a, b),
    )


def _extreme(comparison: str) -> _Rule:
    """Return the rule of a maximum or minimum: equal operands share the gradient."""

    def rule(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
        a, b = op.operands
        of_first = float(op.attributes.get(SLOPE_AT_KINK, 0.5))

        def of(x: Value, other: Value, at_tie: float) -> Value:
            tie = _where(call("equal", _X, _Y), at_tie * _G)
            share = call("select", _G, tie, call(comparison, _X, _Y))
            return mapped(expansion, share, gradient, x, other)

        return of(a, b, of_first), of(b, a, 1 - of_first)

    return rule


def _power(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
    """Return the gradients of a power; an exponent of 0 gives 0.

    That of the exponent is no number where the base has no logarithm, and 0 at a base of 0 whose
    power is 0 or 1.
    """
    a, b = op.operands
    slope = _G * _Y * call("power", _X, _Y - 1.0)
    of_a = mapped(expansion, _where(call("not_equal", _Y, 0.0), slope), gradient, a, b)
    if b.known is not None:
        return of_a, None
    growth = _G * call("power", _X, _Y) * call("log", _X)
    at_zero = call("select", 0.0, growth, call("greater_equal", _Y, 0.0))
    is_zero = call("equal", _X, 0.0)
    of_b = mapped(expansion, call("select", at_zero, growth, is_zero), gradient, a, b)
    return of_a, of_b


def _remainder(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
    """Return the gradients of a − b · trunc(a / b)."""
    a, b = op.operands
    whole = (_X - call("remainder", _X, _Y)) / _Y
    return gradient, mapped(expansion, -(_G * whole), gradient, a, b)


_OF_TWO: Mapping[str, _Rule] = {
    "add": _add,
    "atan2": _atan2,
    "divide": _divide,
    "maximum": _extreme("greater"),
    "minimum": _extreme("less"),
    "multiply": _multiply,
    "power": _power,
    "remainder": _remainder,
    "subtract": _subtract,
}


def binary_gradient(op: Operation, expansion: Expansion, gradients: Gradients) -> Gradients:
    """Return the gradients of a function of two operands, in the shape of the result."""
    (gradient,), function = gradients, op.attributes["function"]
    assert gradient is not None
    rule = _OF_TWO.get(function)
    if rule is None:
        return None, None
    if any(value.shape != op.output.shape for value in op.operands):
        gradient = full(expansion, gradient, op.output.shape)  # to be summed where it was broadcast
    return rule(op, expansion, gradient)


RECORDS = (NON_LINEARITY_GRADIENT,)
