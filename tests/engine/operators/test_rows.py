"""Indices of elements that are those of whole rows, beside onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.transform import Phase, transform

_SHAPE, _N = (6, 4, 3), 9


def _model(kind: str, axis: int, *, is_known: bool, is_repeated: bool = True) -> onnx.ModelProto:
    """Return a graph that expands an index along an axis, and gathers or scatters with it."""
    wide = list(_SHAPE)
    wide[axis] = _N if kind != "GatherElements" else 5
    narrow = [size if d == axis else 1 for d, size in enumerate(wide)]
    index = np.random.default_rng(0).integers(-_SHAPE[axis], _SHAPE[axis], narrow)
    weights: dict[str, np.ndarray] = {"shape": np.array(wide, np.int64)}
    nodes, inputs = [], [info("x", _SHAPE, TensorProto.FLOAT)]
    if is_known:
        whole = np.broadcast_to(index, wide).copy()
        if not is_repeated:
            whole.reshape(-1)[0] = (whole.reshape(-1)[0] + 1) % _SHAPE[axis]
        weights["rows"] = whole
    else:
        inputs.append(info("i", tuple(narrow), TensorProto.INT64))
        nodes.append(helper.make_node("Expand", ["i", "shape"], ["rows"]))
    shape = tuple(wide)
    if kind == "GatherElements":
        nodes.append(helper.make_node(kind, ["x", "rows"], ["y"], axis=axis))
    else:
        inputs.append(info("u", shape, TensorProto.FLOAT))
        nodes.append(
            helper.make_node(
                "ScatterElements", ["x", "rows", "u"], ["y"], axis=axis, reduction=kind
            )
        )
        shape = _SHAPE
    return model_of(nodes, inputs, [info("y", shape, TensorProto.FLOAT)], weights, opset=18)


def _data(model: onnx.ModelProto, axis: int) -> dict[str, Any]:
    random, data = np.random.default_rng(1), {}
    for value in model.graph.input:
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if value.name == "i":
            data["i"] = random.integers(-_SHAPE[axis], _SHAPE[axis], sizes)
        else:
            data[value.name] = random.uniform(-2, 2, sizes).astype(np.float32)
    return data


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("kind", ["GatherElements", "add", "max"])
def test_rows_are_moved_whole(kind: str, is_known: bool, axis: int, tmp_path: Path) -> None:
    model = _model(kind, axis, is_known=is_known)
    path = tmp_path / "m.onnx"
    for actual, expected in both(model, path, _data(model, axis)):
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
    names = {
        op.operator.name for op in transform(load_onnx(path), phases=[Phase.DECOMPOSE]).operations
    }
    assert not names & {"GatherElements", "ScatterElements"}


@pytest.mark.parametrize("kind", ["GatherElements", "add"])
def test_elements_with_indices_of_their_own_stay(kind: str, tmp_path: Path) -> None:
    model = _model(kind, 0, is_known=True, is_repeated=False)
    path = tmp_path / "m.onnx"
    for actual, expected in both(model, path, _data(model, 0)):
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
    names = {
        op.operator.name for op in transform(load_onnx(path), phases=[Phase.DECOMPOSE]).operations
    }
    assert names & {"GatherElements", "ScatterElements"}
