"""Sequences of tensors are taken apart: values are those of ONNX's reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.facts.census import take_census

X = np.arange(24, dtype=np.float32).reshape(4, 6)
#: A shape that is left open.
ANY: Any = None
Nodes = list[onnx.NodeProto]
INTS = {name: np.array(n, np.int64) for name, n in (("zero", 0), ("one", 1), ("last", -1))}


def split(*operands: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("SplitToSequence", ["x", *operands], ["s"], "split", **attributes)


def at(sequence: str, position: str, result: str = "y") -> onnx.NodeProto:
    return helper.make_node("SequenceAt", [sequence, position], [result], f"at {result}")


def join(sequence: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("ConcatFromSequence", [sequence], ["y"], "join", **attributes)


def node(kind: str, operands: list[str], result: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, operands, [result], f"{kind} {result}", **attributes)


CASES: dict[str, tuple[Nodes, dict[str, NDArray[Any]]]] = {
    "one part each, without the axis": ([split(axis=1, keepdims=0), at("s", "one")], {}),
    "one part each, with the axis": ([split(axis=1), at("s", "last")], {}),
    "parts of a length, the last is shorter": (
        [split("length", axis=1), at("s", "last")],
        {"length": np.array(4, np.int64)},
    ),
    "parts of lengths": (
        [split("lengths", axis=-1), at("s", "one")],
        {"lengths": np.array([1, 3, 2], np.int64)},
    ),
    "unbind as PyTorch writes it": (
        [split("length", axis=0, keepdims=0), at("s", "zero")],
        {"length": np.array(1, np.int64)},
    ),
    "keepdims has no meaning beside lengths": (
        [split("lengths", axis=0, keepdims=0), at("s", "zero")],
        {"lengths": np.array([1, 1, 1, 1], np.int64)},
    ),
    "split and joined": ([split(axis=0), join("s", axis=1)], {}),
    "joined along a new axis": (
        [split(axis=0, keepdims=0), join("s", axis=1, new_axis=1)],
        {},
    ),
    "made of tensors": (
        [
            node("Neg", ["x"], "n"),
            node("SequenceConstruct", ["x", "n", "x"], "s"),
            join("s", axis=0),
        ],
        {},
    ),
    "appended, inserted and erased": (
        [
            node("Neg", ["x"], "n"),
            node("Abs", ["n"], "a"),
            node("SequenceEmpty", [], "e"),
            node("SequenceInsert", ["e", "x"], "s1"),
            node("SequenceInsert", ["s1", "n", "zero"], "s2"),
            node("SequenceInsert", ["s2", "a", "last"], "s3"),
            node("SequenceInsert", ["s3", "x"], "s4"),
            node("SequenceErase", ["s4", "one"], "s5"),
            node("SequenceErase", ["s5"], "s6"),
            join("s6", axis=0),
        ],
        {},
    ),
    "its length": (
        [split(axis=1), node("SequenceLength", ["s"], "l"), node("Cast", ["l"], "y", to=1)],
        {},
    ),
    "a position that is computed from shapes": (
        [
            split(axis=0, keepdims=0),
            node("Shape", ["x"], "shape"),
            node("Gather", ["shape", "zero"], "rows"),
            node("Sub", ["rows", "one"], "place"),
            at("s", "place"),
        ],
        {},
    ),
    "under another name": ([split(axis=0), node("Identity", ["s"], "t"), at("t", "one")], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    nodes, constants = CASES[name]
    model = model_of(nodes, [info("x", X.shape)], [info("y", ANY)], {**INTS, **constants})
    ((actual, expected),) = both(model, tmp_path / "m.onnx", {"x": X})
    assert actual.shape == expected.shape
    assert np.array_equal(actual, expected)
    assert take_census(tmp_path / "m.onnx").problem == ""
    assert take_census(tmp_path / "m.onnx").n_unknown == 0


def test_a_list_that_a_loop_appends_to(tmp_path: Path) -> None:
    """As PyTorch writes a list comprehension: the loop carries the sequence."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    carried = helper.make_sequence_type_proto(tensor)
    body = helper.make_graph(
        [
            node("Gather", ["x", "i"], "row", axis=0),
            node("Exp", ["row"], "e"),
            node("SequenceInsert", ["list", "e"], "longer"),
            node("Identity", ["go"], "still"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_value_info("list", carried),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_value_info("longer", carried),
        ],
    )
    nodes = [
        node("SequenceEmpty", [], "empty"),
        helper.make_node("Loop", ["rounds", "yes", "empty"], ["rows"], "loop", body=body),
        join("rows", axis=0, new_axis=1),
    ]
    constants = {"rounds": np.array(4, np.int64), "yes": np.array(True)}
    model = model_of(nodes, [info("x", X.shape)], [info("y", ANY)], constants)
    ((actual, expected),) = both(model, tmp_path / "m.onnx", {"x": X / 24})
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


REFUSED: dict[str, tuple[Nodes, str]] = {
    "no such element": (
        [split(axis=0), at("s", "nine")],
        "position 9 is outside of a sequence of 4",
    ),
    "an empty sequence is joined": (
        [node("SequenceEmpty", [], "s"), join("s", axis=0)],
        "its sequence is empty",
    ),
    "a position that a run computes": (
        [
            split(axis=0),
            node("ArgMax", ["x"], "i", axis=0, keepdims=0),
            node("Gather", ["i", "zero"], "p"),
            at("s", "p"),
        ],
        "its position is computed as the model runs",
    ),
    "a tensor has no elements": (
        [at("x", "zero")],
        "takes a sequence, and its operand is a tensor",
    ),
    "a sequence is no operand": ([split(axis=0), node("Relu", ["s"], "y")], "has the sequence"),
    "parts of no length": ([split("zero", axis=0), at("s", "zero")], "it has to be above 0"),
    "no such axis": ([split(axis=3), at("s", "zero")], "axis 3 does not exist"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_apart_is_one_sentence(name: str, tmp_path: Path) -> None:
    nodes, sentence = REFUSED[name]
    constants = {**INTS, "nine": np.array(9, np.int64)}
    model = model_of(nodes, [info("x", X.shape)], [info("y", ANY)], constants)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(BadModel) as refused:
        load_onnx(tmp_path / "m.onnx")
    assert sentence in str(refused.value) or "fails the ONNX checker" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_sequence_is_no_result_of_a_model(tmp_path: Path) -> None:
    carried = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    model = model_of([split(axis=0)], [info("x", X.shape)], [helper.make_value_info("s", carried)])
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(BadModel, match="The result of the model has the sequence"):
        load_onnx(tmp_path / "m.onnx")
