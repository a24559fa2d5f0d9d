"""Nodes that PopART refuses, in the words that programs look for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import popart
from popart import checked_node
from popart.node_refusals.quotation import UNKNOWN_CONTENT

Make = Callable[[popart.Builder], str]


def _refusal(make: Make) -> str:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    with pytest.raises(popart.popart_exception) as refused:
        _session(builder, make(builder)).prepareDevice()
    words: str = str(refused.value)
    return words


def _session(builder: popart.Builder, out: str) -> popart.InferenceSession:
    flow = popart.DataFlow(1, {out: popart.AnchorReturnType("All")})
    device = popart.DeviceManager().createCpuDevice()
    return popart.InferenceSession(builder.getModelProto(), flow, device)


def _input(builder: popart.Builder, *shape: int, of: str = "FLOAT") -> str:
    name: str = builder.addInputTensor(of, list(shape))
    return name


def _constant(builder: popart.Builder, *values: int) -> str:
    name: str = builder.aiOnnx.constant(np.array(values, np.int64))
    return name


ATTRIBUTES: list[tuple[Make, str]] = [
    (
        lambda b: b.aiOnnx.averagepool([_input(b, 1, 1, 4, 4)], [2, 2], count_include_pad=1),
        "`count_include_pad` is not supported",
    ),
    (
        lambda b: b.aiOnnx.maxpool([_input(b, 1, 1, 8, 8)], 1, [2, 2], dilations=[2, 1])[0],
        "MaxPool has dilations [2 1]. Dilations of value other than 1 are currently not supported.",
    ),
    (
        lambda b: b.aiOnnx.maxpool([_input(b, 1, 1, 8, 8)], 1, [2, 2], storage_order=1)[0],
        "storage_order != 0, not supported",
    ),
    (
        lambda b: b.aiOnnx.randomnormal([3], seed=1.0),
        "ai.onnx.RandomNormal:1: Optional seed attribute is not supported. Use"
        " session::setRandomSeed instead.",
    ),
    (
        lambda b: b.aiOnnx.randomuniform([3], dtype=11),
        "The data type DOUBLE is not supported in Poplar",
    ),
    (
        lambda b: b.aiOnnx.randomuniformlike([_input(b, 3, of="DOUBLE")]),
        "ai.onnx.RandomUniformLike:1 : Unsupported data type requested: DOUBLE",
    ),
    (
        lambda b: b.aiGraphcore.shapeddropout([_input(b, 2, 2)], [2, 1], ratio=1.5),
        "ai.graphcore.ShapedDropout:1 ratio value 1.5 is not valid. Please use a value in the"
        " interval [0,1)",
    ),
]

OPERANDS: list[tuple[Make, str]] = [
    (
        lambda b: b.aiOnnx.matmul([_input(b, 3, 4), _input(b, 3, 4)]),
        "Op(ai.onnx.MatMul:9, inputs=[input, input/1], outputs=[MatMul:0]) contracting dimensions"
        " unequal: lhs 'input' [3 4], rhs 'input/1' [3 4]",
    ),
    (
        lambda b: b.aiOnnx.matmul([_input(b, 3), _input(b)]),
        "Op(ai.onnx.MatMul:9, inputs=[input, input/1], outputs=[MatMul:0]) doesn't support scalar"
        " tensor input/1 as the rhs input",
    ),
    (
        lambda b: b.aiOnnx.sub([_input(b, 2, of="FLOAT16"), _input(b, 2)], "apart"),
        "np broadcasting failed on Op(apart (ai.onnx.Sub:7), inputs=[input, input/1],"
        " outputs=[Sub:0]), incompatible types FLOAT16 and FLOAT (shapes [2] and [2])",
    ),
    (
        lambda b: b.aiOnnx.reshape([_input(b, 4, 6), _constant(b, -1, -1)]),
        "shape input to ReshapeOp can only use -1 to specify one unknown dimension",
    ),
    (
        lambda b: b.aiOnnx.reshape([_input(b, 4, 6), _constant(b, -1, 7)]),
        "Incompatible inferred dimension, not whole number.",
    ),
    (
        lambda b: b.aiOnnx.tile([_input(b, 4, 6), _input(b, 2, of="INT64")]),
        "The 'Repeats' Tensor `input/1' must be of type Constant",
    ),
    (
        lambda b: b.aiOnnx.tile([_input(b, 4, 6), _constant(b, 2)]),
        "'Repeats' tensor `Constant:0' should have one element for each dimension of the data"
        " tensor",
    ),
    (
        lambda b: b.aiOnnx.slice([_input(b, 4), _input(b, 1, of="INT64"), _constant(b, 3)]),
        UNKNOWN_CONTENT.format(identifier="ai.onnx.Slice:11", name="starts", tensor="input/1"),
    ),
    (
        lambda b: b.aiGraphcore.shapeddropout([_input(b, 2, 2)], [4, 4]),
        "ShapedDropout: incompatible input tensor and dropout shape."
        " ai.graphcore.ShapedDropout:1 is configured with shape [4 4] which is not broadcastable to"
        " the input tensor with shape [2 2].",
    ),
]


SCATTERS = [
    ([6, 3, 5], [1, 3, 5], {}, "Partial broadcasting of indices is not currently supported."),
    (
        [6, 3],
        [6, 4],
        {},
        "Failed to expand 'indices' shape [6 4] to match 'src' shape [6 3] using reduction axis ="
        " 0.",
    ),
    (
        [3, 4],
        [3, 4, 1],
        {},
        "Invalid rank for indices input. Indices rank 3 must be <= data input rank 2.",
    ),
    (
        [3, 4],
        [3, 4],
        {"axis": 4},
        "ScatterReduceOp::setup axis = 4 is outside the acceptable range [-2, 1]",
    ),
    (
        [3, 4],
        [3, 4],
        {"axis_size": 0},
        "ScatterReduceOp axis_size = 0 is not valid: must be > 0.",
    ),
]


@pytest.mark.parametrize(("data", "indices", "settings", "words"), SCATTERS)
def test_scatters(
    data: list[int], indices: list[int], settings: dict[str, int], words: str
) -> None:
    def make(builder: popart.Builder) -> str:
        names = [_input(builder, *data), _input(builder, *indices, of="UINT32")]
        stated = {"axis": 0, "axis_size": 5, **settings}
        name: str = builder.aiGraphcore.scatterreduce(names, **stated)
        return name

    assert _refusal(make) == words


@pytest.mark.parametrize(("make", "words"), [*ATTRIBUTES, *OPERANDS])
def test_words(make: Make, words: str) -> None:
    assert _refusal(make) == words


def test_operands_of_the_sixth_version_have_one_shape() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 7, "ai.graphcore": 1})
    out = builder.aiOnnxOpset7.mean([_input(builder, 2, 3), _input(builder, 3)])
    with pytest.raises(popart.popart_exception, match=r"ai\.onnx\.Mean:6 do not all the same type"):
        _session(builder, out)


def test_a_node_in_a_subgraph_is_checked() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    inside = builder.createSubgraphBuilder()
    given = inside.addInputTensor(popart.TensorInfo("FLOAT", [1, 1, 4, 4]))
    inside.addOutputTensor(inside.aiOnnx.averagepool([given], [2, 2], count_include_pad=1))
    out = builder.aiGraphcore.call([_input(builder, 1, 1, 4, 4)], 1, inside)[0]
    with pytest.raises(popart.popart_exception, match="count_include_pad"):
        _session(builder, out)


def test_a_model_that_is_accepted_costs_no_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Any] = []
    monkeypatch.setattr(checked_node, "Graph", lambda: loads.append(1))
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    _session(builder, builder.aiOnnx.matmul([_input(builder, 2, 3), _input(builder, 3, 2)]))
    assert not loads
