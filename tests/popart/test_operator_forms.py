"""Forms of operators that PopART takes, and ONNX does not or otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.popart.operator_programs import Program, infer, train

import popart

X = np.array([[-1.5, 0.25, 2.75], [3.5, -2.0, 0.5]], np.float32)


@pytest.mark.parametrize("opset", [10, 11])
@pytest.mark.parametrize("dtype", ["int32", "float16", "float32"])
def test_the_largest_of_any_type(dtype: str, opset: int) -> None:
    array = np.asarray([3, 7, 5], dtype)

    def build(program: Program) -> Sequence[str]:
        count = program.builder.aiOnnx.constant(np.array([2], np.int64))
        return [program.builder.aiOnnx.topk([program.input(array), count], axis=0)[0]]

    (out,) = infer(build, {"ai.onnx": opset, "ai.graphcore": 1})
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, [7, 5])


def test_bounds_of_other_floats() -> None:
    x = X.astype(np.float16)

    def build(program: Program) -> Sequence[str]:
        low = program.builder.aiOnnx.constant(np.array([-1.0], np.float32))
        high = program.builder.aiOnnx.constant(np.array([np.finfo(np.float32).max], np.float32))
        return [program.builder.aiOnnx.clip([program.input(x), low, high])]

    (out,) = infer(build, {"ai.onnx": 11, "ai.graphcore": 1})
    np.testing.assert_array_equal(out, np.maximum(x, np.float16(-1)))


def test_gradients_of_constants() -> None:
    def build(program: Program) -> Sequence[str]:
        builder = program.builder.aiOnnx
        table, rows = builder.constant(X), builder.constant(np.array([1, 1], np.int32))
        return [builder.gather([table, rows], axis=0), table]

    first, second = train(build, [1], n_steps=2)
    np.testing.assert_array_equal(first[0], X[[1, 1]])
    np.testing.assert_array_equal(first[2], [[0, 0, 0], [2, 2, 2]])
    np.testing.assert_array_equal(second[0], first[0])  # a constant is not trained


@pytest.mark.parametrize("trains", [True, False])
def test_a_model_replaces_its_weights(trains: bool) -> None:
    def build(program: Program) -> Sequence[str]:
        builder, counter = program.builder, program.weight(np.zeros(1, np.float32))
        one = builder.aiOnnx.constant(np.ones(1, np.float32))
        after = builder.aiOnnx.add([counter, one])
        builder.aiGraphcore.copyvarupdate([counter, after])
        return [builder.aiOnnx.mul([program.input(X), program.weight(X)]), after]

    if trains:
        steps = train(build, n_steps=3)
        assert [float(step[1][0]) for step in steps] == [1, 2, 3]
        return
    program = Program(popart.Builder())
    _, after = build(program)
    session = popart.InferenceSession(
        program.builder.getModelProto(),
        popart.DataFlow(3, [after]),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({k: np.stack([v] * 3) for k, v in program.data.items()}, anchors))
    np.testing.assert_array_equal(anchors[after].ravel(), [1, 2, 3])


def test_what_replaces_a_weight_has_its_shape() -> None:
    def build(program: Program) -> Sequence[str]:
        operands = [program.weight(X), program.input(X[0])]
        return [program.builder.aiGraphcore.copyvarupdate(operands)]

    with pytest.raises(popart.popart_exception, match=r"expected float32 of shape \(2, 3\)"):
        infer(build)


def test_the_most_probable_labels() -> None:
    logits = np.log(np.array([[[0.6, 0.3, 0.1]], [[0.2, 0.7, 0.1]]], np.float32))

    def build(program: Program) -> Sequence[str]:
        operands = [program.input(logits), program.input(np.array([2], np.uint32))]
        out: Sequence[str] = program.builder.aiGraphcore.ctcbeamsearchdecoder(operands, 0, 4, 2)
        return out

    logs, lengths, labels = infer(build)
    assert [lengths.dtype.name, labels.dtype.name] == ["uint32", "uint32"]
    # Class 1: 0.6 · 0.7 + 0.3 · 0.2 + 0.3 · 0.7; nothing: 0.6 · 0.2.
    np.testing.assert_allclose(np.exp(logs), [[0.69, 0.12]], rtol=1e-5)
    assert (lengths.tolist(), labels[0, 0, 0]) == ([[1, 0]], 1)


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [((0, 2, 3), "top_paths is 3: expected 1 to 2"), ((3, 2, 1), "blank is 3: expected 0 to 2")],
)
def test_a_search_that_does_not_fit(stated: tuple[int, int, int], sentence: str) -> None:
    def build(program: Program) -> Sequence[str]:
        operands = [
            program.input(np.zeros((4, 1, 3), np.float32)),
            program.input(np.array([4], np.uint32)),
        ]
        out: Sequence[str] = program.builder.aiGraphcore.ctcbeamsearchdecoder(operands, *stated)
        return out

    with pytest.raises(popart.popart_exception, match=sentence):
        infer(build)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_are_int32(name: str) -> None:
    def build(program: Program) -> Sequence[str]:
        builder = program.builder.aiOnnx
        place = getattr(builder, name)([program.input(X)], axis=1, keepdims=1)
        return [place, builder.squeeze([place], [1])]

    place, flat = infer(build)
    assert [place.dtype.name, flat.dtype.name] == ["int32", "int32"]
    np.testing.assert_array_equal(flat, getattr(np, name)(X, axis=1))


def test_positions_of_the_largest_are_int32() -> None:
    def build(program: Program) -> Sequence[str]:
        count = program.builder.aiOnnx.constant(np.array([2], np.int64))
        out: Sequence[str] = program.builder.aiOnnx.topk([program.input(X), count], axis=1)
        return out

    _, places = infer(build)
    assert places.dtype.name == "int32"
    np.testing.assert_array_equal(places, [[2, 1], [0, 2]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("", [[1, 4], [5, 15]]),
        ("SAME_LOWER", [[1, 4], [5, 15]]),
        ("SAME_UPPER", [[15, 10], [11, 4]]),
    ],
)
def test_where_a_transposed_convolution_of_a_stated_shape_lies(
    mode: str, expected: Sequence[Sequence[float]]
) -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    w = np.array([[[[1, 2], [2, 1]]]], np.float32)

    def build(program: Program) -> Sequence[str]:
        builder = program.builder
        operands = [program.input(x), program.input(w)]
        out = builder.aiOnnxOpset11.convtranspose(operands, output_shape=[2, 2])
        if mode:
            builder.addNodeAttribute("auto_pad", mode, {out})
        return [out]

    (out,) = infer(build, {"ai.onnx": 11, "ai.graphcore": 1})
    np.testing.assert_array_equal(out[0, 0], expected)


def test_a_stated_shape_without_pads_is_refused() -> None:
    def build(program: Program) -> Sequence[str]:
        operands = [program.input(np.ones((1, 1, 2, 2), np.float32)) for _ in range(2)]
        out = program.builder.aiOnnxOpset11.convtranspose(operands, output_shape=[2, 2])
        program.builder.addNodeAttribute("auto_pad", "VALID", {out})
        return [out]

    with pytest.raises(popart.popart_exception, match="cannot be used if the `output_shape`"):
        infer(build, {"ai.onnx": 11, "ai.graphcore": 1})


def test_positions_inside_a_branch() -> None:
    def build(program: Program) -> Sequence[str]:
        builder = program.builder
        x, condition = program.input(X), program.input(np.array(True))
        branches = []
        for name in ("argmax", "argmin"):
            branch = builder.createSubgraphBuilder()
            branch.addOutputTensor(getattr(branch.aiOnnx, name)([x], axis=1))
            branches.append(branch)
        return [builder.aiOnnx.logical_if([condition], 1, branches[1], branches[0])[0]]

    (out,) = infer(build)
    assert out.dtype.name == "int32"
    np.testing.assert_array_equal(out[:, 0], np.argmax(X, axis=1))
