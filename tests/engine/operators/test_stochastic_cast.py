"""Casts to half that round to one of the two neighbours by chance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine import Engine, compile_model, load_machine, resolve_options
from tilescope.engine.ir import IrBuilder
from tilescope.engine.operators.elementwise.rounding import STOCHASTIC_CAST

Halves = NDArray[np.float16]


def _found(x: NDArray[np.float32], seed: int, n_tiles: int = 4) -> tuple[Halves, Halves]:
    """Return the result on the machine and in numpy."""
    builder = IrBuilder("cast")
    operand = builder.input("x", x.shape, "float32")
    of_seed = builder.input("seed", (2,), "int32")
    out = builder.emit(
        STOCHASTIC_CAST, [operand, of_seed], name="cast", source="Cast", output="y", modifier=7
    )
    model = builder.finish([("y", out)])
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=n_tiles), is_checked=True)
    words = np.array([seed], np.int64).view(np.int32)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        actual = compiled.run(engine, {"x": x, "seed": words})["y"]
    operation = model.operations[0]
    evaluate = operation.operator.evaluate
    assert evaluate is not None
    return actual, evaluate(operation, [x, words])[0]


def _neighbours(x: NDArray[np.float32]) -> tuple[Halves, Halves]:
    """Return the largest half that is not above, and the smallest that is not below."""
    near = x.astype(np.float16)
    wide = x.astype(np.float64)
    below = np.where(near.astype(np.float64) > wide, np.nextafter(near, np.float16(-np.inf)), near)
    above = np.where(near.astype(np.float64) < wide, np.nextafter(near, np.float16(np.inf)), near)
    return below.astype(np.float16), above.astype(np.float16)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 3e-5, 1e-7, 1e4], ids=str)
def test_results_are_neighbours_and_right_in_the_mean(scale: float) -> None:
    rng = np.random.default_rng(1)
    one = np.float32(rng.uniform(1, 2) * scale)
    x = np.full((64, 250), one, np.float32) * np.where(np.arange(250) % 2, 1, -1)
    x = x.astype(np.float32)
    actual, expected = _found(x, 5)
    assert np.array_equal(actual, expected)
    below, above = _neighbours(x)
    assert ((actual == below) | (actual == above)).all()
    size = np.abs(actual.astype(np.float64))
    width = float(np.abs(above.astype(np.float64) - below).max())
    assert abs(size.mean() - float(one)) < 4 * width / 2 / np.sqrt(x.size)


def test_what_half_holds_and_what_is_beyond_it() -> None:
    exact = np.array([0.0, -0.0, 1.0, -2.5, 2.0**-24, 65504.0, -65504.0], np.float32)
    beyond = np.array([np.inf, -np.inf, np.nan, 1e6, -1e6], np.float32)
    x = np.concatenate([exact, beyond])
    actual, expected = _found(x, 1)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(actual[: exact.size], exact.astype(np.float16))
    np.testing.assert_array_equal(
        actual[exact.size :], np.array([np.inf, -np.inf, np.nan, np.inf, -np.inf], np.float16)
    )


def test_numbers_depend_on_the_seed_and_not_on_the_tiles() -> None:
    x = np.random.default_rng(2).normal(size=(33, 17)).astype(np.float32)
    first, _ = _found(x, 2**40 + 3)
    again, _ = _found(x, 2**40 + 3, n_tiles=7)
    other, _ = _found(x, 2**40 + 4)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
