"""Batch normalisation and dropout as they train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.errors import BadModel

RANDOM = np.random.default_rng(4)


def _found(model: onnx.ModelProto, path: Path, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    onnx.save(model, path)
    compiled = compile_model(
        load_onnx(path), load_machine("gc200", tiles_per_ipu=4), is_checked=True
    )
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        return compiled.run(engine, inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_batch_is_normalised_by_its_own_statistics(tmp_path: Path, dtype: Any) -> None:
    names = ["x", "scale", "bias", "mean", "variance"]
    node = helper.make_node(
        "BatchNormalization", names, ["y", "m", "v"], training_mode=1, momentum=0.75, epsilon=1e-2
    )
    x = (RANDOM.standard_normal((3, 4, 5, 2)) * 3 + 1).astype(dtype)
    weights = {name: RANDOM.random(4).astype(np.float32) for name in names[1:]}
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    outputs = [info("y", x.shape, kind), info("m", [4]), info("v", [4])]
    model = model_of([node], [info("x", x.shape, kind)], outputs, weights)
    actual = _found(model, tmp_path / "norm.onnx", {"x": x})
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
    scale, bias, before, spread = (weights[name][:, None, None] for name in names[1:])
    y = (wide - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-2) * scale + bias
    tolerance = 1e-5 if dtype is np.float32 else 2e-2
    np.testing.assert_allclose(actual["y"], y, rtol=tolerance, atol=tolerance)
    for name, old, new in (("m", before, mean), ("v", spread, variance)):
        expected = old[:, 0, 0] * 0.75 + new * 0.25
        np.testing.assert_allclose(actual[name], expected, rtol=1e-4, atol=1e-5)


def _dropout(ratio: float, seed: int | None = 3) -> onnx.ModelProto:
    attributes: dict[str, Any] = {} if seed is None else {"seed": seed}
    node = helper.make_node("Dropout", ["x", "r", "t"], ["y", "mask"], name="drop", **attributes)
    outputs = [info("y", [64, 50]), info("mask", [64, 50], TensorProto.BOOL)]
    weights = {"r": np.array(ratio, np.float32), "t": np.array(True)}
    return model_of([node], [info("x", [64, 50])], outputs, weights)


@pytest.mark.parametrize("ratio", [0.25, 0.9])
def test_dropout_keeps_a_share_and_the_mean(tmp_path: Path, ratio: float) -> None:
    x = RANDOM.random((64, 50)).astype(np.float32) + 1
    actual = _found(_dropout(ratio), tmp_path / "drop.onnx", {"x": x})
    selected = actual["mask"].mean()
    assert abs(selected - (1 - ratio)) < 4 * np.sqrt(ratio * (1 - ratio) / x.size)
    expected = np.where(actual["mask"], x * np.float32(1 / (1 - ratio)), 0)
    np.testing.assert_allclose(actual["y"], expected, rtol=1e-6)
    again = _found(_dropout(ratio), tmp_path / "drop.onnx", {"x": x})
    assert np.array_equal(again["mask"], actual["mask"])
    peer = _found(_dropout(ratio, seed=4), tmp_path / "drop.onnx", {"x": x})
    assert not np.array_equal(peer["mask"], actual["mask"])


def test_a_dropout_of_everything_is_refused(tmp_path: Path) -> None:
    onnx.save(_dropout(1.0), tmp_path / "drop.onnx")
    with pytest.raises(BadModel, match=r"'drop'.* its ratio is 1.0: expected at least 0, and less"):
        load_onnx(tmp_path / "drop.onnx")


@pytest.mark.parametrize("size", [2, 5, 7, 8])
def test_a_pool_counts_the_padding_of_the_model_only(tmp_path: Path, size: int) -> None:
    """What ceil_mode adds to the last window does not count."""
    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 0, 1, 1], "strides": [3, 2]}
    node = helper.make_node("AveragePool", ["x"], ["y"], ceil_mode=1, count_include_pad=1, **window)
    x = RANDOM.standard_normal((1, 2, size, 7)).astype(np.float32)
    model = model_of([node], [info("x", x.shape)], [info("y", [None] * 4)], opset=22)
    actual = _found(model, tmp_path / "pool.onnx", {"x": x})["y"]
    results: Any = ReferenceEvaluator(model).run(None, {"x": x})
    expected = results[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
