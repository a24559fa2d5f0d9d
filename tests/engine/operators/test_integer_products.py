"""Products of 8-bit integers: exact beyond 2^24, zero points and scales of all shapes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel

RANDOM = np.random.default_rng(7)
#: Weights that onnxruntime multiplies without saturation on processors without VNNI, 7 bits.
_WEIGHTS = (-64, 64)


def _kind(array: np.ndarray) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def _compared(
    tmp_path: Path,
    op_type: str,
    x: np.ndarray,
    rest: Mapping[str, Any],
    result: int,
    **attributes: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of a node with constants, here and in onnxruntime."""
    constants = {name: array for name, array in rest.items() if array is not None}
    names = [name if array is not None else "" for name, array in rest.items()]
    node = helper.make_node(op_type, ["x", *names], ["y"], name="made", **attributes)
    outputs = [helper.make_tensor_value_info("y", result, None)]
    model = model_of([node], [info("x", x.shape, _kind(x))], outputs, constants, 13)
    ((actual, expected),) = both(model, tmp_path / "made.onnx", {"x": x})
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    return actual, expected


def test_sums_beyond_the_integers_of_a_float_are_exact(tmp_path: Path) -> None:
    """300 products of 255 · 255 pass 2^24 and are odd: a float would round them."""
    x, w = np.full((2, 301), 255, np.uint8), np.full((301, 3), 255, np.uint8)
    w[0] = 254
    actual, expected = _compared(tmp_path, "MatMulInteger", x, {"w": w}, TensorProto.INT32)
    exact = x.astype(np.int64) @ w.astype(np.int64)
    assert exact.max() > 1 << 24
    assert np.array_equal(actual, exact)
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("zero", [np.uint8(7), np.arange(4, dtype=np.uint8)])
def test_zero_points_of_matrices(tmp_path: Path, zero: np.ndarray) -> None:
    x = RANDOM.integers(0, 256, (3, 40)).astype(np.uint8)
    w = RANDOM.integers(0, 256, (40, 4)).astype(np.uint8)
    rest: dict[str, Any] = {"w": w, "xz": np.uint8(128), "wz": np.asarray(zero)}
    actual, expected = _compared(tmp_path, "MatMulInteger", x, rest, TensorProto.INT32)
    assert np.array_equal(actual, expected)
    exact = (x.astype(np.int64) - 128) @ (w.astype(np.int64) - np.asarray(zero, np.int64))
    assert np.array_equal(actual, exact)


def test_both_matrices_computed(tmp_path: Path) -> None:
    a = RANDOM.integers(-128, 128, (2, 3, 600)).astype(np.int8)
    b = RANDOM.integers(-128, 128, (2, 600, 5)).astype(np.int8)
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    inputs = [info("a", a.shape, TensorProto.INT8), info("b", b.shape, TensorProto.INT8)]
    model = model_of([node], inputs, [info("y", [2, 3, 5], TensorProto.INT32)])
    ((actual, _),) = both(model, tmp_path / "both.onnx", {"a": a, "b": b})
    assert np.array_equal(actual, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("kind", ["per tensor", "per column"])
def test_quantised_matrices(tmp_path: Path, kind: str) -> None:
    n = 1 if kind == "per tensor" else 6
    rest: dict[str, Any] = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": RANDOM.integers(*_WEIGHTS, (64, 6)).astype(np.int8),
        "ws": np.linspace(0.01, 0.05, n, dtype=np.float32),
        "wz": np.zeros(n, np.int8),
        "ys": np.float32(0.05),
        "yz": np.uint8(99),
    }
    x = RANDOM.integers(0, 256, (8, 64)).astype(np.uint8)
    actual, expected = _compared(tmp_path, "QLinearMatMul", x, rest, TensorProto.UINT8)
    assert np.array_equal(actual, expected)
    assert actual.min() == 0  # saturates at both ends
    assert actual.max() == 255


_WINDOWS: list[dict[str, Any]] = [
    {},
    {"pads": [1, 2, 0, 1], "strides": [2, 1]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    {"dilations": [2, 3]},
    {"group": 2, "pads": [1, 1, 1, 1]},
]


@pytest.mark.parametrize("window", _WINDOWS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantised_convolutions(tmp_path: Path, window: dict[str, Any], dtype: str) -> None:
    channels = 6 // window.get("group", 1)
    limits = np.iinfo(dtype)
    x = RANDOM.integers(limits.min, limits.max + 1, (2, 6, 9, 8)).astype(dtype)
    rest: dict[str, Any] = {
        "xs": np.float32(0.05),
        "xz": np.asarray(limits.min + 100, dtype),
        "w": RANDOM.integers(*_WEIGHTS, (4, channels, 3, 3)).astype(np.int8),
        "ws": np.linspace(0.01, 0.03, 4, dtype=np.float32),
        "wz": np.zeros(4, np.int8),
        "ys": np.float32(0.4),
        "yz": np.asarray(limits.min + 128, dtype),
        "b": np.array([-9999, 0, 77, 123456], np.int32),
    }
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    actual, expected = _compared(tmp_path, "QLinearConv", x, rest, kind, **window)
    assert np.array_equal(actual, expected)


def test_a_deep_convolution_of_integers(tmp_path: Path) -> None:
    """Its 33 channels of 9 pixels pass 2^24: it is made in two parts."""
    x = RANDOM.integers(0, 256, (1, 33, 5, 5)).astype(np.uint8)
    x[..., 1:4, 1:4] = 255
    w = np.full((2, 33, 3, 3), 255, np.uint8)
    rest: dict[str, Any] = {"w": w, "xz": np.uint8(0), "wz": np.uint8(1)}
    actual, expected = _compared(tmp_path, "ConvInteger", x, rest, TensorProto.INT32)
    assert actual.max() > 1 << 24
    assert np.array_equal(actual, expected)


def test_a_signal(tmp_path: Path) -> None:
    x = RANDOM.integers(0, 256, (1, 3, 20)).astype(np.uint8)
    w = RANDOM.integers(0, 256, (2, 3, 5)).astype(np.uint8)
    rest: dict[str, Any] = {"w": w, "xz": np.uint8(9)}
    actual, expected = _compared(tmp_path, "ConvInteger", x, rest, TensorProto.INT32, pads=[2, 2])
    assert np.array_equal(actual, expected)


def test_a_kernel_of_too_many_pixels_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("ConvInteger", ["x", "w"], ["y"], name="wide")]
    inputs = [info("x", [1, 1, 20, 20], TensorProto.UINT8), info("w", [1, 1, 17, 17], 2)]
    onnx.save(
        model_of(nodes, inputs, [info("y", [1, 1, 4, 4], TensorProto.INT32)]),
        tmp_path / "wide.onnx",
    )
    with pytest.raises(BadModel, match=r"'wide'.* a kernel of 289 pixels sums up to 18,792,225"):
        load_onnx(tmp_path / "wide.onnx")


def test_other_types_are_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT8),
        helper.make_node("ConvInteger", ["i", "w"], ["y"], name="odd"),
    ]
    w = {"w": np.ones((1, 2, 1, 1), np.int8)}
    model = model_of(
        nodes, [info("x", [1, 3, 4, 4])], [info("y", [1, 1, 4, 4], TensorProto.INT32)], w
    )
    onnx.save(model, tmp_path / "odd.onnx")
    with pytest.raises(BadModel, match=r"'odd'.*do not fit|'odd'.*does not match"):
        load_onnx(tmp_path / "odd.onnx")
