"""Functions are inlined before a model is imported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.operators import supported_operators

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_a_function_of_the_model(tmp_path: Path) -> None:
    model = model_of(
        [helper.make_node("Twice", ["x"], ["y"], name="twice", domain="own")],
        [info("x", [3, 4])],
        [info("y", [3, 4])],
    )
    body = [helper.make_node("Add", ["a", "a"], ["b"], name="add")]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    ((found, expected),) = both(model, tmp_path / "own.onnx", {"x": X})
    assert np.array_equal(found, expected)
    (operation,) = load_onnx(tmp_path / "own.onnx").operations
    assert operation.source == "Add"


def test_an_operator_that_onnx_defines_as_a_function(tmp_path: Path) -> None:
    assert "ReduceL1" not in supported_operators()
    node = helper.make_node("ReduceL1", ["x", "axes"], ["y"], name="norm")
    axes = {"axes": np.array([1], np.int64)}
    model = model_of([node], [info("x", [3, 4])], [info("y", [3, 1])], axes, opset=18)
    ((found, expected),) = both(model, tmp_path / "norm.onnx", {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    onnx.save(model, tmp_path / "norm.onnx")
    assert len(load_onnx(tmp_path / "norm.onnx").operations) > 1
