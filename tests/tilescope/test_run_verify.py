"""``tilescope run --verify``: outputs beside onnxruntime's, and what roundings explain."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine.errors import BadOption
from tilescope.engine.frontend.onnx.peer import compare_with_peer

Run = Callable[..., Any]
COMMON = ("--tiles", "4", "--no-report", "--verify")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model with an output of floats and one of integers."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("ArgMax", ["y"], ["largest"], axis=1, keepdims=0),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((8, 5)).astype(np.float32)}
    outputs = [info("y", [3, 5]), info("largest", [3], TensorProto.INT64)]
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, [info("x", [3, 8])], outputs, weights), path)
    return path


@pytest.mark.parametrize("precision", ["float", "half"])
def test_a_right_model_agrees(tilescope: Run, model: Path, precision: str) -> None:
    finished = tilescope("run", model, *COMMON, "--precision", precision)
    assert (finished.code, finished.err) == (0, "")
    assert "Output y agrees with onnxruntime: at most" in finished.out
    actual = tilescope("run", model, *COMMON, "--precision", precision, "--json").json()
    y, largest = actual["verified"]
    assert (y["name"], y["agrees"], largest["agrees"]) == ("y", True, True)
    assert y["difference"] <= 32 * y["noise"]
    assert y["noise"] >= {"float": 1e-7, "half": 1e-3}[precision]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda y: y * np.float32(1.001), ""),
        (lambda y: y.astype(np.float64), "float64 (3, 5) beside float32 (3, 5)"),
        (lambda y: y[:2], "float32 (2, 5) beside float32 (3, 5)"),
        (lambda y: np.where(y == y.max(), np.nan, y), "infinities or NaN in other places"),
    ],
)
def test_a_wrong_output_differs(model: Path, spoil: Callable[[Any], Any], reason: str) -> None:
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    weights = onnx.numpy_helper.to_array(onnx.load(model).graph.initializer[0])
    y = x @ weights
    right = {"y": y, "largest": y.argmax(axis=1)}
    assert all(check.agrees for check in compare_with_peer(model, {"x": x}, right))
    problem = compare_with_peer(model, {"x": x}, {**right, "y": spoil(y)})
    assert [(check.name, check.agrees) for check in problem] == [("y", False), ("largest", True)]
    assert problem[0].reason == reason
    moved = {**right, "largest": (right["largest"] + 1) % 5}
    assert [check.agrees for check in compare_with_peer(model, {"x": x}, moved)] == [True, False]


def test_a_difference_is_exit_code_1(
    tilescope: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilescope.engine.frontend.onnx.peer._MOST_NOISES", -1.0)
    finished = tilescope("run", model, *COMMON)
    assert finished.code == 1
    assert "Output y DIFFERS from onnxruntime" in finished.out


def test_values_that_are_set_are_inputs_of_the_peer(tilescope: Run, tmp_path: Path) -> None:
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"])
    inputs = [info("x", [4, 6]), info("sizes", [2], TensorProto.INT64)]
    onnx.save(model_of([node], inputs, [info("y", [None, None])]), tmp_path / "m.onnx")
    finished = tilescope("run", tmp_path / "m.onnx", *COMMON, "--set", "sizes=3,8")
    assert finished.code == 0, finished.err
    assert "agrees" in finished.out


def test_what_cannot_be_compared_is_one_sentence(
    tilescope: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = tilescope("run", model, *COMMON, "--synthetic-data", "zeros")
    assert (finished.code, len(finished.err.splitlines())) == (2, 1)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(BadOption, match="requires onnxruntime, which is not installed"):
        compare_with_peer(model, {}, {})
    assert "pip install onnxruntime" in tilescope("run", model, *COMMON).err
