"""Changes of models before a session reads them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import popart


def transformer_of(array: np.ndarray) -> popart.GraphTransformer:
    shape = list(array.shape)
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    weight = onnx.numpy_helper.from_array(array, "w")
    constant = onnx.helper.make_node("Constant", [], ["c"], value=weight)
    graph = onnx.helper.make_graph(
        [constant, onnx.helper.make_node("Add", ["w", "c"], ["y"])],
        "graph",
        [
            onnx.helper.make_tensor_value_info("w", kind, shape),
            onnx.helper.make_tensor_value_info("unused", kind, shape),
        ],
        [onnx.helper.make_tensor_value_info("y", kind, shape)],
        [weight],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 10)])
    model.ir_version = 4
    return popart.GraphTransformer(model.SerializeToString())


def result(transformer: popart.GraphTransformer) -> onnx.ModelProto:
    return onnx.load_from_string(transformer.getModelProto())


@pytest.mark.parametrize(
    ("method", "old", "new"),
    [
        ("convertFloatsToHalfs", np.float32, np.float16),
        ("convertDoublesToFloats", np.float64, np.float32),
        ("convertDoublesToHalfs", np.float64, np.float16),
        ("convertUINT8ToINT32", np.uint8, np.int32),
        ("convertUINT16ToINT32", np.uint16, np.int32),
        ("convertINT8ToINT32", np.int8, np.int32),
        ("convertINT16ToINT32", np.int16, np.int32),
        ("convertINT64ToINT32", np.int64, np.int32),
    ],
)
def test_types_are_changed_everywhere(method: str, old: type, new: type) -> None:
    transformer = transformer_of(np.array([1, 2], old))
    getattr(transformer, method)()
    graph = result(transformer).graph
    contents = [graph.initializer[0], graph.node[0].attribute[0].t]
    for content in contents:
        array = onnx.numpy_helper.to_array(content)
        assert array.dtype == new
        np.testing.assert_array_equal(array, [1, 2])
    kinds = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    assert kinds == {onnx.helper.np_dtype_to_tensor_dtype(np.dtype(new))}


def test_integers_that_do_not_fit_are_clipped_or_refused() -> None:
    large = np.array([2**40, -(2**40)], np.int64)
    with pytest.raises(popart.popart_exception, match="number is too large"):
        transformer_of(large).convertINT64ToINT32()
    transformer = transformer_of(large)
    transformer.convertINT64ToINT32(clip=True)
    array = onnx.numpy_helper.to_array(result(transformer).graph.initializer[0])
    np.testing.assert_array_equal(array, [2**31 - 1, -(2**31)])


def test_unused_inputs_are_removed() -> None:
    transformer = transformer_of(np.ones(2, np.float32))
    transformer.removeUnusedInputs()
    assert [value.name for value in result(transformer).graph.input] == ["w"]


def test_initializers_become_constants() -> None:
    transformer = transformer_of(np.array([1, 2], np.int32))
    with pytest.raises(popart.popart_exception) as refusal:
        transformer.convertInitializersToConstants(["unknown"])
    assert str(refusal.value) == "TensorId unknown not in the model initalizers"
    transformer.convertAllFixedPointInitializersToConstants()
    graph = result(transformer).graph
    assert not graph.initializer
    assert [value.name for value in graph.input] == ["unused"]
    assert [list(node.output) for node in graph.node] == [["w"], ["c"], ["y"]]


def test_normalisations_get_the_outputs_of_training() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 8, "ai.graphcore": 1})
    data = builder.addInputTensor("FLOAT", [1, 2, 3, 3])
    statistics = [builder.addInitializedInputTensor(np.ones(2, np.float32)) for _ in range(4)]
    (normal,) = builder.aiOnnx.batchnormalization([data, *statistics], 1)
    builder.addOutputTensor(normal)
    transformer = popart.GraphTransformer(builder.getModelProto())
    transformer.prepareNodesForTraining()
    outputs = result(transformer).graph.node[0].output
    assert (outputs[0], len(set(outputs))) == (normal, 5)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(popart.popart_exception, match="Failed to load a ModelProto"):
        popart.GraphTransformer(b"\xff\xff not a model")
