"""Slices whose start is computed and whose size follows from the graph, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Engine, compile_model, load_machine, load_onnx
from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx import inputs_to_set
from tilescope.engine.ir import Model
from tilescope.engine.operators.movement.slicing import FIXED_SIZES

X = np.arange(3 * 10 * 4, dtype=np.float32).reshape(3, 10, 4)
Node = onnx.NodeProto


def made(*arguments: Any, **attributes: Any) -> Node:
    return helper.make_node(*arguments, **attributes)


#: ``x[:, i : i + 4]`` and its like, as exporters write them; ``i`` is an input.
FORMS: dict[str, tuple[list[Node], dict[str, Any]]] = {
    "unsqueezed": (
        [
            made("Add", ["i", "four"], ["e"]),
            made("Unsqueeze", ["i", "zero"], ["s1"]),
            made("Unsqueeze", ["e", "zero"], ["e1"]),
            made("Slice", ["x", "s1", "e1", "one"], ["y"]),
        ],
        {"four": 4, "zero": [0], "one": [1]},
    ),
    "reshaped, negative axis": (
        [
            made("Reshape", ["i", "flat"], ["s1"]),
            made("Add", ["s1", "four"], ["e1"]),
            made("Slice", ["x", "s1", "e1", "axis", "step"], ["y"]),
        ],
        {"flat": [-1], "four": [4], "axis": [-2], "step": [1]},
    ),
    "computed start, subtracted": (
        [
            made("Mul", ["i", "two"], ["d"]),
            made("Sub", ["d", "one"], ["s"]),
            made("Add", ["three", "d"], ["e"]),
            made("Unsqueeze", ["s", "zero"], ["s1"]),
            made("Unsqueeze", ["e", "zero"], ["e1"]),
            made("Slice", ["x", "s1", "e1", "axis"], ["y"]),
        ],
        {"two": 2, "one": 1, "three": 3, "zero": [0], "axis": [1]},
    ),
    "one axis computed, one not": (
        [
            made("Add", ["i", "four"], ["e"]),
            made("Unsqueeze", ["i", "zero"], ["s1"]),
            made("Unsqueeze", ["e", "zero"], ["e1"]),
            made("Concat", ["first", "s1"], ["starts"], axis=0),
            made("Concat", ["last", "e1"], ["ends"], axis=0),
            made("Slice", ["x", "starts", "ends", "axes"], ["y"]),
        ],
        {"four": 4, "zero": [0], "first": [1], "last": [3], "axes": [2, 1]},
    ),
}


def model_of_form(nodes: list[Node], constants: dict[str, Any], path: Path) -> onnx.ModelProto:
    graph = helper.make_graph(
        [*nodes, made("Relu", ["y"], ["z"])],
        "slices",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape),
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
        ],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(v, np.int64), name) for name, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return model


def has_computed_start(model: Model) -> bool:
    return any(FIXED_SIZES in operation.attributes for operation in model.operations)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_tiles", [1, 7])
def test_a_slice_at_a_computed_start(form: str, n_tiles: int, tmp_path: Path) -> None:
    path = tmp_path / "slice.onnx"
    model = model_of_form(*FORMS[form], path)
    assert inputs_to_set(model) == []
    session = onnxruntime.InferenceSession(str(path))
    loaded = load_onnx(path)
    assert has_computed_start(loaded)
    compiled = compile_model(loaded, load_machine("gc200", tiles_per_ipu=n_tiles))
    with Engine(compiled.executable) as engine:
        for start in (1, 2, 3):
            inputs: dict[str, Any] = {"x": X, "i": np.array(start, np.int64)}
            (expected,) = session.run(None, inputs)
            (actual,) = compiled.run(engine, inputs).values()
            assert np.array_equal(actual, expected), start


def test_a_start_that_is_set_is_a_plain_slice(tmp_path: Path) -> None:
    path = tmp_path / "slice.onnx"
    model_of_form(*FORMS["unsqueezed"], path)
    model = load_onnx(path, values={"i": np.array(2, np.int64)})
    assert not has_computed_start(model)
    assert model.outputs[0][1].shape == (3, 4, 4)


@pytest.mark.parametrize("size", [0, 11, -1])
def test_a_size_that_is_none_is_refused(size: int, tmp_path: Path) -> None:
    nodes, constants = FORMS["unsqueezed"]
    path = tmp_path / "slice.onnx"
    model_of_form(nodes, constants | {"four": size}, path)
    with pytest.raises(BadModel):
        load_onnx(path)


def test_an_end_of_its_own_needs_values(tmp_path: Path) -> None:
    nodes = [
        made("Unsqueeze", ["i", "zero"], ["s1"]),
        made("Slice", ["x", "s1", "end", "one"], ["y"]),
    ]
    path = tmp_path / "slice.onnx"
    model = model_of_form(nodes, {"zero": [0], "one": [1], "end": [2**62]}, path)
    assert inputs_to_set(model) == ["i"]
    with pytest.raises(BadModel, match="starts"):
        load_onnx(path)
