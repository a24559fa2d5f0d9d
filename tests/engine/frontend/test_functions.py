"""Functions are inlined before a model is imported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.operators import OPERATORS

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
    ((actual, expected),) = both(model, tmp_path / "own.onnx", {"x": X})
    assert np.array_equal(actual, expected)
    (operation,) = load_onnx(tmp_path / "own.onnx").operations
    assert operation.source == "Add"


def test_an_operator_that_onnx_defines_as_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the engine had no record of it."""
    monkeypatch.delitem(OPERATORS, "ReduceL1")
    node = helper.make_node("ReduceL1", ["x", "axes"], ["y"], name="norm")
    axes = {"axes": np.array([1], np.int64)}
    model = model_of([node], [info("x", [3, 4])], [info("y", [3, 1])], axes, opset=18)
    ((actual, expected),) = both(model, tmp_path / "norm.onnx", {"x": X})
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    onnx.save(model, tmp_path / "norm.onnx")
    assert len(load_onnx(tmp_path / "norm.onnx").operations) > 1


def test_a_body_whose_optional_operands_are_left_out(tmp_path: Path) -> None:
    """The inliner of ONNX does not take them; the last operand comes after three of them."""
    shapes = {name: [1, 2, 4] for name in ("q", "k", "v")}
    node = helper.make_node(
        "LinearAttention",
        ["q", "k", "v", "", "", "beta"],
        ["y", "state"],
        name="delta",
        q_num_heads=1,
        kv_num_heads=1,
        update_rule="delta",
    )
    model = model_of(
        [node],
        [*(info(name, shape) for name, shape in shapes.items()), info("beta", [1, 2, 1])],
        [info("y", [1, 2, 4]), info("state", [1, 1, 4, 4])],
        opset=27,
    )
    random = np.random.default_rng(0)
    inputs = {name: random.random(shape, np.float32) for name, shape in shapes.items()}
    inputs["beta"] = random.random((1, 2, 1), np.float32)
    onnx.save(model, tmp_path / "delta.onnx")
    compiled = compile_model(
        load_onnx(tmp_path / "delta.onnx"), load_machine("gc200", tiles_per_ipu=4)
    )
    with Engine(compiled.executable, resolve_options()) as engine:
        actual = compiled.run(engine, inputs)
    for name, expected in zip(
        ("y", "state"), ReferenceEvaluator(model).run(None, inputs), strict=True
    ):
        np.testing.assert_allclose(actual[name], expected, rtol=1e-4, atol=1e-5)
