"""Gradients of elementwise functions: one expression each, over the gradient and operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tilescope.engine.ir import Expansion, Operation, Value
from tilescope.engine.operators.elementwise.mapped import Expression, call, mapped, operand
from tilescope.engine.operators.movement.layout import full

__all__ = ["binary_gradient", "unary_gradient"]

#: The gradient of the result; what the function was given or returned; its other operand.
_G, _X, _Y = operand(0), operand(1), operand(2)

Gradients = Sequence[Value | None]


def _where(condition: Expression, value: Expression) -> Expression:
    return call("select", value, 0.0, condition)


#: Functions whose gradient is one of the result.
_OF_RESULT: Mapping[str, Expression] = {
    "exp": _G * _X,
    "expm1": _G * (_X + 1.0),
    "inverse": -(_G * _X * _X),
    "relu": _where(call("greater", _X, 0.0), _G),
    "sigmoid": _G * _X * (1.0 - _X),
    "sqrt": 0.5 * _G / _X,
    "tan": _G * (1.0 + _X * _X),
    "tanh": _G * (1.0 - _X * _X),
}

#: Functions whose gradient is one of the operand. That of ``absolute`` at 0 is 0.
_OF_OPERAND: Mapping[str, Expression] = {
    "absolute": _G * call("sign", _X),
    "asin": _G / call("sqrt", 1.0 - _X * _X),
    "atan": _G / (1.0 + _X * _X),
    "cos": -(_G * call("sin", _X)),
    "erf": 2 / math.sqrt(math.pi) * _G * call("exp", -(_X * _X)),
    "log": _G / _X,
    "log1p": _G / (1.0 + _X),
    "sin": _G * call("cos", _X),
    "square": 2.0 * _G * _X,
}


def unary_gradient(op: Operation, expansion: Expansion, gradients: Gradients) -> Gradients:
    """Return the gradient of a function of one operand; None where it is zero everywhere."""
    (gradient,), function = gradients, op.attributes["function"]
    assert gradient is not None
    if function == "negate":
        return [mapped(expansion, -_G, gradient)]
    if function in _OF_RESULT:
        return [mapped(expansion, _OF_RESULT[function], gradient, op.output)]
    if function in _OF_OPERAND:
        return [mapped(expansion, _OF_OPERAND[function], gradient, op.operand(0))]
    return [None]  # steps, and functions that return bools or take integers


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


def _extreme(comparison: str) -> _Rule:
    """Return the rule of a maximum or minimum: equal operands share the gradient evenly."""

    def rule(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
        a, b = op.operands
        half = _where(call("equal", _X, _Y), 0.5 * _G)
        share = call("select", _G, half, call(comparison, _X, _Y))
        return mapped(expansion, share, gradient, a, b), mapped(expansion, share, gradient, b, a)

    return rule


def _power(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
    """Return the gradients of a power; an exponent of 0 gives 0, as a base of 0 its exponent."""
    a, b = op.operands
    slope = _G * _Y * call("power", _X, _Y - 1.0)
    of_a = mapped(expansion, _where(call("not_equal", _Y, 0.0), slope), gradient, a, b)
    if b.known is not None:
        return of_a, None
    growth = _G * call("power", _X, _Y) * call("log", _X)
    of_b = mapped(expansion, _where(call("greater", _X, 0.0), growth), gradient, a, b)
    return of_a, of_b


def _remainder(op: Operation, expansion: Expansion, gradient: Value) -> Gradients:
    """Return the gradients of a − b · trunc(a / b)."""
    a, b = op.operands
    whole = (_X - call("remainder", _X, _Y)) / _Y
    return gradient, mapped(expansion, -(_G * whole), gradient, a, b)


_OF_TWO: Mapping[str, _Rule] = {
    "add": _add,
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
