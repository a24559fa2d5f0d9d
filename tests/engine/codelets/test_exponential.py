"""The exponential and its kin, beside numpy and scipy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from tilescope.engine.codelets.popops.elementwise.in_place import unary_kernels_in_place
from tilescope.engine.host.jit.compiler import for_python
from tilescope.engine.host.kernels import _exponential

Floats = NDArray[Any]

SPECIAL = np.array([0, 1, -1, 200, -200, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)


def _swish(x: Floats) -> Floats:
    return np.asarray(x / (1 + np.exp(-x)))


def _gelu(x: Floats) -> Floats:
    return np.asarray(x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


WANTED: dict[str, Callable[[Floats], Floats]] = {
    "erf": special.erf,
    "exp": np.exp,
    "gelu": _gelu,
    "gelu_erf": lambda x: np.asarray(x / 2 * (1 + special.erf(x / np.sqrt(2)))),
    "sigmoid": special.expit,
    "swish": _swish,
    "tanh": np.tanh,
}
#: Derivatives.
SLOPES: dict[str, Callable[[Floats], Floats]] = {
    "gelu_slope": lambda x: _difference(_gelu, x),
    "gelu_erf_slope": lambda x: special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
    "swish_slope": lambda x: _difference(_swish, x),
}


def _difference(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Return a derivative by differences of the fourth order."""
    h = 1e-3
    near, far = (function(x + k * h) - function(x - k * h) for k in (1, 2))
    return np.asarray((8 * near - far) / (12 * h))


def _all(name: str, x: Floats) -> Floats:
    function = getattr(_exponential, name)

    def loop(x: Floats, out: Floats) -> None:
        for i in range(x.size):
            out[i] = function(x[i])

    out = np.empty_like(x)
    for_python(loop)(x, out)
    return out


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_next_to_the_exact_value(name: str) -> None:
    """Half a unit in the last place, and a little for the error in float64."""
    random = np.random.default_rng(0)
    near = random.uniform(-12, 12, 200_000)
    small = 10 ** random.uniform(-37, 0, 20_000) * random.choice([-1, 1], 20_000)
    x = np.concatenate([near, small]).astype(np.float32)
    expected = WANTED[name](x.astype(np.float64))
    error = np.abs(_all(name, x) - expected)
    allowed = 0.501 * np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    if name == "gelu":  # the sum with the hyperbolic tangent cancels in the expected one
        allowed += 1e-15
    if name == "gelu_erf":  # its tail ends where erf is -1 as float32: at -4 times the root of 2
        allowed += 1e-10 + 5e-8 * (x < -5.6)
    np.testing.assert_array_less(error - allowed, np.finfo(np.float32).smallest_subnormal)


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name: str) -> None:
    x = np.random.default_rng(0).uniform(-12, 12, 20_000).astype(np.float32)
    expected = SLOPES[name](x.astype(np.float64))
    # The tail of the error function ends at -4.
    tail = 8e-9 if name == "gelu_erf_slope" else 1e-10
    np.testing.assert_allclose(_all(name, x), expected, rtol=1e-7, atol=tail)
    large = np.array([-1e30, -300, 300, 1e30], np.float32)
    np.testing.assert_array_equal(_all(name, large), [0, 0, 1, 1])


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_numbers(name: str) -> None:
    expected = WANTED[name](SPECIAL.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(_all(name, SPECIAL), expected, rtol=1e-7)


@pytest.mark.parametrize("name", [*WANTED, *SLOPES])
def test_a_number_alone_and_in_a_vector_has_the_same_bits(name: str) -> None:
    x = np.random.default_rng(1).uniform(-9, 9, 1001).astype(np.float32)
    one_by_one = np.concatenate([_all(name, x[i : i + 1]) for i in range(0, x.size, 50)])
    np.testing.assert_array_equal(one_by_one, _all(name, x)[::50])


@pytest.mark.skipif(bool(vars(numba.config)["DISABLE_JIT"]), reason="there is no code to look at")
@pytest.mark.parametrize("name", [*WANTED, *SLOPES])
def test_kernels_are_vectorised(name: str) -> None:
    """As part of a launcher, which is optimised once: a branch around the polynomial remains."""
    vector, _ = unary_kernels_in_place(getattr(_exponential, name))
    built = for_python(vector.py_func)
    built.compile((numba.float32[::1],))
    (code,) = built.inspect_llvm().values()
    assert "fmul nsz <" in code, "no vector of numbers is multiplied"


def test_the_logarithm_of_a_sum() -> None:
    """Within 2 · 10⁻¹⁰ of it, and of 0 where nothing is added."""
    x = np.concatenate([np.linspace(-40, 0, 40_001), np.array([-1e30, -np.inf])])
    np.testing.assert_allclose(_all("log1p_exp", x), np.log1p(np.exp(x)), rtol=2e-10, atol=1e-80)
