"""Gradients of tensors as anchors: zeros where the loss does not follow, refused where none is."""

from __future__ import annotations

import numpy as np
import pytest
from tests.popart.operator_programs import Program, infer, train

import popart

X = np.array([[-1.5, 0.25, 2.75]], np.float32)


@pytest.mark.parametrize("name", ["sign", "ceil", "floor"])
def test_the_gradient_of_steps_is_zero(name: str) -> None:
    def build(program: Program) -> list[str]:
        x = program.input(X)
        return [getattr(program.builder.aiOnnx, name)([x]), x]

    ((out, _, gradient),) = train(build, [1])
    np.testing.assert_array_equal(out, getattr(np, name)(X))
    np.testing.assert_array_equal(gradient, np.zeros_like(X))


def test_the_gradient_of_a_table_without_look_ups_is_zero() -> None:
    def build(program: Program) -> list[str]:
        x, indices = program.input(X), program.input(np.zeros(0, np.int32))
        return [program.builder.aiOnnx.gather([x, indices], axis=1), x]

    ((out, _, gradient),) = train(build, [1])
    assert out.shape == (1, 0)
    np.testing.assert_array_equal(gradient, np.zeros_like(X))


def test_a_step_behind_a_weight_leaves_it_to_the_rest_of_the_loss() -> None:
    def build(program: Program) -> list[str]:
        x, w = program.input(X), program.weight(np.array([[0.5, 0.5, 0.5]], np.float32))
        builder = program.builder
        return [builder.aiOnnx.add([builder.aiOnnx.floor([w]), builder.aiOnnx.mul([x, w])]), w]

    ((_, _, gradient),) = train(build, [1])
    np.testing.assert_array_equal(gradient, X)


@pytest.mark.parametrize("kind", ["detached", "integers", "aside"])
def test_a_tensor_without_a_gradient_is_no_anchor(kind: str) -> None:
    def build(program: Program) -> list[str]:
        builder = program.builder
        x = program.input(X.astype(np.int32) if kind == "integers" else X)
        if kind == "detached":
            out = builder.aiGraphcore.detach([x])
        elif kind == "integers":
            out = builder.aiOnnx.cast([x], "FLOAT")
        else:
            out = builder.aiOnnx.relu([program.input(X)])
            x = builder.aiOnnx.relu([x])
        return [builder.aiOnnx.mul([out, out]), x]

    with pytest.raises(popart.popart_exception) as refusal:
        train(build, [1])
    assert refusal.match(r"^Anchor tensor `Gradient___[^ ]+' not in Ir Tensors\. It has no")


def test_a_model_whose_weights_are_detached_trains_nothing() -> None:
    def build(program: Program) -> list[str]:
        w = program.weight(X)
        out = program.builder.aiGraphcore.detach([w])
        return [program.builder.aiOnnx.mul([program.input(X), out])]

    first, second = train(build, n_steps=2)
    np.testing.assert_array_equal(first[0], second[0])


def test_weights_without_dimensions_are_trained() -> None:
    def build(program: Program) -> list[str]:
        w = program.weight(np.array(2.0, np.float32))
        return [program.builder.aiOnnx.mul([program.input(X), w]), w]

    first, second = train(build, n_steps=2)
    assert first[1] != second[1]
    np.testing.assert_allclose(second[0] - first[0], -0.1 * X.sum() * X, rtol=1e-5)


def test_only_running_statistics_among_initializers() -> None:
    def build(program: Program) -> list[str]:
        x = program.input(np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2))
        ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
        statistics = [program.weight(zeros), program.weight(ones)]
        operands = [x, program.input(ones), program.input(zeros), *statistics]
        return [program.builder.aiOnnx.batchnormalization(operands, 5)[0], x]

    ((_, x, gradient),) = train(build, [1])
    assert gradient.shape == x.shape


@pytest.mark.parametrize("kind", ["loss", "normalisation"])
def test_training_refuses(kind: str) -> None:
    sentence = {
        "loss": "must be a scalar tensor",
        "normalisation": "in inference mode during training, it has to be detached first",
    }[kind]
    builder = popart.Builder()
    out = x = builder.addInputTensor("FLOAT", [2, 3, 2, 2])
    if kind == "normalisation":
        four = [builder.addInputTensor("FLOAT", [3]) for _ in range(4)]
        out = builder.aiOnnx.batchnormalization([x, *four], 1)[0]
        loss = builder.aiGraphcore.identityloss([out])
    else:
        loss = builder.aiOnnx.relu([x])
    with pytest.raises(popart.popart_exception, match=sentence):
        popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, [loss]),
            loss,
            popart.ConstSGD(0.1),
            popart.DeviceManager().createCpuDevice(),
        )


def test_programs_of_tests_run() -> None:
    (out,) = infer(lambda p: [p.builder.aiOnnx.relu([p.input(X)])])
    np.testing.assert_array_equal(out, np.maximum(X, 0))


def _session(builder: popart.Builder, loss: str, anchors: list[str]) -> popart.TrainingSession:
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, anchors),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def test_gradients_of_probabilities_before_a_loss() -> None:
    program = Program(popart.Builder())
    builder = program.builder
    labels = program.input(np.array([1], np.int32))
    probabilities = builder.aiOnnx.softmax([program.weight(X)], axis=1)
    loss = builder.aiGraphcore.nllloss([probabilities, labels], popart.ReductionType.Sum)
    gradient = popart.reservedGradientPrefix() + probabilities
    session = _session(builder, loss, [gradient, probabilities])
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(program.data, anchors))
    expected = np.zeros_like(X)
    expected[0, 1] = -1 / anchors[probabilities][0, 1]
    np.testing.assert_allclose(anchors[gradient], expected, rtol=1e-5)


def test_a_loss_of_one_element_keeps_its_dimensions() -> None:
    program = Program(popart.Builder())
    builder = program.builder
    loss = builder.aiOnnx.reducesum([program.weight(X)])
    session = _session(builder, loss, [loss])
    anchors = session.initAnchorArrays()
    assert anchors[loss].shape == (1, 1)
    session.run(popart.PyStepIO(program.data, anchors))
    np.testing.assert_allclose(anchors[loss], [[X.sum()]])
