"""Derivatives of elementwise expressions, as expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tilescope.engine.codelets.popops.elementwise.expression import Expression, call, operand
from tilescope.engine.errors import BadGraph

__all__ = ["OF_OPERAND", "OF_RESULT", "derivative", "substituted"]

#: The gradient of the result of a function; what it was given or returned.
_G, _X = operand(0), operand(1)


def _where(condition: Expression, value: Expression) -> Expression:
    return call("select", value, 0.0, condition)


#: Functions of one operand whose gradient is one of the result: operand 0 is the gradient of the
#: result, operand 1 the result.
OF_RESULT: Mapping[str, Expression] = {
    "exp": _G * _X,
    "expm1": _G * (_X + 1.0),
    "inverse": -(_G * _X * _X),
    "sqrt": 0.5 * _G / _X,
    "tan": _G * (1.0 + _X * _X),
}
#: Functions whose gradient is one of the operand, which is operand 1. That of ``absolute`` at 0 is
#: 0.
OF_OPERAND: Mapping[str, Expression] = {
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
#: As `OF_RESULT`, of functions that have vertices for their gradients.
_OF_RESULT_TOO: Mapping[str, Expression] = {
    "relu": _where(call("greater", _X, 0.0), _G),
    "rsqrt": -0.5 * _G * _X * _X * _X,
    "sigmoid": _G * _X * (1.0 - _X),
    "tanh": _G * (1.0 - _X * _X),
}
#: Functions of one operand that are flat between steps, or no numbers.
_FLAT = frozenset(
    {
        *("ceil", "floor", "nearby_int", "round", "sign", "trunc"),
        *("is_finite", "is_inf", "is_nan", "logical_not"),
    }
)
#: Functions of two operands that return bools.
_COMPARISONS = frozenset(
    {
        *("equal", "greater", "greater_equal", "less", "less_equal", "not_equal"),
        *("logical_and", "logical_or"),
    }
)

Parts = tuple[Expression, ...]
_Rule = Callable[[Expression, Parts], Sequence[Expression | None]]


def substituted(expression: Expression, parts: Sequence[Expression]) -> Expression:
    """Return an expression with others in place of its operands, by position."""
    if expression.is_operand:
        return parts[expression.index]
    if not expression.function:
        return expression
    return call(expression.function, *(substituted(part, parts) for part in expression.parts))


def derivative(expression: Expression, index: int, gradient: Expression) -> Expression | None:
    """Return the gradient of an operand of an expression.

    Parameters
    ----------
    expression
        What is differentiated.
    index
        Position of the operand.
    gradient
        The gradient of the result, as an expression.

    Returns
    -------
    Expression
        None if it is 0 everywhere.

    Raises
    ------
    BadGraph
        If a function of it has no derivative here.
    """
    if expression.is_operand:
        return gradient if expression.index == index else None
    if not any(node.is_operand and node.index == index for node in expression.nodes()):
        return None
    total: Expression | None = None
    for part, of_part in zip(expression.parts, _of_parts(expression, gradient), strict=True):
        if of_part is None:
            continue
        found = derivative(part, index, of_part)
        if found is not None:
            total = found if total is None else total + found
    return total


def _of_parts(expression: Expression, gradient: Expression) -> Sequence[Expression | None]:
    """Return the gradients of the operands of a function."""
    function, parts = expression.function, expression.parts
    if function in _FLAT or function in _COMPARISONS:
        return [None] * len(parts)
    if function == "negate":
        return [-gradient]
    for table, given in ((OF_RESULT, expression), (_OF_RESULT_TOO, expression)):
        if function in table:
            return [substituted(table[function], [gradient, given])]
    if function in OF_OPERAND:
        return [substituted(OF_OPERAND[function], [gradient, parts[0]])]
    if function in _OF_SEVERAL:
        return _OF_SEVERAL[function](gradient, parts)
    raise BadGraph(f"The function {function!r} of an expression has no derivative")


def _divide(gradient: Expression, parts: Parts) -> Sequence[Expression | None]:
    a, b = parts
    return [gradient / b, -(gradient * a / (b * b))]


def _extreme(comparison: str) -> _Rule:
    """Return the rule of a maximum or minimum: equal operands share the gradient."""

    def rule(gradient: Expression, parts: Parts) -> Sequence[Expression | None]:
        a, b = parts
        tie = _where(call("equal", a, b), 0.5 * gradient)
        return [call("select", gradient, tie, call(comparison, *pair)) for pair in ((a, b), (b, a))]

    return rule


def _power(gradient: Expression, parts: Parts) -> Sequence[Expression | None]:
    base, exponent = parts
    of_base = gradient * exponent * call("power", base, exponent - 1.0)
    growth = gradient * call("power", base, exponent) * call("log", base)
    return [
        _where(call("not_equal", exponent, 0.0), of_base),
        _where(call("greater", base, 0.0), growth),
    ]


def _select(gradient: Expression, parts: Parts) -> Sequence[Expression | None]:
    condition = parts[2]
    other = call("select", 0.0, gradient, condition)
    return [_where(condition, gradient), other, None]


def _clamp(gradient: Expression, parts: Parts) -> Sequence[Expression | None]:
    x, low, high = parts
    is_inside = call("logical_and", call("greater_equal", x, low), call("less_equal", x, high))
    return [
        _where(is_inside, gradient),
        _where(call("less", x, low), gradient),
        _where(call("greater", x, high), gradient),
    ]


#: Rules of functions of several operands.
_OF_SEVERAL: Mapping[str, _Rule] = {
    "add": lambda gradient, _: [gradient, gradient],
    "clamp": _clamp,
    "divide": _divide,
    "maximum": _extreme("greater"),
    "minimum": _extreme("less"),
    "multiply": lambda gradient, parts: [gradient * parts[1], gradient * parts[0]],
    "power": _power,
    "select": _select,
    "subtract": lambda gradient, _: [gradient, -gradient],
}
