"""Softmax is found, with and without the maximum; powers with constant exponents are simplified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.engine.transform.rewrites import Taken, functions, values, written

SHAPE = (2, 5, 12)
Formula = Callable[[Taken], "Taken | tuple[Taken, ...]"]


def total(x: Taken, axis: int = -1) -> Taken:
    return x.op("ReduceSum", np.array([axis]))


def maximum(x: Taken, axis: int = -1) -> Taken:
    return x.op("ReduceMax", axes=[axis])


def bare(x: Taken) -> Taken:
    power = x.op("Exp")
    return power / total(power)


def stable(x: Taken) -> Taken:
    power = (x - maximum(x)).op("Exp")
    return power / total(power)


def by_reciprocal(x: Taken) -> Taken:
    power = (x - maximum(x, 1)).op("Exp")
    return power * total(power, 1).op("Reciprocal")


def another_axis(x: Taken) -> Taken:
    """The maximum of another dimension is part of the operand."""
    power = (x - maximum(x, 1)).op("Exp")
    return power / total(power)


def two_readers(x: Taken) -> tuple[Taken, ...]:
    power = x.op("Exp")
    return power / total(power), power.op("Neg")


def no_total(x: Taken) -> Taken:
    power = x.op("Exp")
    return power / power.mean(-1)


@pytest.mark.parametrize("formula", [bare, stable, by_reciprocal])
def test_one_operator_is_left(formula: Formula, tmp_path: Path) -> None:
    model = written(formula, SHAPE)
    assert functions(model, tmp_path) == ["softmax"]
    ((actual, expected),) = values(model, tmp_path, SHAPE)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=1e-7)


def test_the_maximum_of_another_dimension_stays(tmp_path: Path) -> None:
    model = written(another_axis, SHAPE)
    assert functions(model, tmp_path) == ["reduce", "subtract", "softmax"]
    ((actual, expected),) = values(model, tmp_path, SHAPE)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("formula", [two_readers, no_total])
def test_near_misses_stay(formula: Formula, tmp_path: Path) -> None:
    assert "softmax" not in functions(written(formula, SHAPE), tmp_path)


POWERS = {
    2.0: ["square"],
    3.0: ["square", "multiply"],
    0.5: ["sqrt"],
    -1.0: ["inverse"],
    -0.5: ["sqrt", "inverse"],
    -2.0: ["square", "inverse"],
    2.5: ["power"],
    4.0: ["power"],
}


@pytest.mark.parametrize(("exponent", "left"), POWERS.items())
def test_powers(exponent: float, left: list[str], tmp_path: Path) -> None:
    model = written(lambda x: (x.op("Abs") + 0.1) ** exponent, SHAPE)
    assert functions(model, tmp_path) == ["absolute", "add", *left]
    ((actual, expected),) = values(model, tmp_path, SHAPE)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_a_power_that_broadcasts_or_varies_stays(tmp_path: Path) -> None:
    for exponent in (np.full((1, 1, 1, 1), 2, np.float32), np.array([2, 3] * 6, np.float32)):
        assert functions(written(lambda x: x.op("Pow", exponent), SHAPE), tmp_path) == ["power"]  # noqa: B023


def test_a_square_of_integers(tmp_path: Path) -> None:
    def formula(x: Taken) -> Taken:
        return x.op("Cast", to=6).op("Pow", np.int32(2))

    model = written(formula, SHAPE)
    assert functions(model, tmp_path) == ["cast", "square"]
    ((actual, expected),) = values(model, tmp_path, SHAPE)
    assert np.array_equal(actual, expected)
