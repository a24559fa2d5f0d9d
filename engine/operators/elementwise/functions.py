"""Elementwise functions in numpy: what the library computes, for constants and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BINARY_FUNCTIONS", "UNARY_FUNCTIONS"]

Array = NDArray[Any]


def _erf(x: Array) -> Array:
    from scipy import special  # heavy, and few models have constants of it

    return np.asarray(special.erf(x)).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _round(x: Array) -> Array:
    return np.asarray(np.copysign(np.floor(np.abs(x) + np.asarray(0.5, x.dtype)), x))


def _divide(a: Array, b: Array) -> Array:
    if np.issubdtype(a.dtype, np.integer):
        return np.trunc(np.asarray(a, np.float64) / b).astype(a.dtype)
    return np.divide(a, b)


#: Functions of the library with one operand, in numpy.
UNARY_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "absolute": np.abs,
    "asin": np.arcsin,
    "atan": np.arctan,
    "bitwise_not": np.bitwise_not,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": _erf,
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "inverse": lambda x: (1 / x).astype(x.dtype),
    "is_inf": np.isinf,
    "is_nan": np.isnan,
    "log": np.log,
    "log1p": np.log1p,
    "logical_not": np.logical_not,
    "nearby_int": np.rint,
    "negate": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "round": _round,
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
}
#: Functions of the library with two operands, in numpy.
BINARY_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "atan2": np.arctan2,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xnor": lambda a, b: np.bitwise_not(np.bitwise_xor(a, b)),
    "bitwise_xor": np.bitwise_xor,
    "divide": _divide,
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "not_equal": np.not_equal,
    "power": np.power,
    "remainder": np.fmod,
    "shift_left": np.left_shift,
    "shift_right_sign_extend": np.right_shift,
    "subtract": np.subtract,
}
