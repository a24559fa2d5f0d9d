"""Functions of one operand: kernels and rates.

A new function needs an entry in `UNARY_FUNCTIONS` and one in `UNARY_RATES`. Source of the rates:
graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.hpp: unaryOpPerfInfo.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.engine.codelets.popops.elementwise.rates import Rate, make_rate
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._exponential import erf, exp, gelu_erf, sigmoid, tanh

__all__ = ["UNARY_FUNCTIONS", "UNARY_RATES", "UNARY_TO_BOOL"]


@jit
def _relu(x: Any) -> Any:
    return x if x > 0 or x != x else np.float32(0)  # propagates NaN


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
def _sign(x: Any) -> Any:
    return int(x > 0) - int(x < 0) if x == x else x


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
    return np.rint(x)  # ties to even


@jit
def _round(x: Any) -> Any:
    # Ties away from zero; adding 0.5 first would round twice for values just below a tie.
    truncated = np.trunc(x)
    return (
        truncated + np.copysign(np.float32(1), x)
        if abs(x - truncated) >= np.float32(0.5)
        else truncated
    )


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
    # In double: for floats, compilers emit an estimate that gives NaN for zero and infinity.
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
def _bitwise_not(x: Any) -> Any:
    return ~x


@jit
def _popcount(x: Any) -> Any:
    """Count the ones of a number of 32 bits: pairs, fours and bytes first, then their sum."""
    bits = np.int64(x) & 0xFFFFFFFF
    bits -= (bits >> 1) & 0x55555555
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return (bits * 0x01010101 & 0xFFFFFFFF) >> 24


@jit
def _count_leading_zeros(x: Any) -> Any:
    """Count the zeros before the first one of a number of 32 bits."""
    bits = np.int64(x) & 0xFFFFFFFF
    for distance in (1, 2, 4, 8, 16):
        bits |= bits >> distance
    return 32 - _popcount(bits)


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


UNARY_FUNCTIONS = {
    "relu": _relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "exp": exp,
    "log": _log,
    "sqrt": _sqrt,
    "inverse": _inverse,
    "negate": _negate,
    "absolute": _absolute,
    "square": _square,
    "erf": erf,
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
    "gelu_erf": gelu_erf,
    "bitwise_not": _bitwise_not,
    "count_leading_zeros": _count_leading_zeros,
    "popcount": _popcount,
    "logical_not": _logical_not,
    "is_nan": _is_nan,
    "is_inf": _is_inf,
    "is_finite": _is_finite,
}
#: Functions that return a bool for any operand type.
UNARY_TO_BOOL = frozenset(
    {
        "is_finite",
        "is_inf",
        "is_nan",
        "logical_not",
    }
)

# A loop of one element, or of a vector without assembly, adds 4 cycles.
UNARY_RATES: dict[str, Rate] = {
    # Assumption: for integers, the same as the binary maximum.
    "relu": make_rate((3, 2), (3, 4), (7, 1)),
    "sigmoid": make_rate((12, 2), (6, 4)),
    "tanh": make_rate((12, 2), (4, 4)),
    "exp": make_rate((6, 2), (4, 4)),
    "log": make_rate((12, 2), (4, 4)),
    "sqrt": make_rate((10, 2), (23, 4), (114, 1)),
    "inverse": make_rate((6, 2), (15, 4)),
    "negate": make_rate((2, 2), (2, 4), (6, 1)),
    "absolute": make_rate((5, 1), (5, 1), (6, 1)),
    "square": make_rate((2, 2), (2, 4), (5, 2)),
    "erf": make_rate((41, 1), (13, 1)),
    "sign": make_rate((9, 2), (9, 4), (9, 1)),
    "ceil": make_rate((6, 2), (6, 4)),
    "floor": make_rate((6, 2), (6, 4)),
    "trunc": make_rate((3, 2), (11, 4)),
    "nearby_int": make_rate((6, 2), (6, 4)),
    "round": make_rate((6, 2), (6, 4)),
    "sin": make_rate((2304, 1), (25, 1)),
    "cos": make_rate((2304, 1), (25, 1)),
    "tan": make_rate((5100, 1), (5700, 1)),
    "asin": make_rate((106, 1), (106, 1)),
    # Assumption: the same as atan2, which the library has.
    "atan": make_rate((272, 2), (578, 4)),
    "rsqrt": make_rate((8, 2), (19, 4)),
    "cbrt": make_rate((31, 2), (21, 4)),
    "exp2": make_rate((6, 2), (4, 4)),
    "expm1": make_rate((8, 1), (9, 4)),
    "log1p": make_rate((22, 2), (22, 4)),
    "gelu_erf": make_rate((22, 1), (16, 1)),
    "bitwise_not": make_rate(None, None, (5, 2)),
    "count_leading_zeros": make_rate(None, None, (5, 1)),
    "popcount": make_rate(None, None, (5, 1)),
    "logical_not": make_rate(None, None, boolean=(21, 1)),
    "is_nan": make_rate((7, 2), (7, 4)),
    "is_inf": make_rate((7, 2), (9, 4)),
    "is_finite": make_rate((9, 2), (9, 4)),
}
