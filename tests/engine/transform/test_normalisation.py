"""Normalisations are found in every form that exporters write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from tests.engine.transform.rewrites import Taken, functions, values, written

SHAPE = (2, 5, 12)
EPSILON = 1e-5
_RANDOM = np.random.default_rng(4)
SCALE = _RANDOM.standard_normal(12).astype(np.float32)
BIAS = _RANDOM.standard_normal(12).astype(np.float32)
Formula = Callable[[Taken], "Taken | tuple[Taken, ...]"]


def like(x: Taken, array: np.ndarray) -> Taken:
    """Return an array in the type of the model, as a constant of it."""
    return Taken(x.writer, x.writer.constant(array.astype(x.writer.dtype)))


def root(x: Taken) -> Taken:
    return x.op("Sqrt")


def inverse(x: Taken) -> Taken:
    return x.op("Reciprocal")


def white(x: Taken, *axes: int) -> Taken:
    """As PyTorch writes it."""
    apart = x - x.mean(*axes)
    return apart / root((apart**2.0).mean(*axes) + EPSILON)


def pytorch(x: Taken) -> Taken:
    return white(x, -1) * like(x, SCALE) + like(x, BIAS)


def two_differences(x: Taken) -> Taken:
    mean = x.mean(-1)
    spread = ((x - mean) ** 2.0).mean(-1)
    return (x - mean) / root(spread + EPSILON) * like(x, SCALE) + like(x, BIAS)


def two_means(x: Taken) -> Taken:
    apart = x - x.mean(-1)
    spread = (x - x.mean(-1)) ** 2.0
    return apart / (spread.mean(-1) + EPSILON) ** 0.5 * like(x, SCALE) + like(x, BIAS)


def reciprocal(x: Taken) -> Taken:
    apart = x - x.mean(-1)
    factor = inverse(root(EPSILON + (apart * apart).mean(-1)))
    return like(x, BIAS) + like(x, SCALE) * (apart * factor)


def keras(x: Taken) -> Taken:
    """As TensorFlow's batch_normalization does: x · f + (bias − mean · f)."""
    mean = x.mean(2)
    apart = x - mean
    factor = inverse(root((apart * apart).mean(2) + EPSILON)) * like(x, SCALE)
    return x * factor + (like(x, BIAS) - mean * factor)


def no_bias(x: Taken) -> Taken:
    return white(x, -1) * like(x, SCALE)


def no_scale(x: Taken) -> Taken:
    return white(x, -1) + like(x, BIAS)


def two_axes(x: Taken) -> Taken:
    shape = (5, 12)
    return white(x, 1, 2) * like(x, np.full(shape, 2)) + like(x, np.ones(shape))


def ones_in_front(x: Taken) -> Taken:
    return white(x, -1) * like(x, SCALE.reshape(1, 1, 12)) + like(x, BIAS.reshape(1, 12))


def cast_in_between(x: Taken) -> Taken:
    """As PyTorch writes it for halves: powers and their mean in float."""
    apart = x - x.mean(-1)
    wide = apart.op("Cast", to=TensorProto.FLOAT)
    spread = wide.op("Pow", np.float32(2)).mean(-1) + np.float32(EPSILON)
    half = root(spread).op("Cast", to=TensorProto.FLOAT16)
    return apart / half * like(x, SCALE) + like(x, BIAS)


def cast_around(x: Taken) -> Taken:
    wide = x.op("Cast", to=TensorProto.FLOAT)
    apart = wide - wide.mean(-1)
    spread = apart.op("Pow", np.float32(2)).mean(-1) + np.float32(EPSILON)
    half = (apart / root(spread)).op("Cast", to=TensorProto.FLOAT16)
    return half * like(x, SCALE) + like(x, BIAS)


def rms(x: Taken) -> Taken:
    return x * inverse(root((x**2.0).mean(-1) + EPSILON)) * like(x, SCALE)


def rms_divided(x: Taken) -> Taken:
    return like(x, SCALE) * (x / root((x * x).mean(-1) + EPSILON))


def rms_bare(x: Taken) -> Taken:
    return x * ((x**2.0).mean(-1) + EPSILON) ** -0.5


LAYERS: list[Formula] = [
    pytorch, two_differences, two_means, reciprocal, keras, no_bias, no_scale, two_axes,
    ones_in_front, lambda x: white(x, -1),
]  # fmt: skip
ROOT_MEANS: list[Formula] = [rms, rms_divided, rms_bare]
CASES = [
    *((formula, "LayerNormalization") for formula in LAYERS),
    *((formula, "RMSNormalization") for formula in ROOT_MEANS),
]
IDS = [formula.__name__ for formula, _ in CASES]


@pytest.mark.parametrize(("formula", "name"), CASES, ids=IDS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_operator_is_left(formula: Formula, name: str, dtype: str, tmp_path: Path) -> None:
    assert functions(written(formula, SHAPE, dtype), tmp_path) == [name]


@pytest.mark.parametrize("formula", [formula for formula, _ in CASES], ids=IDS)
def test_values_are_those_of_onnxruntime(formula: Formula, tmp_path: Path) -> None:
    ((actual, expected),) = values(written(formula, SHAPE), tmp_path, SHAPE)
    np.testing.assert_allclose(actual, expected, rtol=3e-5, atol=3e-6)


def test_halves_with_casts_in_between(tmp_path: Path) -> None:
    model = written(cast_in_between, SHAPE, "float16")
    assert functions(model, tmp_path) == ["LayerNormalization"]
    ((actual, expected),) = values(model, tmp_path, SHAPE, "float16")
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=4e-3, atol=4e-3
    )


def test_a_normalisation_of_floats_between_casts_stays_one_of_floats(tmp_path: Path) -> None:
    model = written(cast_around, SHAPE, "float16")
    left = functions(model, tmp_path)
    assert left == ["cast", "LayerNormalization", "cast", "multiply", "add"]
    ((actual, expected),) = values(model, tmp_path, SHAPE, "float16")
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=2e-3, atol=2e-3
    )


def by_channel(n: int, seed: float) -> np.ndarray:
    return (np.arange(n, dtype=np.float32) + np.float32(seed)).reshape(n, 1, 1)


def instance(x: Taken) -> Taken:
    return white(x, 2, 3) * by_channel(4, 1) + by_channel(4, 0.5)


def test_a_normalisation_per_channel_is_one_of_instances(tmp_path: Path) -> None:
    shape = (2, 4, 3, 5)
    model = written(instance, shape)
    assert functions(model, tmp_path) == ["InstanceNormalization"]
    ((actual, expected),) = values(model, tmp_path, shape)
    np.testing.assert_allclose(actual, expected, rtol=3e-5, atol=3e-6)


def _with(spread: Callable[[Taken], Taken]) -> Formula:
    def formula(x: Taken) -> Taken:
        return (x - x.mean(-1)) / root(spread(x) + EPSILON)

    return formula


def mean_of_other(x: Taken) -> Taken:
    y = x * 2.0
    apart = y - x.mean(-1)
    return apart / root((apart**2.0).mean(-1) + EPSILON)


def mean_is_a_result(x: Taken) -> tuple[Taken, ...]:
    mean = x.mean(-1)
    apart = x - mean
    return apart / root((apart**2.0).mean(-1) + EPSILON), mean


def difference_is_read_again(x: Taken) -> Taken:
    apart = x - x.mean(-1)
    return apart / root((apart**2.0).mean(-1) + EPSILON) + apart.op("Neg")


def square_shape_without_kept_dims(x: Taken) -> Taken:
    """The means broadcast along the wrong dimension."""
    apart = x - x.mean(-1, keepdims=0)
    return apart / root((apart**2.0).mean(-1, keepdims=0) + EPSILON)


NEAR: dict[str, tuple[Formula, tuple[int, ...]]] = {
    "another power": (_with(lambda x: ((x - x.mean(-1)) ** 3.0).mean(-1)), SHAPE),
    "another axis of the variance": (_with(lambda x: ((x - x.mean(-1)) ** 2.0).mean(1)), SHAPE),
    "another axis of the mean": (_with(lambda x: ((x - x.mean(1)) ** 2.0).mean(-1)), SHAPE),
    "a first axis": (lambda x: white(x, 0), SHAPE),
    "an axis in between": (lambda x: white(x, 1), SHAPE),
    "the mean of another": (mean_of_other, SHAPE),
    "the mean is a result": (mean_is_a_result, SHAPE),
    "the difference is read again": (difference_is_read_again, SHAPE),
    "dimensions are not kept": (square_shape_without_kept_dims, (6, 6)),
    "a sum instead of a mean": (
        _with(lambda x: ((x - x.mean(-1)) ** 2.0).op("ReduceSum", np.array([-1]))), SHAPE
    ),
}  # fmt: skip


@pytest.mark.parametrize(("formula", "shape"), NEAR.values(), ids=NEAR)
def test_near_misses_stay(formula: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    model = written(formula, shape)
    left = functions(model, tmp_path)
    assert "LayerNormalization" not in left
    assert "InstanceNormalization" not in left
    for actual, expected in values(model, tmp_path, shape):
        np.testing.assert_allclose(actual, expected, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize(
    "factor", [SCALE[:5].reshape(5, 1), np.full((2, 5, 12), 1.5, np.float32)], ids=["rows", "all"]
)
def test_a_factor_of_other_dimensions_stays_outside(factor: np.ndarray, tmp_path: Path) -> None:
    model = written(lambda x: white(x, -1) * factor, SHAPE)
    assert functions(model, tmp_path) == ["LayerNormalization", "multiply"]
    ((actual, expected),) = values(model, tmp_path, SHAPE)
    np.testing.assert_allclose(actual, expected, rtol=3e-5, atol=3e-6)
