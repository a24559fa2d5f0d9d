"""Gathers of weights, which lie by the plan of a table, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import compile_model, load_machine, load_onnx


def _model(weights: np.ndarray, shape: tuple[int, ...]) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
    return model_of(
        [helper.make_node("Gather", ["w", "i"], ["y"])],
        [info("i", shape, TensorProto.INT32)],
        [info("y", (*shape, weights.shape[1]), kind)],
        {"w": weights},
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("n_columns", [16, 15])
@pytest.mark.parametrize("shape", [(2, 6), (7,), ()])
def test_values(tmp_path: Path, dtype: type, n_columns: int, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(n_columns)
    weights: np.ndarray = random.uniform(-2, 2, (300, n_columns)).astype(dtype)
    indices = np.asarray(random.integers(-300, 300, shape), np.int32)
    ((actual, expected),) = both(_model(weights, shape), tmp_path / "m.onnx", {"i": indices})
    np.testing.assert_array_equal(actual, expected)


def test_rows_do_not_move(tmp_path: Path) -> None:
    """Indices are sent to all tiles, and parts of the rows that are looked up."""
    weights = np.zeros((4_000, 128), np.float16)
    onnx.save(_model(weights, (32,)), tmp_path / "m.onnx")
    compiled = compile_model(load_onnx(tmp_path / "m.onnx"), load_machine("gc200"))
    sent = sum(
        int(step.cost.received_bytes.dense().sum())
        for step in compiled.executable.steps
        if step.kind == "DoExchange"
    )
    assert sent < weights.nbytes / 2
