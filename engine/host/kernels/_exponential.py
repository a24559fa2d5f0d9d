"""The exponential and its kin, in loops that compilers vectorise, with the same bits everywhere.

They are computed in float64, without a branch or a call of the system's mathematical library, whose
functions take one number at a time and differ between systems in last bits. A float32 result is the
correctly rounded one but for a few values in a million, and some tens of the error function. GELU
by it is within 10⁻¹⁰, and 0 below -4 √2, where it is at most 4.4 · 10⁻⁸.

exp(x) is 2ⁿ exp(r) with n the integer next to x / log 2. exp(r) - 1 is its series up to r⁹: the
next term is below 10⁻¹¹ of it for any |r| up to log(2) / 2. log(1 + u) is twice the series of the
inverse hyperbolic tangent of s = u / (2 + u) up to s¹⁷: s is at most 1 / 3 for u up to 1. erf(x) /
x is a polynomial in x², the interpolation at 21 Chebyshev nodes between 0 and 16, which is within
2 · 10⁻¹¹ of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.host.jit._jit import inlined_jit, intrinsic, jit
from tilescope.engine.host.jit.settings import IS_COMPILED

__all__ = [
    "erf",
    "exp",
    "gelu",
    "gelu_erf",
    "gelu_erf_slope",
    "gelu_slope",
    "log1p_exp",
    "log_add",
    "sigmoid",
    "swish",
    "swish_slope",
    "tanh",
]


#: Beyond these the results do not change: they are 0, 1 or infinite as float32.
_LEAST, _MOST = -200.0, 200.0
#: The exponential of less is 0 as float32.
_NOTHING = -104.0
#: Added to a number below 2⁵¹, it leaves the nearest integer in the lowest bits.
_SHIFT = 1.5 * 2.0**52
_PER_LOG_2, _LOG_2 = 1 / math.log(2), math.log(2)
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = (1 / math.factorial(n) for n in range(2, 10))
_ROOT_HALF = math.sqrt(0.5)
_GELU_LINE, _GELU_CUBE = 2 * math.sqrt(2 / math.pi), 0.044715
_PER_ROOT_2_PI = 1 / math.sqrt(2 * math.pi)


def _plain_power(shifted: Any) -> np.float64:
    """Return a pure Python version, for runs without compilation."""
    with np.errstate(invalid="ignore"):
        return np.float64(2) ** (np.float64(shifted) - _SHIFT)


def _compiled_power() -> Any:
    """Return a function that takes n + `_SHIFT` and returns 2ⁿ: the bits of n as an exponent."""

    @intrinsic
    def power(typing_context, shifted):  # type: ignore[no-untyped-def]
        from numba.core import types

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            word = ir.IntType(64)
            exponent = builder.shl(builder.bitcast(arguments[0], word), ir.Constant(word, 52))
            bits = builder.add(exponent, ir.Constant(word, 1023 << 52))
            return builder.bitcast(bits, ir.DoubleType())

        return types.float64(types.float64), generate

    return power


def _plain_choice(condition: Any, a: Any, b: Any) -> Any:
    """Return a pure Python version, for runs without compilation."""
    return a if condition else b


def _compiled_choice() -> Any:
    """Return a function that returns one of two numbers, both of which are computed.

    Of an expression with ``if``, the compiler may move a polynomial into a branch, which keeps the
    loop from being vectorised.
    """

    @intrinsic
    def choice(typing_context, condition, a, b):  # type: ignore[no-untyped-def]
        from numba.core import types

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.select(*arguments)

        return types.float64(types.boolean, types.float64, types.float64), generate

    return choice


_power: Any = _compiled_power() if IS_COMPILED else _plain_power
_choice: Any = _compiled_choice() if IS_COMPILED else _plain_choice


@jit
def _scaled(x):  # type: ignore[no-untyped-def]
    """Return a = 2ⁿ and b with exp(x) = a + b; b is exact to its last bits where a is 1."""
    # Comparisons in this order leave NaN as it is.
    x = _MOST if x > _MOST else x
    x = _LEAST if x < _LEAST else x
    shifted = x * _PER_LOG_2 + _SHIFT
    r = x - (shifted - _SHIFT) * _LOG_2
    q = _C9
    q = q * r + _C8
    q = q * r + _C7
    q = q * r + _C6
    q = q * r + _C5
    q = q * r + _C4
    q = q * r + _C3
    q = q * r + _C2
    scale = _power(shifted)
    return scale, scale * (r + r * r * q)


@jit
def exp(x: float) -> Any:
    """Return e to the power of a number."""
    scale, rest = _scaled(np.float64(x))
    return np.float32(scale + rest)


@jit
def log1p_exp(x: float) -> Any:
    """Return log(1 + exp(x)) of a number that is not positive, in float64."""
    scale, rest = _scaled(np.float64(x))
    u = scale + rest
    s = u / (2 + u)
    v = s * s
    # In pairs, which do not wait for each other.
    w = v * v
    low = (v * (1 / 5) + 1 / 3) + (v * (1 / 9) + 1 / 7) * w
    high = (v * (1 / 13) + 1 / 11) + (v * (1 / 17) + 1 / 15) * w
    return 2 * (s + s * v * (low + high * (w * w)))


@jit
def log_add(a: float, b: float) -> Any:
    """Return log(exp(a) + exp(b)).

    Terms are often the logarithm of nothing, a large negative number: a branch leaves them out.
    """
    largest, smallest = (np.float64(a), np.float64(b)) if a > b else (np.float64(b), np.float64(a))
    if smallest - largest < _NOTHING:
        return np.float32(largest)
    return np.float32(largest + log1p_exp(smallest - largest))


@jit
def _sigmoid(x):  # type: ignore[no-untyped-def]
    scale, rest = _scaled(-x)
    near = 1 / (1 + scale + rest)
    return _choice(x < _LEAST, 0.0, near)  # minus infinity times this is no number


@jit
def sigmoid(x: float) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return np.float32(_sigmoid(np.float64(x)))


@jit
def swish(x: float) -> Any:
    """Return x · sigmoid(x)."""
    wide = np.float64(x)
    return np.float32(wide * _sigmoid(wide))


@jit
def swish_slope(x: float) -> Any:
    """Return the derivative of `swish`: s (1 + x (1 - s)), with s = sigmoid(x)."""
    wide = np.float64(x)
    share = _sigmoid(wide)
    return np.float32(share * (1 + wide * (1 - share)))


@jit
def gelu(x: float) -> Any:
    """Return x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).

    Source of the approximation: Hendrycks and Gimpel, arXiv 1606.08415, section 2. The sum and the
    half are a sigmoid.
    """
    wide = np.float64(x)
    return np.float32(wide * _sigmoid(_GELU_LINE * (wide + _GELU_CUBE * wide * wide * wide)))


@jit
def gelu_slope(x: float) -> Any:
    """Return the derivative of `gelu`."""
    wide = np.float64(x)
    square = wide * wide
    share = _sigmoid(_GELU_LINE * (wide + _GELU_CUBE * square * wide))
    inner = _GELU_LINE * (1 + 3 * _GELU_CUBE * square)
    return np.float32(share * (1 + wide * (1 - share) * inner))


@jit
def tanh(x: float) -> Any:
    """Return the hyperbolic tangent."""
    scale, rest = _scaled(2 * np.float64(x))
    less = (scale - 1) + rest
    return np.float32(less / (less + 2))


@jit
def _erf(x):  # type: ignore[no-untyped-def]
    near = 4.0 if x > 4 else x
    near = -4.0 if near < -4 else near
    v = near * near / 8 - 1
    q = 1.2873585826134119e-05
    q = q * v - 3.668349630367569e-05
    q = q * v + 3.298166514361336e-05
    q = q * v - 7.24620314889167e-05
    q = q * v + 0.0002951337336687348
    q = q * v - 0.0006727965874649553
    q = q * v + 0.0012770781548567907
    q = q * v - 0.0025306731595289753
    q = q * v + 0.004861253792185378
    q = q * v - 0.008629832321732114
    q = q * v + 0.014347218438342212
    q = q * v - 0.022466263957811556
    q = q * v + 0.03306107327040847
    q = q * v - 0.04576646341077169
    q = q * v + 0.05988686028234251
    q = q * v - 0.07472772838178762
    q = q * v + 0.09020899618648633
    q = q * v - 0.10771044890916442
    q = q * v + 0.13167511686644004
    q = q * v - 0.17657623321424343
    q = q * v + 0.35353099564340434
    # From 4 on, the result is 1 as float32.
    return _choice(x < -4, -1.0, _choice(x > 4, 1.0, near * q))


@jit
def erf(x: float) -> Any:
    """Return the error function."""
    return np.float32(_erf(np.float64(x)))


@jit
def gelu_erf(x: float) -> Any:
    """Return x / 2 · (1 + erf(x / √2))."""
    wide = np.float64(x)
    return np.float32(wide / 2 * (1 + _erf(wide * _ROOT_HALF)))


@inlined_jit
def gelu_erf_slope(x: float) -> Any:
    """Return the derivative of `gelu_erf`: the normal distribution, and x times its density."""
    wide = np.float64(x)
    scale, rest = _scaled(-wide * wide / 2)
    density = _PER_ROOT_2_PI * (scale + rest)
    return np.float32((1 + _erf(wide * _ROOT_HALF)) / 2 + wide * density)
