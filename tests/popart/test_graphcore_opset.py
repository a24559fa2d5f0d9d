"""Operators of ``ai.graphcore``: shapes, attributes and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import popart
from popart.builder.graphcore_opset import GRAPHCORE_OPERATORS


class Made:
    """A builder with inputs of all kinds."""

    def __init__(self) -> None:
        self.builder = popart.Builder()
        self.gc = self.builder.aiGraphcore

    def input(self, *shape: int, of: str = "FLOAT") -> str:
        return self.builder.addInputTensor(of, list(shape))

    def shapes(self, names: str | list[str]) -> list[list[int]]:
        listed = [names] if isinstance(names, str) else names
        return [self.builder.getTensorShape(name) for name in listed]

    def attributes(self, name: str) -> dict[str, Any]:
        model = onnx.load_from_string(self.builder.getModelProto())
        node = next(node for node in model.graph.node if name in node.output)
        return {
            a.name: onnx.helper.get_attribute_value(a)
            for a in node.attribute
            if a.name != "__debug_info_id"
        }


@pytest.fixture
def made() -> Made:
    return Made()


CASES: list[tuple[Callable[[Made], Any], list[list[int]]]] = [
    (lambda m: m.gc.gelu([m.input(2, 3)]), [[2, 3]]),
    (lambda m: m.gc.scale([m.input(2)], 2.0), [[2]]),
    (lambda m: m.gc.atan2([m.input(2, 1), m.input(3)]), [[2, 3]]),
    (lambda m: m.gc.scaledadd([m.input(2), m.input(2)], 0.5, 2.0), [[2]]),
    (lambda m: m.gc.subsample([m.input(10, 9)], [2, 4]), [[5, 2]]),
    (lambda m: m.gc.reshape(m.input(2, 6), [0, 3, -1]), [[2, 3, 2]]),
    (lambda m: m.gc.slice([m.input(8, 8)], [6, -1], [2, 1], [0, 1]), [[4, 6]]),
    (lambda m: m.gc.reverse([m.input(2, 3)], [1]), [[2, 3]]),
    (lambda m: m.gc.depthtospace([m.input(1, 8, 2, 2)], 2, "CRD"), [[1, 2, 4, 4]]),
    (lambda m: m.gc.identityloss([m.input(4)]), [[]]),
    (lambda m: m.gc.l1loss([m.input(4)], 0.1, popart.ReductionType.NoReduction), [[4]]),
    (lambda m: m.gc.nllloss([m.input(4, 9), m.input(4, of="INT32")]), [[]]),
    (
        lambda m: m.gc.ctcloss(
            [
                m.input(6, 2, 5),
                m.input(2, 3, of="UINT32"),
                m.input(2, of="UINT32"),
                m.input(2, of="UINT32"),
            ],
            popart.ReductionType.NoReduction,
        ),
        [[2]],
    ),
    (
        lambda m: m.gc.ctcbeamsearchdecoder(
            [m.input(6, 2, 5), m.input(2, of="UINT32")], 0, 4, top_paths=3
        ),
        [[2, 3], [2, 3], [2, 3, 6]],
    ),
    (
        lambda m: m.gc.groupnormalization([m.input(2, 6, 4), m.input(6), m.input(6)], 3),
        [[2, 6, 4], [6], [6]],
    ),
    (
        lambda m: m.gc.batchnormalization([m.input(2, 6), *(m.input(6) for _ in range(4))], 5),
        [[2, 6], [6], [6], [6], [6]],
    ),
    (
        lambda m: m.gc.lstm([m.input(5, 2, 3), m.input(4, 7, 4), m.input(4, 4), m.input(2, 2, 4)]),
        [[5, 2, 4], [2, 4]],
    ),
    (lambda m: m.gc.init([3, 4], popart.DataType.FLOAT, popart.InitType.Zero, "n"), [[3, 4]]),
    (lambda m: m.gc.init([3, 4], 11, 1, 0, "made"), [[3, 4]]),
    (
        lambda m: m.gc.dynamicslice([m.input(5, 6), m.input(1, of="UINT32")], [0], [2]),
        [[2, 6]],
    ),
    (
        lambda m: m.gc.dynamicupdate(
            [m.input(5, 6), m.input(1, of="UINT32"), m.input(2, 6)], axes=[0], sizes=[2]
        ),
        [[5, 6]],
    ),
    (lambda m: m.gc.sort([m.input(3, 4)]), [[3, 4], [3, 4]]),
    (lambda m: m.gc.reducemedian([m.input(3, 4)], [1], 0), [[3], [3]]),
    (lambda m: m.gc.reducemedian([m.input(3, 4)]), [[1, 1], [1, 1]]),
    (lambda m: m.gc.bucketize([m.input(3, 4), m.input(2)]), [[3, 4]]),
    (
        lambda m: m.gc.scatterreduce([m.input(6, 2), m.input(6, 2, of="INT32")], 3, axis=0),
        [[3, 2]],
    ),
    (
        lambda m: m.gc.groupedgather([m.input(2, 5, 3), m.input(2, 4, of="INT32")], 1, 2),
        [[2, 4, 3]],
    ),
    (lambda m: m.gc.normalize_image([m.input(1, 4, 4, 3), m.input(3), m.input(3)]), [[1, 4, 4, 4]]),
    (lambda m: m.gc.splinebasis([m.input(7, 2), m.input(2), m.input(2)], 1), [[7, 4], [7, 4]]),
    (
        lambda m: m.gc.multiconv(
            [[m.input(1, 2, 8), m.input(4, 2, 3)], [m.input(1, 1, 8, 8), m.input(2, 1, 3, 3)]],
            strides=[[1], [2, 2]],
            pads=[[1, 1], [0, 0, 0, 0]],
        ),
        [[1, 4, 8], [1, 2, 3, 3]],
    ),
]


@pytest.mark.parametrize(("add", "shapes"), CASES)
def test_shapes(made: Made, add: Callable[[Made], Any], shapes: list[list[int]]) -> None:
    assert made.shapes(add(made)) == shapes
    onnx.checker.check_model(onnx.load_from_string(made.builder.getModelProto()))


def test_every_operator_takes_the_name_of_its_node_last() -> None:
    for name, operator in GRAPHCORE_OPERATORS.items():
        named = operator.signature.parameters[-1 - len(operator.after)]
        assert named.name in ("debugContext", "debugPrefix", "debug_context"), name
    assert len(GRAPHCORE_OPERATORS) == 57


def test_attributes_are_popart_s(made: Made) -> None:
    a, labels = made.input(4, 9), made.input(4, of="INT32")
    loss = made.gc.nllloss([a, labels], popart.ReductionType.Sum, ignoreIndex=3)
    assert made.attributes(loss) == {
        "reduction": b"Sum",
        "inputIsLogProbability": 0,
        "ignoreIndex": 3,
    }
    l1 = made.gc.l1loss([a], 0.5, reduction=popart.ReductionType.NoReduction)
    assert made.attributes(l1) == {"lambda": 0.5, "reduction": b"None"}
    scattered = made.gc.scatterreduce(
        [a, made.input(4, 9, of="INT32")], 3, reduction=popart.ScatterReduction.Max
    )
    assert made.attributes(scattered)["reduction"] == b"max"
    assert made.attributes(scattered)["group_size"] == 1
    shown = made.gc.printtensor([a], title="here", separator=",")
    assert made.attributes(shown)["separator"] == ord(",")
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    reduced = made.gc.replicatedallreduce([a], popart.CollectiveOperator.Max, group)
    assert made.attributes(reduced) == {"__collectiveOperator": 4, "__collectiveCommGroup": [1, 2]}


def test_a_call_of_a_subgraph(made: Made) -> None:
    a = made.input(2)
    callee = made.builder.createSubgraphBuilder()
    inside = callee.addInputTensor("FLOAT", [2])
    callee.addOutputTensor(callee.aiOnnx.neg([inside]))
    (result,) = made.gc.call([a], 1, callee)
    assert made.shapes(result) == [[2]]
    with pytest.raises(popart.popart_exception, match=r"number of outputs \(2\) does not match"):
        made.gc.call([a], 2, callee)


def test_calls_inside_calls_are_typed_by_their_arguments(made: Made) -> None:
    inner = made.builder.createSubgraphBuilder()
    inner.addOutputTensor(inner.aiGraphcore.scale([inner.addUntypedInputTensor()], 2.0))
    outer = made.builder.createSubgraphBuilder()
    a, b = outer.addUntypedInputTensor(), outer.addUntypedInputTensor()
    (scaled,) = outer.aiGraphcore.call([a], 1, inner)
    outer.addOutputTensor(outer.aiOnnx.add([scaled, b]))
    (result,) = made.gc.call([made.input(2), made.input(2)], 1, outer)
    made.builder.addOutputTensor(result)
    assert made.shapes(result) == [[2]]
    model = onnx.load_from_string(made.builder.getModelProto())
    onnx.checker.check_model(model)
    # A model states the version of a set that only its subgraphs use.
    assert {entry.domain for entry in model.opset_import} == {"", "ai.graphcore"}


def test_custom_operators(made: Made) -> None:
    a = made.input(2)
    outputs = made.builder.customOp(
        opName="Cube",
        opVersion=1,
        domain="own.ops",
        inputs=[a],
        attributes={"alpha": 1.5, "sizes": [1, 2], "kind": "x"},
        numOutputs=2,
        name="cube",
    )
    assert outputs == ["Cube:0", "Cube:1"]
    assert made.attributes(outputs[0]) == {"alpha": 1.5, "sizes": [1, 2], "kind": b"x"}
    assert made.shapes(outputs[0]) == [[]]
    assert made.builder.getTensorDtypeString(outputs[0]) == "undefined"


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda m: m.gc.subsample([m.input(2)], [0]), "Strides invalid. 0 stride at index 0"),
        (lambda m: m.gc.copyvarupdate([m.input(2), m.input(2)]), "should be an initialised"),
        (lambda m: m.gc.multiconv([]), "has no input tensors"),
        (lambda m: m.gc.multiconv([[m.input(1, 1, 2)]]), "must have at least two inputs"),
        (
            lambda m: m.gc.multiconv([[m.input(1, 1, 4), m.input(1, 1, 2)]], strides=[[1], [1]]),
            r"number of strides parameter sets \(2\) does not match the number of input sets",
        ),
        (lambda m: m.gc.gelu([]), "Gelu has invalid number of inputs 0"),
    ],
)
def test_refusals(made: Made, add: Callable[[Made], Any], message: str) -> None:
    with pytest.raises(popart.popart_exception, match=message):
        add(made)


def test_a_weight_may_be_updated_by_a_copy(made: Made) -> None:
    weight = made.builder.addInitializedInputTensor(np.ones(2, np.float32))
    assert made.shapes(made.gc.copyvarupdate([weight, made.input(2)])) == [[2]]
