"""Random operators: types, reproducibility, and equal numbers when folded and when drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.errors import BadModel


def run(path: Path, op_type: str, kind: int = TensorProto.FLOAT, **attributes: Any) -> np.ndarray:
    node = helper.make_node(op_type, ["x"], ["y"], name="draw", **attributes)
    model = model_of([node], [info("x", [40, 50])], [info("y", [40, 50], kind)])
    onnx.save(model, path)
    compiled = compile_model(
        load_onnx(path), load_machine("gc200", tiles_per_ipu=8), is_checked=True
    )
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        return compiled.run(engine, {"x": np.full((40, 50), 0.25, np.float32)})["y"]


@pytest.mark.parametrize(
    ("op_type", "attributes", "mean", "deviation"),
    [
        ("RandomNormalLike", {"mean": 2.0, "scale": 3.0}, 2, 3),
        ("RandomUniformLike", {"low": -1.0, "high": 3.0}, 1, 4 / np.sqrt(12)),
        ("Bernoulli", {}, 0.25, np.sqrt(0.25 * 0.75)),
    ],
)
def test_drawn_numbers(
    tmp_path: Path, op_type: str, attributes: dict[str, Any], mean: float, deviation: float
) -> None:
    first = run(tmp_path / "a.onnx", op_type, **attributes)
    np.testing.assert_array_equal(run(tmp_path / "b.onnx", op_type, **attributes), first)
    peer = run(tmp_path / "c.onnx", op_type, seed=5.0, **attributes)
    assert (peer != first).any()
    assert abs(first.mean() - mean) < 4 * deviation / np.sqrt(first.size)
    assert abs(first.std() - deviation) < 0.1 * deviation


@pytest.mark.parametrize(
    ("whole", "like", "attributes"),
    [
        ("RandomNormal", "RandomNormalLike", {"mean": 2.0, "scale": 3.0}),
        ("RandomUniform", "RandomUniformLike", {"low": -1.0, "high": 3.0}),
    ],
)
def test_folded_numbers_are_those_drawn(
    tmp_path: Path, whole: str, like: str, attributes: dict[str, Any]
) -> None:
    drawn = run(tmp_path / "a.onnx", like, seed=7.0, **attributes)
    node = helper.make_node(whole, [], ["r"], name="draw", shape=[40, 50], seed=7.0, **attributes)
    add = helper.make_node("Add", ["x", "r"], ["y"])
    onnx.save(
        model_of([node, add], [info("x", [40, 50])], [info("y", [40, 50])]), tmp_path / "b.onnx"
    )
    compiled = compile_model(
        load_onnx(tmp_path / "b.onnx"), load_machine("gc200", tiles_per_ipu=8), is_checked=True
    )
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        actual = compiled.run(engine, {"x": np.zeros((40, 50), np.float32)})["y"]
    np.testing.assert_allclose(actual, drawn, rtol=1e-6, atol=1e-6)


def test_whole_numbers_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("RandomNormalLike", ["x"], ["y"], name="draw", dtype=TensorProto.INT32)
    model = model_of([node], [info("x", [4])], [info("y", [4], TensorProto.INT32)])
    onnx.save(model, tmp_path / "a.onnx")
    with pytest.raises(BadModel, match="its type is int32: expected one of float16"):
        load_onnx(tmp_path / "a.onnx")
