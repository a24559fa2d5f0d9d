"""Nodes that PopART reads otherwise than ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart

Array = NDArray[Any]
VALUES = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)


def _run(builder: popart.Builder, out: str, *arrays: Array) -> Array:
    flow = popart.DataFlow(1, {out: popart.AnchorReturnType("All")})
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), flow, device)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    names = builder.getInputTensorIds()
    session.run(popart.PyStepIO(dict(zip(names, arrays, strict=True)), anchors))
    result: Array = anchors[out]
    return result


def _builder() -> popart.Builder:
    return popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reducesum", VALUES),
        ("reducel1", np.abs(VALUES)),
        ("reducesumsquare", VALUES**2),
        ("reducemax", VALUES),
    ],
)
def test_a_reduction_over_no_axes_keeps_all(name: str, expected: Array, keepdims: int) -> None:
    builder = _builder()
    x = builder.addInputTensor("FLOAT", [5, 3])
    # Two of one debug name: names of tensors differ all the same.
    for _ in range(2):
        out = getattr(builder.aiOnnx, name)([x], axes=[], keepdims=keepdims, debugContext="all")
    np.testing.assert_allclose(_run(builder, out, VALUES), expected, rtol=1e-6)


def test_a_scatter_takes_the_first_updates() -> None:
    builder = _builder()
    x = builder.addInputTensor("FLOAT", [3, 5])
    indices = builder.addInputTensor("INT32", [1, 4])
    updates = builder.addInputTensor("FLOAT", [2, 5])
    out = builder.aiOnnx.scatterelements([x, indices, updates], axis=0)
    data, rows = np.zeros((3, 5), np.float32), np.array([[0, 1, 2, 0]], np.int32)
    given = np.arange(10, dtype=np.float32).reshape(2, 5)
    expected = data.copy()
    expected[rows[0], np.arange(4)] = given[0, :4]
    np.testing.assert_array_equal(_run(builder, out, data, rows, given), expected)


@pytest.mark.parametrize("is_reversed", [0, 1])
def test_a_scan_joins_the_steps_along_an_axis_that_they_have(is_reversed: int) -> None:
    builder = _builder()
    x = builder.addInputTensor("FLOAT", [2, 5, 3])
    body = builder.createSubgraphBuilder()
    step = body.addUntypedInputTensor(x)
    body.addOutputTensor(body.aiOnnx.concat([step, step], 1))
    out = builder.aiOnnx.scan(
        [x],
        1,
        body,
        1,
        scan_input_axes=[1],
        scan_output_axes=[-1],
        scan_output_directions=[is_reversed],
    )[0]
    data = np.random.default_rng(1).normal(size=(2, 5, 3)).astype(np.float32)
    steps = [np.concatenate([data[:, i], data[:, i]], 1) for i in range(5)]
    expected = np.concatenate(steps[:: -1 if is_reversed else 1], 1)
    np.testing.assert_array_equal(_run(builder, out, data), expected)


def test_a_step_of_a_vector_is_a_vector() -> None:
    builder = _builder()
    x = builder.addInputTensor("FLOAT", [4])
    body = builder.createSubgraphBuilder()
    step = body.addUntypedInputTensor(x)
    body.addOutputTensor(body.aiOnnx.concat([step, body.aiOnnx.neg([step])], 0))
    out = builder.aiOnnx.scan([x], 1, body, 1)[0]
    data = np.arange(4, dtype=np.float32)
    expected = np.stack([data, -data], 1).reshape(8)
    np.testing.assert_array_equal(_run(builder, out, data), expected)


def test_sizes_without_scales() -> None:
    builder = _builder()
    x = builder.addInputTensor("FLOAT", [5, 3])
    roi = builder.aiOnnx.constant(np.array([], np.float32))
    sizes = builder.aiOnnx.constant(np.array([10, 3], np.int64))
    out = builder.aiOnnx.resize([x, roi, "", sizes])
    np.testing.assert_array_equal(_run(builder, out, VALUES), VALUES.repeat(2, 0))


def test_the_tenth_version_takes_modes_of_later_ones() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [5, 3])
    scales = builder.aiOnnx.constant(np.array([2, 1], np.float32))
    out = builder.aiOnnx.resize([x, scales])
    builder.addNodeAttribute("nearest_mode", "ceil", {out})
    positions = np.ceil((np.arange(10) + 0.5) / 2 - 0.5).astype(int).clip(0, 4)
    np.testing.assert_array_equal(_run(builder, out, VALUES), VALUES[positions])


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scatter_reduces_into_longer_rows(axis: int) -> None:
    builder = _builder()
    data = np.random.default_rng(2).normal(size=(4, 5, 3)).astype(np.float32)
    initial = np.ones((6, 7, 4), np.float32)
    rows = np.array([2, 0, 2, 1, 3][: data.shape[axis]], np.int32)
    shape = [1, 1, 1]
    shape[axis] = len(rows)
    names = [
        builder.addInputTensor("FLOAT", list(data.shape)),
        builder.addInputTensor("INT32", shape),
        builder.addInputTensor("FLOAT", list(initial.shape)),
    ]
    out = builder.aiGraphcore.scatterreduce(names, initial.shape[axis], axis)
    expected = initial.copy()
    for i, row in enumerate(rows):
        place = (row, slice(5), slice(3)) if axis == 0 else (slice(4), row, slice(3))
        expected[place] += data.take(i, axis)
    found = _run(builder, out, data, rows.reshape(shape), initial)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
