"""Operators of old opsets, and types that PopART takes besides those of ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options

Array = np.ndarray
X = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)


def _result(
    node: onnx.NodeProto, inputs: dict[str, Array], known: dict[str, Array], opset: int, path: Path
) -> Array:
    infos = [
        info(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in inputs.items()
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)]
    onnx.save(model_of([node], infos, outputs, known, opset), path)
    compiled = compile_model(load_onnx(path), load_machine("gc200", tiles_per_ipu=4))
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        (result,) = compiled.run(engine, inputs).values()
    return np.asarray(result)


def test_the_first_upsample_has_a_scale_of_each_side(tmp_path: Path) -> None:
    x = X.reshape(1, 1, 3, 4)
    node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0)
    actual = _result(node, {"x": x}, {}, 6, tmp_path / "model.onnx")
    np.testing.assert_array_equal(actual, x.repeat(2, 2).repeat(3, 3))


def test_the_nearest_mode_of_popart_is_that_of_pytorch(tmp_path: Path) -> None:
    node = helper.make_node("Resize", ["x", "r", "s"], ["y"], nearest_mode="pytorch")
    known = {"r": np.zeros(0, np.float32), "s": np.array([2.0, 0.5], np.float32)}
    actual = _result(node, {"x": X}, known, 11, tmp_path / "model.onnx")
    np.testing.assert_array_equal(actual, X.repeat(2, 0)[:, ::2])


def test_statistics_of_every_element_of_a_batch(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((5, 2, 3, 2)).astype(np.float32)
    node = helper.make_node(
        "BatchNormalization", [*"xsbmv"], ["y", "mean", "variance", "", ""], spatial=0
    )
    shape = x.shape[1:]
    known = {"s": np.full(shape, 2, "f4"), "b": np.ones(shape, "f4"), "m": np.zeros(shape, "f4")}
    known["v"] = known["b"]
    actual = _result(node, {"x": x}, known, 8, tmp_path / "model.onnx")
    np.testing.assert_allclose(actual, 2 * (x - x.mean(0)) / x.std(0) + 1, 1e-3, 1e-4)


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_a_shape_of_other_integers(dtype: str, tmp_path: Path) -> None:
    node = helper.make_node("Expand", ["x", "s"], ["y"])
    known = {"s": np.array([2, 3, 4], dtype)}
    actual = _result(node, {"x": X}, known, 11, tmp_path / "model.onnx")
    np.testing.assert_array_equal(actual, np.broadcast_to(X, (2, 3, 4)))


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_positions_of_other_integers(dtype: str, tmp_path: Path) -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"])
    inputs = {"x": X, "i": np.array([[2, 1], [0, 3]], dtype)}
    actual = _result(node, inputs, {}, 12, tmp_path / "model.onnx")
    np.testing.assert_array_equal(actual, X[[2, 0], [1, 3]])


@pytest.mark.parametrize("is_known", [False, True])
def test_half_where_onnx_has_float_only(is_known: bool, tmp_path: Path) -> None:
    node = helper.make_node("CumSum", ["x", "a"], ["y"])
    arrays: dict[str, Array] = {"x": X.astype(np.float16), "a": np.array(1, np.int32)}
    known = dict(arrays) if is_known else {"a": arrays["a"]}
    inputs = {} if is_known else {"x": arrays["x"]}
    actual = _result(node, inputs, known, 11, tmp_path / "model.onnx")
    assert actual.dtype == np.float16
    np.testing.assert_allclose(actual, np.cumsum(X, 1), 5e-3, 5e-3)


def test_a_scalar_of_float_times_halves_is_half(tmp_path: Path) -> None:
    node = helper.make_node("Mul", ["x", "s"], ["y"])
    inputs: dict[str, Array] = {"x": X.astype(np.float16), "s": np.array([1.5], np.float32)}
    actual = _result(node, inputs, {}, 11, tmp_path / "model.onnx")
    assert actual.dtype == np.float16
    np.testing.assert_allclose(actual, 1.5 * X, 2e-3, 2e-3)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_values_of_a_one_hot_are_computed(dtype: str, tmp_path: Path) -> None:
    node = helper.make_node("OneHot", ["i", "d", "v"], ["y"], axis=0)
    inputs: dict[str, Array] = {
        "i": np.array([1, 5, -1], np.int32),
        "v": np.array([3, 7], dtype),
    }
    actual = _result(node, inputs, {"d": np.array(6, np.int32)}, 11, tmp_path / "model.onnx")
    np.testing.assert_array_equal(actual, np.where(np.eye(6)[[1, 5, 5]].T > 0, 7, 3))
