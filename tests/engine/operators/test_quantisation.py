"""Quantised tensors: rounding, saturation, zero points per tensor, slice and block."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel

# Ties, both limits, zero, and what no integer holds.
X = np.array([[-1e30, -129.0, -1.25, -0.75, 0.0, 0.25], [0.75, 1.25, 63.6, 127.5, 128, 1e30]])
ROWS = X.astype(np.float32)


def _one(
    op_type: str,
    kinds: tuple[int, ...],
    initializers: Mapping[str, Any],
    x: tuple[str, tuple[int, ...], int],
    opset: int = 21,
    **attributes: Any,
) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(len(kinds))]
    node = helper.make_node(op_type, [x[0], *initializers], names, name="q", **attributes)
    outputs = [helper.make_tensor_value_info(n, k, None) for n, k in zip(names, kinds, strict=True)]
    return model_of([node], [info(x[0], x[1], x[2])], outputs, initializers, opset)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_values_are_rounded_to_even_and_saturate(tmp_path: Path, dtype: str) -> None:
    zero = np.asarray(3, dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values: dict[str, Any] = {"scale": np.float32(0.5), "zero": zero}
    model = _one("QuantizeLinear", (kind,), values, ("x", ROWS.shape, TensorProto.FLOAT))
    ((actual, expected),) = both(model, tmp_path / "q.onnx", {"x": ROWS})
    assert actual.dtype == expected.dtype == np.dtype(dtype)
    by_hand = np.clip(np.rint(np.float64(ROWS) / 0.5) + 3, *_limits(dtype))
    assert np.array_equal(actual, by_hand)
    if dtype in ("int8", "uint8"):  # onnxruntime wraps 16 bits where no integer holds the value
        assert np.array_equal(actual, expected)


def _limits(dtype: str) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


@pytest.mark.parametrize("axis", [0, -1])
def test_scales_and_zero_points_per_slice(tmp_path: Path, axis: int) -> None:
    n = ROWS.shape[axis]
    scale = np.linspace(0.1, 2, n, dtype=np.float32)
    zero = np.arange(n, dtype=np.int8) * 20 - 60
    values: dict[str, Any] = {"scale": scale, "zero": zero}
    x = ("x", ROWS.shape, TensorProto.FLOAT)
    model = _one("QuantizeLinear", (TensorProto.INT8,), values, x, 13, axis=axis)
    ((actual, expected),) = both(model, tmp_path / "q.onnx", {"x": ROWS})
    assert np.array_equal(actual, expected)
    back = _one(
        "DequantizeLinear", (TensorProto.FLOAT,), values, ("x", ROWS.shape, TensorProto.INT8), 13,
        axis=axis,
    )  # fmt: skip
    ((again, hoped),) = both(back, tmp_path / "d.onnx", {"x": actual})
    assert np.array_equal(again, hoped)


@pytest.mark.parametrize("block", [3, 4])  # the second leaves a block of two
def test_scales_per_block(tmp_path: Path, block: int) -> None:
    n = -(-ROWS.shape[1] // block)
    values: dict[str, Any] = {
        "scale": np.linspace(0.5, 2, 2 * n, dtype=np.float32).reshape(2, n),
        "zero": np.arange(2 * n, dtype=np.uint8).reshape(2, n),
    }
    x = ("x", ROWS.shape, TensorProto.FLOAT)
    model = _one("QuantizeLinear", (TensorProto.UINT8,), values, x, axis=1, block_size=block)
    ((actual, expected),) = both(model, tmp_path / "q.onnx", {"x": ROWS})
    assert np.array_equal(actual, expected)
    back = _one(
        "DequantizeLinear", (TensorProto.FLOAT,), values, ("x", ROWS.shape, TensorProto.UINT8),
        axis=1, block_size=block,
    )  # fmt: skip
    ((again, hoped),) = both(back, tmp_path / "d.onnx", {"x": actual})
    assert np.array_equal(again, hoped)


def test_scales_that_are_inputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    inputs = [info("x", [2, 6]), info("s", []), info("z", [], TensorProto.INT8)]
    outputs = [info("q", [2, 6], TensorProto.INT8), info("y", [2, 6])]
    values: dict[str, Any] = {
        "x": ROWS,
        "s": np.array(0.7, np.float32),
        "z": np.array(-128, np.int8),
    }
    for actual, expected in both(model_of(nodes, inputs, outputs), tmp_path / "qdq.onnx", values):
        assert np.array_equal(actual, expected)


def test_weights_of_four_bits_are_known_floats(tmp_path: Path) -> None:
    """The machine has no type of 4 bits: constants are dequantised before the program runs."""
    packed = np.arange(-8, 8).astype(ml_dtypes.int4).reshape(4, 4)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"]),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    x = np.eye(4, dtype=np.float32)
    model = model_of(
        nodes, [info("x", [4, 4])], [info("y", [4, 4])],
        {"w": packed, "s": np.array(0.25, np.float32)}, 21,
    )  # fmt: skip
    ((actual, _),) = both(model, tmp_path / "w4.onnx", {"x": x})
    assert np.array_equal(actual, np.arange(-8, 8).reshape(4, 4) * 0.25)


@pytest.mark.parametrize(
    "x",
    [
        np.linspace(-3, 9, 12, dtype=np.float32),
        np.linspace(1, 9, 12, dtype=np.float32),
        np.linspace(-9, -1, 12, dtype=np.float32),
        np.zeros(12, np.float32),
    ],
)
def test_dynamic_quantisation(tmp_path: Path, x: np.ndarray) -> None:
    kinds = (TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8)
    model = _one("DynamicQuantizeLinear", kinds, {}, ("x", x.shape, TensorProto.FLOAT))
    for actual, expected in both(model, tmp_path / "dynamic.onnx", {"x": x}):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(actual, expected)


def test_reductions_and_choices_of_small_integers(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["high"], axes=[1], keepdims=0),
        helper.make_node("ReduceMin", ["x"], ["low"], axes=[1], keepdims=0),
        helper.make_node("Max", ["x", "k"], ["most"]),
        helper.make_node("Transpose", ["x"], ["turned"]),
    ]
    x = np.random.default_rng(3).integers(-128, 128, (3, 50)).astype(np.int8)
    outputs = [
        info("high", [3], TensorProto.INT8),
        info("low", [3], TensorProto.INT8),
        info("most", [3, 50], TensorProto.INT8),
        info("turned", [50, 3], TensorProto.INT8),
    ]
    k = {"k": np.array(-5, np.int8)}
    model = model_of(nodes, [info("x", [3, 50], TensorProto.INT8)], outputs, k, 13)
    for actual, expected in both(model, tmp_path / "int8.onnx", {"x": x}):
        assert actual.dtype == np.int8
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize(
    ("attributes", "given", "message"),
    [
        ({"axis": 7}, {"s": np.ones(6, np.float32)}, "axis 7 is out of range for rank 2"),
        ({}, {"s": np.ones(5, np.float32)}, r"'s' has shape \(5,\): expected \(\) or \(6,\)"),
        (
            {"block_size": 4},
            {"s": np.ones((2, 3), np.float32)},
            r"expected \(\) or \(2, 2\).*axis 1 and block_size 4",
        ),
        (
            {"output_dtype": TensorProto.INT8},
            {"s": np.float32(1), "z": np.uint8(0)},
            "output_dtype is int8, but its zero point is uint8",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, attributes: dict[str, int], given: dict[str, Any], message: str
) -> None:
    x = ("x", ROWS.shape, TensorProto.FLOAT)
    path = tmp_path / "bad.onnx"
    onnx.save(_one("QuantizeLinear", (TensorProto.UINT8,), given, x, **attributes), path)
    with pytest.raises(BadModel, match=message):
        load_onnx(path)
