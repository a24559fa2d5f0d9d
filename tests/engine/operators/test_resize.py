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


@pytest.mark.parametrize("factor", [2, 3, 5])
@pytest.mark.parametrize("height", [8, 40])
def test_the_copies_of_an_axis_do_not_grow_with_it(
    tmp_path: Path, height: int, factor: int
) -> None:
    out = height * factor
    nodes = _resize("linear", factor, "x", "y")
    proto = model_of(nodes, [info("x", [1, 16, height, 8])], [info("y", [1, 16, out, 8])], {})
    onnx.save(proto, tmp_path / "model.onnx")
    machine = load_machine("gc200", tiles_per_ipu=16)
    compiled = compile_model(load_onnx(tmp_path / "model.onnx"), machine)
    n_batches = [
        len(step.compute_set.batches)
        for step in compiled.executable.steps
        if step.compute_set is not None and step.name.endswith("take")
    ]
    # Of two sequences of positions, a run for every phase, and one more where an end is clipped.
    assert sum(n_batches) <= 2 * (factor + factor)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [(16, 8), (8, 24), (12, 8), (8, 20), (13, 11), (6, 5)], ids=str)
def test_an_axis_of_any_size_is_resized(tmp_path: Path, mode: str, sizes: tuple[int, int]) -> None:
    target = numpy_helper.from_array(np.array([1, 3, *sizes], np.int64))
    constant = helper.make_node("Constant", [], ["sizes"], value=target)
    resize = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)
    proto = model_of([constant, resize], [info("x", [1, 3, 8, 8])], [info("y", [1, 3, *sizes])], {})
    onnx.save(proto, tmp_path / "model.onnx")
    machine = load_machine("gc200", tiles_per_ipu=16)
    compiled = compile_model(load_onnx(tmp_path / "model.onnx"), machine, is_checked=True)
    x = _RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32)
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
