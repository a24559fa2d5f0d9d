"""Results whose number of entries data decide: computed in full, read as far as they count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel

RANDOM = np.random.default_rng(5)


def _equal(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    for actual, expected in pairs:
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(actual, expected)


def _at(axis: int | None) -> dict[str, Any]:
    return {} if axis is None else {"axis": axis}


def _open(name: str, rank: int, kind: int = TensorProto.INT64) -> onnx.ValueInfoProto:
    return info(name, [None] * rank, kind)


_SOME = RANDOM.integers(0, 2, (4, 5, 3))


@pytest.mark.parametrize(
    "x", [_SOME, np.zeros_like(_SOME), np.ones_like(_SOME)], ids=["some", "none", "all"]
)
@pytest.mark.parametrize("dtype", ["float32", "bool", "int32"])
def test_positions_of_what_is_not_zero(tmp_path: Path, x: np.ndarray, dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("NonZero", ["x"], ["y"])
    model = model_of([node], [info("x", x.shape, kind)], [_open("y", 2)])
    actual = both(model, tmp_path / "nonzero.onnx", {"x": x.astype(dtype)})
    _equal(actual)
    assert np.array_equal(actual[0][0], np.array(np.nonzero(x)))


def test_elements_where_a_condition_holds(tmp_path: Path) -> None:
    """Indexing by a mask, as PyTorch exports it, and what follows it entry by entry."""
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["mask"]),
        helper.make_node("NonZero", ["mask"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["x", "rows"], ["kept"]),
        helper.make_node("Mul", ["kept", "two"], ["doubled"]),
        helper.make_node("Unsqueeze", ["doubled", "last"], ["y"]),
        helper.make_node("Slice", ["y", "from", "to", "first"], ["few"]),
        helper.make_node("ReduceSum", ["rows", "last"], ["z"], keepdims=0),
    ]
    weights = {
        "zero": np.float32(0) * np.ones(1, np.float32),
        "two": np.full(1, 2, np.float32),
        "last": np.array([1], np.int64),
        "from": np.array([0], np.int64),
        "to": np.array([4], np.int64),
        "first": np.array([0], np.int64),
    }
    outputs = [_open("y", 2, TensorProto.FLOAT), _open("few", 2, TensorProto.FLOAT), _open("z", 1)]
    model = model_of(nodes, [info("x", [6, 7])], outputs, weights)
    for shift in (0, 10, -10):
        x = RANDOM.standard_normal((6, 7)).astype(np.float32) + np.float32(shift)
        _equal(both(model, tmp_path / "mask.onnx", {"x": x}))


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("is_constant", [False, True])
def test_compression(tmp_path: Path, axis: int | None, is_constant: bool) -> None:
    x = RANDOM.standard_normal((4, 5)).astype(np.float32)
    condition = np.array([True, False, True, True])
    node = helper.make_node("Compress", ["x", "c"], ["y"], **_at(axis))
    inputs = [info("x", x.shape)]
    values = {"x": x}
    if not is_constant:
        inputs.append(info("c", condition.shape, TensorProto.BOOL))
        values["c"] = condition
    weights = {"c": condition} if is_constant else {}
    output = _open("y", 1 if axis is None else 2, TensorProto.FLOAT)
    _equal(both(model_of([node], inputs, [output], weights), tmp_path / "c.onnx", values))


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_different_entries(tmp_path: Path, is_sorted: int, axis: int | None) -> None:
    x = RANDOM.integers(0, 2 if axis is not None else 6, (4, 6)).astype(np.float32)
    node = helper.make_node("Unique", ["x"], list("yijn"), sorted=is_sorted, **_at(axis))
    outputs = [_open("y", 1 if axis is None else 2, TensorProto.FLOAT)]
    outputs += [_open(name, 1) for name in "ijn"]
    model = model_of([node], [info("x", x.shape)], outputs)
    _equal(both(model, tmp_path / "unique.onnx", {"x": x}))


def _suppression(
    n: int, n_best: int, overlap: float, score: float | None, **attributes: Any
) -> onnx.ModelProto:
    weights = {"k": np.array([n_best]), "o": np.array([overlap], np.float32)}
    names = ["boxes", "scores", "k", "o"]
    if score is not None:
        weights["s"] = np.array([score], np.float32)
        names.append("s")
    nodes = [
        helper.make_node("NonMaxSuppression", names, ["selected"], **attributes),
        helper.make_node("Slice", ["selected", "two", "three", "one"], ["column"]),
        helper.make_node("Squeeze", ["column", "one"], ["numbers"]),
        helper.make_node("Gather", ["boxes", "numbers"], ["kept"], axis=1),
    ]
    weights |= {name: np.array([i]) for i, name in enumerate(["zero", "one", "two", "three"])}
    inputs = [info("boxes", [2, n, 4]), info("scores", [2, 3, n])]
    outputs = [_open("selected", 2), info("kept", [2, None, 4])]
    return model_of(nodes, inputs, outputs, weights)


@pytest.mark.parametrize("is_centre", [0, 1])
@pytest.mark.parametrize("score", [None, 0.4, 2.0])
def test_boxes_without_those_that_overlap(
    tmp_path: Path, is_centre: int, score: float | None
) -> None:
    """The last least score lets no box pass."""
    model = _suppression(40, 6, 0.3, score, center_point_box=is_centre)
    values = {
        "boxes": RANDOM.random((2, 40, 4)).astype(np.float32),
        "scores": RANDOM.random((2, 3, 40)).astype(np.float32),
    }
    pairs = both(model, tmp_path / "boxes.onnx", values)
    _equal(pairs)
    assert (len(pairs[0][0]) == 0) == (score == 2)


def test_no_box_is_wanted(tmp_path: Path) -> None:
    model = _suppression(40, 0, 0.3, None)
    del model.graph.output[1]
    del model.graph.node[1:]
    values = {"boxes": np.ones((2, 40, 4), np.float32), "scores": np.ones((2, 3, 40), np.float32)}
    _equal(both(model, tmp_path / "boxes.onnx", values))


@pytest.mark.parametrize(
    "after",
    [
        helper.make_node("ReduceMax", ["places"], ["y"], name="after", axes=[1]),
        helper.make_node("Shape", ["places"], ["y"], name="after"),
        helper.make_node("Concat", ["places", "places"], ["y"], name="after", axis=1),
        helper.make_node("Slice", ["places", "minus", "end", "one"], ["y"], name="after"),
        helper.make_node("MatMul", ["places", "wide"], ["y"], name="after"),
        helper.make_node("Add", ["places", "row"], ["y"], name="after"),
    ],
    ids=lambda node: node.op_type,
)
def test_operators_that_need_all_entries_are_refused(tmp_path: Path, after: onnx.NodeProto) -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["places"]), after]
    weights = {"minus": np.array([-3]), "end": np.array([9]), "one": np.array([1])}
    weights |= {"wide": np.ones((12, 2), np.int64), "row": np.ones(12, np.int64)}
    inputs = [info("x", [3, 4], TensorProto.INT64)]
    onnx.save(model_of(nodes, inputs, [_open("y", 2)], weights), tmp_path / "odd.onnx")
    with pytest.raises(
        BadModel, match=r"Node 'after' .*: data decide how many entries of 'places'"
    ):
        load_onnx(tmp_path / "odd.onnx")


def test_branches_that_return_such_results_are_refused(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["p"])], "branch", [], [_open("p", 2)]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    inputs = [info("x", [3, 4]), info("c", [], TensorProto.BOOL)]
    onnx.save(model_of([node], inputs, [_open("y", 2)]), tmp_path / "branch.onnx")
    with pytest.raises(BadModel, match="_branch' returns 'p', of which data decide how many"):
        load_onnx(tmp_path / "branch.onnx")


def test_the_outputs_are_those_of_the_model(tmp_path: Path) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    onnx.save(model_of([node], [info("x", [3])], [_open("y", 2)]), tmp_path / "one.onnx")
    model = load_onnx(tmp_path / "one.onnx")
    assert [name for name, _ in model.outputs] == ["y", "y/count"]
    assert (model.counts["y"].axis, model.counts["y"].output) == (1, "y/count")
