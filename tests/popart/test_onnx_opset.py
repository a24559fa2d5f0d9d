"""ONNX's operators as methods: names, arguments and defaults as the binding's."""

from __future__ import annotations

import numpy as np
import pytest

import popart
from popart.builder.onnx_opset import onnx_operators


@pytest.mark.parametrize(
    ("version", "n_operators"), [(6, 95), (7, 102), (8, 104), (9, 123), (10, 137), (11, 156)]
)
def test_a_set_has_the_operators_of_the_binding(version: int, n_operators: int) -> None:
    assert len(onnx_operators(version)) == n_operators


@pytest.mark.parametrize(
    ("version", "name", "parameters"),
    [
        (6, "add", "args axis broadcast debugContext"),
        (10, "add", "args debugContext"),
        (10, "averagepool", "args kernel_shape ceil_mode count_include_pad pads strides"),
        (10, "batchnormalization", "args num_outputs epsilon momentum"),
        (10, "conv", "args dilations group kernel_shape pads strides"),
        (10, "dropout", "args num_outputs ratio"),
        (10, "gemm", "args alpha beta transA transB"),
        (10, "logical_if", "args num_outputs else_branch then_branch"),
        (10, "pad", "args pads mode value"),
        (11, "constant", "value is_value_sparse"),
        (9, "constant", "value"),
        (9, "scan", "args num_outputs body num_scan_inputs scan_input_axes scan_input_directions"),
    ],
)
def test_arguments_stand_in_the_order_of_the_binding(
    version: int, name: str, parameters: str
) -> None:
    found = [parameter.name for parameter in onnx_operators(version)[name].signature.parameters]
    assert found[: len(parameters.split())] == parameters.split()


def test_defaults_are_left_out_where_the_binding_leaves_them_out() -> None:
    builder = popart.Builder()
    a = builder.addInputTensor("FLOAT", [2, 3])
    names = builder.getAllNodeAttributeNames
    assert names({builder.aiOnnx.elu([a])}) == ["__debug_info_id"]
    assert names({builder.aiOnnx.elu([a], 0.5)}) == ["alpha", "__debug_info_id"]
    # Integers are stated; axes are, even if there are none.
    assert names({builder.aiOnnx.softmax([a])}) == ["axis", "__debug_info_id"]
    assert names({builder.aiOnnx.reducesum([a])}) == ["keepdims", "__debug_info_id"]
    stated = names({builder.aiOnnx.reducesum([a], axes=[])})
    assert stated == ["axes", "keepdims", "__debug_info_id"]


def test_results_are_names_or_lists_of_names() -> None:
    builder = popart.Builder()
    a = builder.addInputTensor("FLOAT", [2, 4])
    assert builder.aiOnnx.relu([a]) == "Relu:0"
    assert builder.aiOnnx.split([a], 2, axis=1) == ["Split:0", "Split:1"]
    assert builder.aiOnnx.dropout([a], 1, 0.5) == ["Dropout:0"]


@pytest.mark.parametrize(
    ("add", "shape"),
    [
        (lambda o, a: o.transpose([a]), [4, 2]),
        (lambda o, a: o.concat([a, a], 1), [2, 8]),
        (lambda o, a: o.reducemean([a], [1], 0), [2]),
        (lambda o, a: o.cast([a], "INT32"), [2, 4]),
        (lambda o, a: o.topk([a, o.constant(np.array([3]))])[0], [2, 3]),
        (lambda o, a: o.expand([a, o.constant(np.array([3, 1, 1]))]), [3, 2, 4]),
        (lambda o, a: o.logical_and([a, a]), [2, 4]),
        (lambda o, _: o.constantofshape([o.constant(np.array([5]))], np.zeros(1, np.int32)), [5]),
        (lambda o, a: o.split([a], 2, axis=1)[1], [2, 2]),
        (lambda o, a: o.gather([a, o.constant(np.array([0, 1, 1]))], 1), [2, 3]),
    ],
)
def test_shapes_are_inferred(add, shape: list[int]) -> None:
    builder = popart.Builder()
    a = builder.addInputTensor("FLOAT", [2, 4])
    assert builder.getTensorShape(add(builder.aiOnnx, a)) == shape


def test_numpy_integers_and_tuples_are_taken() -> None:
    builder = popart.Builder()
    a = builder.addInputTensor("FLOAT", (2, np.int64(4)))
    assert builder.getTensorShape(builder.aiOnnx.concat((a, a), np.int32(0))) == [4, 4]
    with pytest.raises(TypeError, match=r"concat\(\): incompatible function arguments"):
        builder.aiOnnx.concat([a, a], 1.0)


def test_supported_operators_are_those_of_the_engine() -> None:
    public = {(found.domain, found.type) for found in popart.getSupportedOperations(False)}
    assert ("ai.onnx", "Conv") in public
    every = {(found.domain, found.type) for found in popart.getSupportedOperations(True)}
    assert ("tilescope", "convolution") in every - public
    refused = {found.type for found in popart.getUnsupportedOperations(10)}
    assert refused
    assert not refused & {name for _, name in public}
