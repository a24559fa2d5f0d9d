"""Resized images: one copy and one factor along an axis, in the layout of the images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import compile_model, load_machine, load_onnx
from tilescope.engine.session.engine import Engine

_RANDOM = np.random.default_rng(3)
_WEIGHTS = _RANDOM.standard_normal((16, 16, 3, 3)).astype(np.float32)


def _resize(mode: str, rows: int, x: str, y: str) -> list[onnx.NodeProto]:
    scales = numpy_helper.from_array(np.array([1, 1, rows, 1], np.float32))
    constant = helper.make_node("Constant", [], ["scales"], value=scales)
    return [constant, helper.make_node("Resize", [x, "", "scales"], [y], mode=mode)]


def _conv(x: str, y: str) -> onnx.NodeProto:
    return helper.make_node("Conv", [x, "w"], [y], pads=[1, 1, 1, 1], name=y)


def _compiled(tmp_path: Path, nodes: list[onnx.NodeProto], height: int) -> tuple[Any, Any]:
    inputs, outputs = [info("x", [1, 16, 8, 8])], [info("y", [1, 16, height, 8])]
    proto = model_of(nodes, inputs, outputs, {"w": _WEIGHTS})
    onnx.save(proto, tmp_path / "model.onnx")
    machine = load_machine("gc200", tiles_per_ipu=16)
    return compile_model(load_onnx(tmp_path / "model.onnx"), machine), proto


def _names(compiled: Any) -> list[str]:
    steps = compiled.executable.steps
    return [step.name.rsplit("/", 1)[-1] for step in steps if step.kind == "OnTileExecute"]


@pytest.mark.parametrize(
    ("mode", "n_factors"), [("nearest", 0), ("linear", 1), ("cubic", 4)], ids=str
)
def test_an_axis_is_copied_once(tmp_path: Path, mode: str, n_factors: int) -> None:
    compiled, proto = _compiled(tmp_path, _resize(mode, 3, "x", "y"), 24)
    names = _names(compiled)
    assert names.count("take") == 1
    assert names.count("multiply") == n_factors
    x = _RANDOM.standard_normal((1, 16, 8, 8)).astype(np.float32)
    expected: Any
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    with Engine(compiled.executable) as engine:
        actual = compiled.run(engine, {"x": x})["y"]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_convolution_reads_a_resized_image_in_place(tmp_path: Path, mode: str) -> None:
    nodes = [_conv("x", "c"), *_resize(mode, 2, "c", "r"), _conv("r", "y")]
    compiled, _ = _compiled(tmp_path, nodes, 16)
    names = _names(compiled)
    assert "preArrange" not in names[names.index("take") :]
