"""What elementwise vertices compute of an element, or of two: kernels by name of the function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilescope.engine.jit._jit import jit

__all__ = ["BINARY_FUNCTIONS", "TO_BOOL", "UNARY_FUNCTIONS"]


@jit
def _relu(x: Any) -> Any:
    return x if x > 0 or x != x else np.float32(0)  # a NaN stays one


@jit
def _sigmoid(x: Any) -> Any:
    one = np.float32(1)
    if x >= 0:
        return one / (one + np.exp(-x))
    e = np.exp(x)
    return e / (one + e)


@jit
def _tanh(x: float) -> Any:
    return np.tanh(x)


@jit
def _exp(x: float) -> Any:
    return np.exp(x)


@jit
def _log(x: float) -> Any:
    return np.log(x)


@jit
def _sqrt(x: float) -> Any:
    return np.sqrt(x)


@jit
def _inverse(x: float) -> Any:
    return np.float32(1) / x


@jit
def _negate(x: float) -> float:
    return -x


@jit
def _absolute(x: float) -> float:
    return abs(x)


@jit
def _square(x: float) -> float:
    return x * x


@jit
def _erf(x: float) -> Any:
    return math.erf(x)


@jit
def _sign(x: Any) -> Any:
    return (x > 0) - (x < 0) if x == x else x


@jit
def _ceil(x: float) -> Any:
    return np.ceil(x)


@jit
def _floor(x: float) -> Any:
    return np.floor(x)


@jit
def _trunc(x: float) -> Any:
    return np.trunc(x)


@jit
def _nearby_int(x: float) -> Any:
    return np.rint(x)  # halves to even


@jit
def _round(x: Any) -> Any:
    # Halves away from zero; adding a half first would round twice, just below it.
    whole = np.trunc(x)
    return whole + np.copysign(np.float32(1), x) if abs(x - whole) >= np.float32(0.5) else whole


@jit
def _sin(x: float) -> Any:
    return np.sin(x)


@jit
def _cos(x: float) -> Any:
    return np.cos(x)


@jit
def _tan(x: float) -> Any:
    return np.tan(x)


@jit
def _asin(x: float) -> Any:
    return np.arcsin(x)


@jit
def _atan(x: float) -> Any:
    return np.arctan(x)


@jit
def _rsqrt(x: float) -> Any:
    # In double: of floats, compilers make an estimate that gives NaN for zero and infinity.
    return 1 / np.sqrt(np.float64(x))


@jit
def _cbrt(x: float) -> Any:
    return np.cbrt(x)


@jit
def _exp2(x: float) -> Any:
    return np.exp2(x)


@jit
def _expm1(x: float) -> Any:
    return np.expm1(x)


@jit
def _log1p(x: float) -> Any:
    return np.log1p(x)


@jit
def _gelu_erf(x: Any) -> Any:
    half, root = np.float32(0.5), np.float32(math.sqrt(0.5))
    return half * x * (np.float32(1) + math.erf(x * root))


@jit
def _bitwise_not(x: Any) -> Any:
    return ~x


@jit
def _logical_not(x: Any) -> Any:
    return x == 0


@jit
def _is_nan(x: Any) -> Any:
    return x != x


@jit
def _is_inf(x: Any) -> Any:
    return np.isinf(x)


@jit
def _is_finite(x: Any) -> Any:
    return np.isfinite(x)


@jit
def _add(a: float, b: float) -> float:
    return a + b


@jit
def _subtract(a: float, b: float) -> float:
    return a - b


@jit
def _multiply(a: float, b: float) -> float:
    return a * b


@jit
def _divide(a: float, b: float) -> float:
    return a / b


@jit
def _maximum(a: float, b: float) -> float:
    return a if a > b or a != a else b


@jit
def _minimum(a: float, b: float) -> float:
    return a if a < b or a != a else b


@jit
def _power(a: float, b: float) -> Any:
    return a**b


@jit
def _remainder(a: Any, b: Any) -> Any:
    # Of the sign of the dividend, as in C; fmod is wrong for whole numbers below zero in numba.
    # Made wide first: the least whole number has no absolute value in 32 bits.
    rest = abs(a * np.int64(1)) % abs(b * np.int64(1))
    return -rest if a < 0 else rest


@jit
def _atan2(a: float, b: float) -> Any:
    return np.arctan2(a, b)


@jit
def _bitwise_and(a: Any, b: Any) -> Any:
    return a & b


@jit
def _bitwise_or(a: Any, b: Any) -> Any:
    return a | b


@jit
def _bitwise_xor(a: Any, b: Any) -> Any:
    return a ^ b


@jit
def _shift_left(a: Any, b: Any) -> Any:
    # Assumption: all bits are gone beyond 31; a processor's own shift takes the count's last bits.
    return a << b if 0 <= b < 32 else 0


@jit
def _shift_right_sign_extend(a: Any, b: Any) -> Any:
    return a >> (b if 0 <= b < 32 else 31)


@jit
def _equal(a: Any, b: Any) -> Any:
    return a == b


@jit
def _not_equal(a: Any, b: Any) -> Any:
    return a != b


@jit
def _less(a: Any, b: Any) -> Any:
    return a < b


@jit
def _less_equal(a: Any, b: Any) -> Any:
    return a <= b


@jit
def _greater(a: Any, b: Any) -> Any:
    return a > b


@jit
def _greater_equal(a: Any, b: Any) -> Any:
    return a >= b


@jit
def _logical_and(a: Any, b: Any) -> Any:
    return (a != 0) & (b != 0)


@jit
def _logical_or(a: Any, b: Any) -> Any:
    return (a != 0) | (b != 0)


UNARY_FUNCTIONS = {
    "relu": _relu,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "inverse": _inverse,
    "negate": _negate,
    "absolute": _absolute,
    "square": _square,
    "erf": _erf,
    "sign": _sign,
    "ceil": _ceil,
    "floor": _floor,
    "trunc": _trunc,
    "nearby_int": _nearby_int,
    "round": _round,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "asin": _asin,
    "atan": _atan,
    "rsqrt": _rsqrt,
    "cbrt": _cbrt,
    "exp2": _exp2,
    "expm1": _expm1,
    "log1p": _log1p,
    "gelu_erf": _gelu_erf,
    "bitwise_not": _bitwise_not,
    "logical_not": _logical_not,
    "is_nan": _is_nan,
    "is_inf": _is_inf,
    "is_finite": _is_finite,
}
BINARY_FUNCTIONS = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "maximum": _maximum,
    "minimum": _minimum,
    "power": _power,
    "remainder": _remainder,
    "atan2": _atan2,
    "bitwise_and": _bitwise_and,
    "bitwise_or": _bitwise_or,
    "bitwise_xor": _bitwise_xor,
    "shift_left": _shift_left,
    "shift_right_sign_extend": _shift_right_sign_extend,
    "equal": _equal,
    "not_equal": _not_equal,
    "less": _less,
    "less_equal": _less_equal,
    "greater": _greater,
    "greater_equal": _greater_equal,
    "logical_and": _logical_and,
    "logical_or": _logical_or,
}

#: Functions whose result is a bool, whatever their operands are.
TO_BOOL = frozenset(
    {
        "equal",
        "greater",
        "greater_equal",
        "is_finite",
        "is_inf",
        "is_nan",
        "less",
        "less_equal",
        "logical_and",
        "logical_not",
        "logical_or",
        "not_equal",
    }
)
