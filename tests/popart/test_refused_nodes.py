"""Nodes that PopART refuses, in its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import popart

_FLOAT, _INT = "FLOAT", "INT32"


def _refusal(build: Callable[[popart.Builder], str], opset: int) -> str:
    builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    out = build(builder)
    with pytest.raises(popart.popart_exception) as refusal:
        popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(1, [out]),
            popart.DeviceManager().createCpuDevice(),
        )
    return str(refusal.value)


def _of(builder: popart.Builder, *shape: int, kind: str = _FLOAT) -> str:
    name: str = builder.addInputTensor(kind, list(shape))
    return name


def _normalised(builder: popart.Builder, rank: int, *sizes: int) -> str:
    operands = [_of(builder, 2, 3, 4)] + [_of(builder, size) for size in sizes]
    operands[0] = _of(builder, *(2, 3, 4)[:rank])
    out: str = builder.aiOnnx.batchnormalization(operands, 1)[0]
    return out


def _with_function(builder: popart.Builder, function: str) -> str:
    operands = [_of(builder, 2, 1, 3), _of(builder, 1, 8, 3), _of(builder, 1, 8, 2)]
    outputs = builder.aiOnnx.lstm(operands, 3, clip=None)
    builder.addNodeAttribute("activations", [function] * 3, set(outputs))
    out: str = outputs[0]
    return out


def _recurrent_with(name: str, value: Any, kind: str = "rnn") -> Callable[[Any], str]:
    """Return what adds a recurrent layer of two units with an attribute."""

    def add(builder: popart.Builder) -> str:
        n_gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
        operands = [_of(builder, 2, 1, 3), _of(builder, 1, 2 * n_gates, 3)]
        operands.append(_of(builder, 1, 2 * n_gates, 2))
        n_outputs = 3 if kind == "lstm" else 2
        outputs = getattr(builder.aiOnnx, kind)(operands, n_outputs, clip=None)
        builder.addNodeAttribute(name, value, set(outputs))
        out: str = outputs[0]
        return out

    return add


_CASES: dict[str, tuple[Callable[[Any], str], int, str]] = {
    "no activation": (
        _recurrent_with("activations", []),
        9,
        "only supports 1 activation, got 0",
    ),
    "two activations": (
        _recurrent_with("activations", ["Tanh", "Tanh"]),
        9,
        "only supports 1 activation, got 2",
    ),
    **{
        f"hidden size of {kind}": (
            _recurrent_with("hidden_size", 5, kind),
            9,
            f"{kind.upper()}Op attribute `hidden_size' = 5 does not match 2, the hidden size of",
        )
        for kind in ("rnn", "gru", "lstm")
    },
    "broadcast": (
        lambda b: b.aiOnnx.add([_of(b, 10, 10), _of(b, 10, 5)], "C"),
        9,
        "np broadcasting failed on 'Op C (ai.onnx.Add:7)', frames [10, 10] and [10, 5] are not"
        " aligned",
    ),
    "broadcast of integers": (
        lambda b: b.aiGraphcore.bitwiseand([_of(b, 3, kind=_INT), _of(b, 2, kind=_INT)]),
        9,
        "frames [3] and [2] are not aligned",
    ),
    "sum of three": (
        lambda b: b.aiOnnx.sum([_of(b, 1, 2), _of(b, 3, 1), _of(b, 4, 2)]),
        9,
        "frames [3, 2] and [4, 2] are not aligned",
    ),
    "order": (
        lambda b: b.aiOnnx.transpose([_of(b, 2, 3)], [1]),
        10,
        "Rank of permutation tensor [1], rank 1 must be equal to rank of input tensor, shape [2 3],"
        " rank 2.",
    ),
    "dimension from the end": (
        lambda b: b.aiGraphcore.reverse([_of(b, 2, 3)], [-1]),
        10,
        "invalid dimension '-1'. Only positive dimensions are supported",
    ),
    "dimension twice": (
        lambda b: b.aiGraphcore.reverse([_of(b, 2, 3)], [1, 1]),
        10,
        "Dimension 1 appears multiple times in the list of dimensions of ReverseOp",
    ),
    "dimension beyond the rank": (
        lambda b: b.aiGraphcore.reverse([_of(b, 2, 3)], [2]),
        10,
        "invalid dimension '2' for input tensor of rank 2",
    ),
    "rank of a normalisation": (
        lambda b: _normalised(b, 2, 3, 3, 3, 3),
        10,
        "batch norm requires X to have a rank >= 3.  x has rank 2",
    ),
    "mean of a normalisation": (
        lambda b: _normalised(b, 3, 3, 3, 1, 3),
        10,
        "expected shape of batch norm input tensor mean ([1]) to be [3] to match dimension 1 of X"
        " ([2 3 4])",
    ),
    "bound of a clip": (
        lambda b: b.aiOnnxOpset11.clip([_of(b, 2), _of(b, 1)], "name"),
        11,
        "currently only supports constant min/max parameters. Input 'min' (input/1) has no data.",
    ),
    "function of units": (
        lambda b: _with_function(b, "Affine"),
        10,
        "LSTMOp activation 'Affine' is not supported",
    ),
    "ratio": (
        lambda b: b.aiOnnx.dropout([_of(b, 2)], 1, ratio=1.5)[0],
        10,
        "ai.onnx.Dropout:10 ratio value 1.5 is not valid. Please use a value in the interval [0,1)",
    ),
    "labels": (
        lambda b: b.aiGraphcore.nllloss([_of(b, 2, 4, 3), _of(b, 2, 5, kind=_INT)]),
        10,
        "The label tensor (INT32   [2 5]) must have shape [2 4] to match all but the final"
        " dimension of the probabilities tensor (FLOAT   [2 4 3]) in Op ",
    ),
    "labels of floats": (
        lambda b: b.aiGraphcore.nllloss([_of(b, 2, 3), _of(b, 2)]),
        10,
        "Expected the label tensor NllOp to be an integer data type",
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_a_node_is_refused_in_words_of_popart(case: str) -> None:
    build, opset, sentence = _CASES[case]
    assert sentence in _refusal(build, opset)


def test_a_shape_that_does_not_broadcast() -> None:
    def build(builder: popart.Builder) -> str:
        sizes = builder.aiOnnx.constant(np.array([3, 4]))
        out: str = builder.aiOnnx.expand([_of(builder, 5, 4), sizes])
        return out

    assert "corresponding dimensions must have the same value or one of them must be 1" in _refusal(
        build, 10
    )
