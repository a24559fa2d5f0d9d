"""Functions of two operands: kernels and rates.

A new function needs an entry in `BINARY_FUNCTIONS`, `BINARY_RATES` and `BROADCAST_RATES`.
Source of the rates: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.hpp:
binaryOpPerfInfo and broadcastOpPerfInfo.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.engine.codelets.popops.elementwise.rates import Rate, make_rate
from tilescope.engine.host.jit._jit import jit

__all__ = ["BINARY_FUNCTIONS", "BINARY_RATES", "BINARY_TO_BOOL", "BROADCAST_RATES"]


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
    # The result has the sign of the dividend, as in C; numba's fmod is wrong for negative
    # integers. Widened first: the smallest integer has no absolute value in 32 bits.
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
def _bitwise_xnor(a: Any, b: Any) -> Any:
    return ~(a ^ b)


@jit
def _shift_left(a: Any, b: Any) -> Any:
    # Assumption: a shift by more than 31 clears all bits; a host processor masks the count.
    return a << b if 0 <= b < 32 else 0


@jit
def _shift_right_sign_extend(a: Any, b: Any) -> Any:
    return a >> (b if 0 <= b < 32 else 31)


@jit
def _shift_right(a: Any, b: Any) -> Any:
    return (np.int64(a) & 0xFFFFFFFF) >> b if 0 <= b < 32 else 0


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
    "bitwise_xnor": _bitwise_xnor,
    "bitwise_xor": _bitwise_xor,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
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

#: Functions that return a bool for any operand type.
BINARY_TO_BOOL = frozenset(
    {
        "equal",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "logical_and",
        "logical_or",
        "not_equal",
    }
)

# Includes the 2 cycles around an assembly loop.
BINARY_RATES: dict[str, Rate] = {
    "add": make_rate((3, 2), (3, 4), (7, 1)),
    "subtract": make_rate((3, 2), (3, 4), (7, 1)),
    "multiply": make_rate((3, 2), (3, 4), (7, 1)),
    "divide": make_rate((10, 2), (21, 4), (277, 1)),
    "maximum": make_rate((3, 2), (4, 4), (7, 1)),
    "minimum": make_rate((3, 2), (4, 4), (7, 1)),
    # For integers the source assumes an exponent of 9: the loop runs once per unit of exponent.
    "power": make_rate((312, 1), (325, 1), (32, 1)),
    "remainder": make_rate((133, 2), (300, 4), (292, 1)),
    "atan2": make_rate((272, 2), (578, 4)),
    "bitwise_and": make_rate(None, None, (7, 1)),
    "bitwise_or": make_rate(None, None, (7, 1)),
    "bitwise_xnor": make_rate(None, None, (7, 1)),
    "bitwise_xor": make_rate(None, None, (7, 1)),
    "shift_left": make_rate(None, None, (7, 1)),
    "shift_right": make_rate(None, None, (7, 1)),
    "shift_right_sign_extend": make_rate(None, None, (7, 1)),
    "equal": make_rate((14, 4), (9, 4), (22, 4), (6, 4)),
    "not_equal": make_rate((20, 4), (11, 4), (22, 4), (5, 4)),
    "less": make_rate((14, 4), (9, 4), (22, 4), (28, 4)),
    "less_equal": make_rate((14, 4), (9, 4), (26, 4), (28, 4)),
    "greater": make_rate((14, 4), (9, 4), (22, 4), (31, 4)),
    "greater_equal": make_rate((14, 4), (9, 4), (26, 4), (28, 4)),
    "logical_and": make_rate(None, None, boolean=(5, 4)),
    "logical_or": make_rate(None, None, boolean=(5, 4)),
}
# Includes the 1 cycle around an assembly loop.
BROADCAST_RATES: dict[str, Rate] = {
    "add": make_rate((2, 2), (2, 4), (6, 1)),
    "subtract": make_rate((2, 2), (2, 4), (6, 1)),
    "multiply": make_rate((2, 2), (2, 4), (6, 1)),
    "divide": make_rate((6, 2), (8, 2), (277, 1)),
    "maximum": make_rate((3, 2), (3, 4), (6, 1)),
    "minimum": make_rate((3, 2), (3, 4), (6, 1)),
    "power": make_rate((312, 1), (325, 1), (23, 1)),
    "remainder": make_rate((93, 2), (225, 4), (280, 1)),
    "atan2": make_rate((272, 2), (578, 4)),
    "bitwise_and": make_rate(None, None, (6, 1)),
    "bitwise_or": make_rate(None, None, (6, 1)),
    "bitwise_xnor": make_rate(None, None, (6, 1)),
    "bitwise_xor": make_rate(None, None, (6, 1)),
    "shift_left": make_rate(None, None, (6, 1)),
    "shift_right": make_rate(None, None, (6, 1)),
    "shift_right_sign_extend": make_rate(None, None, (6, 1)),
    "equal": make_rate((12, 4), (8, 4), (16, 4), (14, 4)),
    "not_equal": make_rate((18, 4), (10, 4), (16, 4), (4, 4)),
    "less": make_rate((12, 4), (8, 4), (16, 4), (16, 4)),
    "less_equal": make_rate((12, 4), (8, 4), (20, 4), (16, 4)),
    "greater": make_rate((12, 4), (8, 4), (16, 4), (12, 4)),
    "greater_equal": make_rate((12, 4), (8, 4), (20, 4), (12, 4)),
    "logical_and": make_rate(None, None, boolean=(4, 4)),
    "logical_or": make_rate(None, None, boolean=(4, 4)),
}
