"""Inputs that decide shapes are fixed at compile time; values without elements are values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.errors import BadInput, BadModel
from tilescope.engine.frontend.onnx import inputs_to_set

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def _reshaped(path: Path) -> onnx.ModelProto:
    """Save a model that reshapes its input to the shape of a template, then to given sizes."""
    nodes = [
        helper.make_node("Shape", ["template"], ["wanted"]),
        helper.make_node("Reshape", ["x", "wanted"], ["a"], name="first"),
        helper.make_node("Abs", ["sizes"], ["positive"]),
        helper.make_node("Reshape", ["a", "positive"], ["y"], name="second"),
    ]
    model = model_of(
        nodes,
        [info("x", [4, 6]), info("template", [3, 8]), info("sizes", [2], TensorProto.INT64)],
        [info("y", [None, None])],
    )
    onnx.save(model, path)
    return model


def _run(path: Path, inputs: dict[str, Any], **settings: Any) -> dict[str, np.ndarray]:
    compiled = compile_model(load_onnx(path, **settings), load_machine("gc200", tiles_per_ipu=4))
    with Engine(compiled.executable, resolve_options()) as engine:
        return compiled.run(engine, inputs)


def test_inputs_to_set_are_found(tmp_path: Path) -> None:
    """The template's shape is known; its content is not needed."""
    assert inputs_to_set(_reshaped(tmp_path / "m.onnx")) == ["sizes"]


def test_an_input_that_is_set_is_no_input(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    _reshaped(path)
    inputs = {"x": X, "template": np.zeros((3, 8), np.float32)}
    for sizes in ([2, 12], [-6, 4]):
        actual = _run(path, inputs, values={"sizes": np.array(sizes)})
        assert np.array_equal(actual["y"], X.reshape(np.abs(sizes)))


def test_an_input_that_is_not_set_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    _reshaped(path)
    with pytest.raises(BadModel, match=r"Node 'second' \(Reshape\).*with --set"):
        load_onnx(path)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"other": [1]}, "Unknown input 'other'; the model has x, template, sizes"),
        ({"sizes": [1.5, 2.0]}, "Input 'sizes' takes int64, not float64"),
        ({"sizes": [1, 2, 12]}, r"Input 'sizes' takes an array of shape \(2\), not \(3,\)"),
    ],
)
def test_a_setting_that_does_not_fit(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    path = tmp_path / "m.onnx"
    _reshaped(path)
    with pytest.raises(BadInput, match=words):
        load_onnx(path, values=values)


def test_a_value_without_elements(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    nodes = [
        helper.make_node("Concat", ["x", "nothing"], ["y"], axis=0),
        helper.make_node("ReduceSum", ["nothing"], ["z"], keepdims=0),
    ]
    inputs = [info("x", [4, 6]), info("nothing", [None, 6])]
    onnx.save(model_of(nodes, inputs, [info("y", [None, 6]), info("z", [])]), path)
    nothing = np.zeros((0, 6), np.float32)
    actual = _run(path, {"x": X, "nothing": nothing}, shapes={"nothing": (0, 6)})
    assert np.array_equal(actual["y"], X)
    assert actual["z"] == 0
