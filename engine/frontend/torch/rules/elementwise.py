"""Elementwise functions, comparisons, choices and changes of type."""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.frontend.torch.promotion import promoted
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _unary(key: str) -> Rule:
    """Return the rule of a function of one operand, which has the type of the result."""

    def rule(emit: Emission, x: Value, *_: Any, **__: Any) -> Value:
        return emit(key, emit.cast(x, emit.dtype))

    return rule


def _same(emit: Emission, x: Value, *_: Any, **__: Any) -> Value:
    """Return an operand as it is: on the machine there are neither layouts nor aliases."""
    return x


def _rounding(key: str) -> Rule:
    def rule(emit: Emission, x: Value) -> Value:
        return emit(key, x) if x.dtype.startswith("float") else x

    return rule


def _round(emit: Emission, x: Value, *, decimals: int = 0) -> Value:
    if not x.dtype.startswith("float"):
        return x
    factor = 10.0**decimals
    return emit.scaled(emit("Round", emit.scaled(x, factor)), 1 / factor)


def _trunc(emit: Emission, x: Value) -> Value:
    if not x.dtype.startswith("float"):
        return x
    return emit("Mul", emit("Sign", x), emit("Floor", emit("Abs", x)))


def _frac(emit: Emission, x: Value) -> Value:
    return emit("Sub", x, _trunc(emit, x))


def _test(key: str, *, is_false: bool = True) -> Rule:
    """Return the rule of a test of floats, with one answer for all integers."""

    def rule(emit: Emission, x: Value) -> Value:
        if not x.dtype.startswith("float"):
            return emit.constant(np.full(x.shape, not is_false))
        return emit(key, x)

    return rule


def _isfinite(emit: Emission, x: Value) -> Value:
    if not x.dtype.startswith("float"):
        return emit.constant(np.ones(x.shape, bool))
    return emit("Not", emit("Or", emit("IsNaN", x), emit("IsInf", x)))


def _log_to(base: float) -> Rule:
    def rule(emit: Emission, x: Value) -> Value:
        return emit.scaled(emit("Log", emit.cast(x, emit.dtype)), 1 / log(base))

    return rule


def _exp2(emit: Emission, x: Value) -> Value:
    return emit("Exp", emit.scaled(emit.cast(x, emit.dtype), log(2)))


def _rsqrt(emit: Emission, x: Value) -> Value:
    return emit("Reciprocal", emit("Sqrt", emit.cast(x, emit.dtype)))


def _reciprocal(emit: Emission, x: Value) -> Value:
    return emit("Reciprocal", emit.cast(x, emit.dtype))


def _erfc(emit: Emission, x: Value) -> Value:
    x = emit.cast(x, emit.dtype)
    return emit("Sub", emit.constant(1, x.dtype), emit("Erf", x))


def _square(emit: Emission, x: Value) -> Value:
    return emit("Mul", x, x)


def _neg(emit: Emission, x: Value) -> Value:
    return emit("Neg", x)


def _bitwise_not(emit: Emission, x: Value) -> Value:
    return emit("Not" if x.dtype == "bool" else "BitwiseNot", x)


def _logical_not(emit: Emission, x: Value) -> Value:
    return emit("Not", emit.cast(x, "bool"))


def _sigmoid(emit: Emission, x: Value) -> Value:
    return emit("Sigmoid", emit.cast(x, emit.dtype))


def _deg(factor: float) -> Rule:
    def rule(emit: Emission, x: Value) -> Value:
        return emit.scaled(emit.cast(x, emit.dtype), factor)

    return rule


def _pair(emit: Emission, a: Any, b: Any) -> tuple[Value, Value]:
    """Return two operands in the type of the result."""
    return emit.value(a, emit.dtype), emit.value(b, emit.dtype)


def _binary(key: str) -> Rule:
    def rule(emit: Emission, a: Any, b: Any, *_: Any, **__: Any) -> Value:
        return emit(key, *_pair(emit, a, b))

    return rule


def _scaled_operand(emit: Emission, b: Any, alpha: Any) -> Any:
    if alpha == 1:
        return b
    if not isinstance(b, Value):
        return b * alpha
    b = emit.cast(b, emit.dtype)
    return emit("Mul", b, emit.constant(alpha, b.dtype))


def _add(emit: Emission, a: Any, b: Any, *, alpha: Any = 1) -> Value:
    if emit.dtype == "bool":
        return emit("Or", *_pair(emit, a, b))
    return emit("Add", *_pair(emit, a, _scaled_operand(emit, b, alpha)))


def _add_scalar(emit: Emission, a: Any, b: Any, alpha: Any = 1) -> Value:
    return _add(emit, a, b, alpha=alpha)


def _sub(emit: Emission, a: Any, b: Any, *, alpha: Any = 1) -> Value:
    return emit("Sub", *_pair(emit, a, _scaled_operand(emit, b, alpha)))


def _sub_scalar(emit: Emission, a: Any, b: Any, alpha: Any = 1) -> Value:
    return _sub(emit, a, b, alpha=alpha)


def _rsub(emit: Emission, a: Any, b: Any, alpha: Any = 1, **options: Any) -> Value:
    return _sub(emit, b, a, alpha=options.get("alpha", alpha))


def _mul(emit: Emission, a: Any, b: Any) -> Value:
    return emit("And" if emit.dtype == "bool" else "Mul", *_pair(emit, a, b))


def _div(emit: Emission, a: Any, b: Any, *, rounding_mode: str | None = None) -> Value:
    a, b = _pair(emit, a, b)
    is_whole = not emit.dtype.startswith("float")
    if rounding_mode is None or (rounding_mode == "trunc" and is_whole):
        return emit("Div", a, b)
    if rounding_mode == "trunc":
        return _trunc(emit, emit("Div", a, b))
    if not is_whole:
        return emit("Floor", emit("Div", a, b))
    rest = emit("Mod", a, b, fmod=0)  # of the sign of the divisor
    return emit("Div", emit("Sub", a, rest), b)


def _floor_divide(emit: Emission, a: Any, b: Any) -> Value:
    return _div(emit, a, b, rounding_mode="floor")


def _remainder(emit: Emission, a: Any, b: Any) -> Value:
    a, b = _pair(emit, a, b)
    if emit.dtype.startswith("float"):
        return emit("Sub", a, emit("Mul", emit("Floor", emit("Div", a, b)), b))
    return emit("Mod", a, b, fmod=0)


def _fmod(emit: Emission, a: Any, b: Any) -> Value:
    return emit("Mod", *_pair(emit, a, b), fmod=1)


def _pow(emit: Emission, a: Any, b: Any) -> Value:
    base = emit.value(a, emit.dtype)
    if not isinstance(b, Value) and b == 2:
        return emit("Mul", base, base)
    if not isinstance(b, Value) and b == 1:
        return base
    if not isinstance(b, Value) and b == 0.5:
        return emit("Sqrt", base)
    return emit("Pow", base, emit.value(b, emit.dtype))


def _float_power(emit: Emission, a: Any, b: Any) -> Value:
    return emit("Pow", *_pair(emit, a, b))


def _compare(key: str) -> Rule:
    def rule(emit: Emission, a: Any, b: Any) -> Value:
        dtype = promoted([a, b])
        a, b = emit.value(a, dtype), emit.value(b, dtype)
        if key == "NotEqual":
            return emit("Not", emit("Equal", a, b))
        if dtype == "bool" and key != "Equal":
            a, b = emit.cast(a, "int32"), emit.cast(b, "int32")
        return emit(key, a, b)

    return rule


def _logical(key: str) -> Rule:
    def rule(emit: Emission, a: Any, b: Any) -> Value:
        return emit(key, emit.value(a, "bool"), emit.value(b, "bool"))

    return rule


def _bitwise(key: str, of_bool: str) -> Rule:
    def rule(emit: Emission, a: Any, b: Any) -> Value:
        return emit(of_bool if emit.dtype == "bool" else key, *_pair(emit, a, b))

    return rule


def _shift(direction: str) -> Rule:
    def rule(emit: Emission, a: Any, b: Any) -> Value:
        a, b = _pair(emit, a, b)
        power = emit("Pow", emit.constant(2, emit.dtype), b)
        if direction == "LEFT":
            return emit("Mul", a, power)
        rest = emit("Mod", a, power, fmod=0)
        return emit("Div", emit("Sub", a, rest), power)

    return rule


def _addcmul(emit: Emission, x: Value, a: Value, b: Value, *, value: Any = 1) -> Value:
    product = emit("Mul", *_pair(emit, a, b))
    return emit("Add", emit.cast(x, emit.dtype), emit.scaled(product, value))


def _addcdiv(emit: Emission, x: Value, a: Value, b: Value, *, value: Any = 1) -> Value:
    quotient = emit("Div", *_pair(emit, a, b))
    return emit("Add", emit.cast(x, emit.dtype), emit.scaled(quotient, value))


def _lerp(emit: Emission, a: Value, b: Value, weight: Any) -> Value:
    step = emit("Mul", emit("Sub", b, a), emit.value(weight, emit.dtype))
    return emit("Add", a, step)


def _clamp(emit: Emission, x: Value, low: Any = None, high: Any = None) -> Value:
    x = emit.cast(x, emit.dtype)
    bounds = [bound for bound in (low, high) if isinstance(bound, Value) and bound.shape]
    if not bounds:
        low, high = (None if b is None else emit.value(b, emit.dtype) for b in (low, high))
        return emit("Clip", x, low, high)
    if low is not None:
        x = emit("Max", x, emit.value(low, emit.dtype))
    return x if high is None else emit("Min", x, emit.value(high, emit.dtype))


def _clamp_max(emit: Emission, x: Value, high: Any) -> Value:
    return _clamp(emit, x, None, high)


def _where(emit: Emission, condition: Value, a: Any, b: Any) -> Value:
    return emit("Where", emit.cast(condition, "bool"), *_pair(emit, a, b))


def _masked_fill(emit: Emission, x: Value, mask: Value, value: Any) -> Value:
    return emit("Where", mask, emit.value(value, x.dtype), x)


def _to(emit: Emission, x: Value, *_: Any, **__: Any) -> Value:
    if emit.dtype.startswith(("int", "uint")) and x.dtype.startswith("float"):
        x = _trunc(emit, x)
    return emit.cast(x, emit.dtype)


def _detach(emit: Emission, x: Value, *_: Any, **__: Any) -> Value:
    return x if x.known is not None else emit("ai.graphcore.Detach", x)


def _nan_to_num(emit: Emission, x: Value, nan: Any, most: Any, least: Any) -> Value:
    if not x.dtype.startswith("float"):
        return x
    limits = np.finfo(x.dtype)
    low = limits.min if least is None else least
    high = limits.max if most is None else most
    number = emit("Where", emit("IsNaN", x), emit.constant(nan or 0.0, x.dtype), x)
    return emit("Clip", number, emit.constant(low, x.dtype), emit.constant(high, x.dtype))


def _xlogy(emit: Emission, a: Any, b: Any) -> Value:
    a, b = _pair(emit, a, b)
    zero = emit.constant(0, emit.dtype)
    safe = emit("Where", emit("Equal", a, zero), emit.constant(1, emit.dtype), b)
    return emit("Mul", a, emit("Log", safe))


def _hypot(emit: Emission, a: Value, b: Value) -> Value:
    a, b = _pair(emit, a, b)
    return emit("Sqrt", emit("Add", emit("Mul", a, a), emit("Mul", b, b)))


def _number_of_two(key: str) -> Rule:
    """Return the rule of a maximum or minimum that prefers a number to none."""

    def rule(emit: Emission, a: Value, b: Value) -> Value:
        a, b = _pair(emit, a, b)
        if not emit.dtype.startswith("float"):
            return emit(key, a, b)
        is_first = emit("GreaterOrEqual" if key == "Max" else "LessOrEqual", a, b)
        return emit("Where", emit("Or", is_first, emit("IsNaN", b)), a, b)

    return rule


def _logaddexp(emit: Emission, a: Value, b: Value) -> Value:
    a, b = _pair(emit, a, b)
    apart = emit("Neg", emit("Abs", emit("Sub", a, b)))
    return emit("Add", emit("Max", a, b), emit("ai.graphcore.Log1p", emit("Exp", apart)))


_UNARY = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "expm1": "ai.graphcore.Expm1",
    "log": "Log",
    "log1p": "ai.graphcore.Log1p",
    "sgn": "Sign",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}

RULES: Rules = {
    **{f"aten.{name}": _unary(key) for name, key in _UNARY.items()},
    "aten.__and__": _bitwise("BitwiseAnd", "And"),
    "aten.__or__": _bitwise("BitwiseOr", "Or"),
    "aten.__xor__": _bitwise("BitwiseXor", "Xor"),
    "aten._to_copy": _to,
    "aten.add": _add,
    "aten.add.Scalar": _add_scalar,
    "aten.addcdiv": _addcdiv,
    "aten.addcmul": _addcmul,
    "aten.alias": _same,
    "aten.atan2": _binary("ai.graphcore.Atan2"),
    "aten.bitwise_and": _bitwise("BitwiseAnd", "And"),
    "aten.bitwise_left_shift": _shift("LEFT"),
    "aten.bitwise_not": _bitwise_not,
    "aten.bitwise_or": _bitwise("BitwiseOr", "Or"),
    "aten.bitwise_right_shift": _shift("RIGHT"),
    "aten.bitwise_xor": _bitwise("BitwiseXor", "Xor"),
    "aten.ceil": _rounding("Ceil"),
    "aten.clamp": _clamp,
    "aten.clamp_max": _clamp_max,
    "aten.clamp_min": _clamp,
    "aten.clip": _clamp,
    "aten.clone": _same,
    "aten.contiguous": _same,
    "aten.deg2rad": _deg(pi / 180),
    "aten.detach": _detach,
    "aten.div": _div,
    "aten.divide": _div,
    "aten.eq": _compare("Equal"),
    "aten.erfc": _erfc,
    "aten.exp2": _exp2,
    "aten.float_power": _float_power,
    "aten.floor": _rounding("Floor"),
    "aten.floor_divide": _floor_divide,
    "aten.fmod": _fmod,
    "aten.frac": _frac,
    "aten.fmax": _number_of_two("Max"),
    "aten.fmin": _number_of_two("Min"),
    "aten.hypot": _hypot,
    "aten.ge": _compare("GreaterOrEqual"),
    "aten.gt": _compare("Greater"),
    "aten.isfinite": _isfinite,
    "aten.isinf": _test("IsInf"),
    "aten.isnan": _test("IsNaN"),
    "aten.le": _compare("LessOrEqual"),
    "aten.lerp": _lerp,
    "aten.lift_fresh_copy": _same,
    "aten.log10": _log_to(10),
    "aten.log2": _log_to(2),
    "aten.logaddexp": _logaddexp,
    "aten.logical_and": _logical("And"),
    "aten.logical_not": _logical_not,
    "aten.logical_or": _logical("Or"),
    "aten.logical_xor": _logical("Xor"),
    "aten.lt": _compare("Less"),
    "aten.masked_fill": _masked_fill,
    "aten.maximum": _binary("Max"),
    "aten.minimum": _binary("Min"),
    "aten.mul": _mul,
    "aten.multiply": _mul,
    "aten.nan_to_num": _nan_to_num,
    "aten.ne": _compare("NotEqual"),
    "aten.neg": _neg,
    "aten.positive": _same,
    "aten.pow": _pow,
    "aten.rad2deg": _deg(180 / pi),
    "aten.reciprocal": _reciprocal,
    "aten.remainder": _remainder,
    "aten.round": _round,
    "aten.rsqrt": _rsqrt,
    "aten.rsub": _rsub,
    "aten.sigmoid": _sigmoid,
    "aten.square": _square,
    "aten.sub": _sub,
    "aten.sub.Scalar": _sub_scalar,
    "aten.to": _to,
    "aten.true_divide": _div,
    "aten.trunc": _trunc,
    "aten.type_as": _to,
    "aten.where": _where,
    "aten.xlogy": _xlogy,
}
