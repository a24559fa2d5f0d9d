"""Weights are parameters: frozen ones are folded, trainable ones are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx
from tilescope.engine.errors import BadInput
from tilescope.engine.ir import Constant, Parameter


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Save ``x * neg(w) + 1``."""
    nodes = [
        helper.make_node("Neg", ["w"], ["n"], name="negate"),
        helper.make_node("Mul", ["x", "n"], ["m"], name="scale"),
        helper.make_node("Constant", [], ["one"], name="one", value_float=1.0),
        helper.make_node("Add", ["m", "one"], ["y"], name="add"),
    ]
    model = model_of(nodes, [info("x", [4])], [info("y", [4])], {"w": np.ones(4, np.float32)})
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_what_is_computed_of_frozen_parameters_is_a_constant(path: Path) -> None:
    scale, add = load_onnx(path).operations
    assert [type(value) for value in scale.operands[1:]] == [Constant]
    assert [type(value) for value in add.operands[1:]] == [Constant]
    assert load_onnx(path).parameters == ()


def test_a_trainable_parameter_is_not_folded(path: Path) -> None:
    model = load_onnx(path, trainable=["w"])
    assert [operation.name for operation in model.operations] == ["negate", "scale", "add"]
    (weight,) = model.parameters
    assert isinstance(weight, Parameter)
    assert (weight.is_trainable, weight.known) == (True, None)
    assert weight.array.tolist() == [1, 1, 1, 1]
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=2))
    assert [held.name for held in compiled.held] == ["w"]
    x = np.arange(4, dtype=np.float32)
    with Engine(compiled.executable) as engine:
        assert compiled.run(engine, {"x": x})["y"].tolist() == [1, 0, -1, -2]
        compiled.write_held(engine, {"w": np.full(4, 2, np.float32)})
        assert compiled.run(engine, {"x": x})["y"].tolist() == [1, -1, -3, -5]


def test_an_unknown_parameter_is_refused(path: Path) -> None:
    with pytest.raises(BadInput, match="Unknown parameter 'v'"):
        load_onnx(path, trainable=["v"])
