"""Every pair of operators that only move elements, beside onnxruntime."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_fuzz import compare

X = np.random.default_rng(0).standard_normal((1, 16, 6, 4)).astype(np.float32)
CONSTANTS = {
    "pads": np.array([0, 0, 1, 0, 0, 0, 1, 2]),
    "cuts": np.array([0, 0, -1, 0, 0, 0, 0, -1]),
    "starts": np.array([-1, 1]),
    "ends": np.array([-1000, 1000]),
    "axes": np.array([2, 3]),
    "steps": np.array([-1, 2]),
    "shape": np.array([0, 0, -1, 2]),
    "wide": np.array([2, 1, 1, 1]),
    "scales": np.array([1, 1, 2, 2], np.float32),
    "repeats": np.array([1, 1, 2, 1]),
    "indices": np.array([1, 0]),
}
OPERATORS: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "pad": ("Pad", ["pads"], {}),
    "reflect": ("Pad", ["pads"], {"mode": "reflect"}),
    "edge": ("Pad", ["pads"], {"mode": "edge"}),
    "cut": ("Pad", ["cuts"], {}),
    "depth to space": ("DepthToSpace", [], {"blocksize": 2}),
    "columns to space": ("DepthToSpace", [], {"blocksize": 2, "mode": "CRD"}),
    "space to depth": ("SpaceToDepth", [], {"blocksize": 2}),
    "transpose": ("Transpose", [], {"perm": [0, 1, 3, 2]}),
    "slice": ("Slice", ["starts", "ends", "axes", "steps"], {}),
    "reshape": ("Reshape", ["shape"], {}),
    "expand": ("Expand", ["wide"], {}),
    "tile": ("Tile", ["repeats"], {}),
    "gather": ("Gather", ["indices"], {"axis": 3}),
    "resize": (
        "Resize", ["", "scales"],
        {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("first", OPERATORS)
def test_any_operator_follows_any_other(first: str, tmp_path: Path) -> None:
    problem = {}
    for second in OPERATORS:
        model, path = model_of_chain((first, second)), tmp_path / "chain.onnx"
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString())
            (expected,) = session.run(None, {"x": X})
        except Exception:  # its errors have no common base; sizes do not fit
            continue
        onnx.save(model, path)
        (actual,) = compare.ours(path, {"x": X}).values()
        why = compare.difference(actual, np.asarray(expected))
        if why:
            problem[second] = why
    assert problem == {}


def model_of_chain(names: tuple[str, ...]) -> onnx.ModelProto:
    nodes = []
    for index, name in enumerate(names):
        op_type, operands, attributes = OPERATORS[name]
        source = f"v{index}" if index else "x"
        nodes.append(
            helper.make_node(op_type, [source, *operands], [f"v{index + 1}"], **attributes)
        )
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [onnx.ValueInfoProto(name=f"v{len(names)}")],
        [numpy_helper.from_array(CONSTANTS[name], name) for name in CONSTANTS if name in used],
    )
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return onnx.shape_inference.infer_shapes(built, data_prop=True)


def test_the_pairs_are_many() -> None:
    assert len(list(product(OPERATORS, repeat=2))) == 196
