"""Seeds and states of random numbers: they go on with the runs, and can be saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.popart.session_models import hardware, inference, training

import popart


def _dropout(device: popart.DeviceInfo) -> tuple[popart.TrainingSession, str, str]:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [64]), "x")
    (out,) = builder.aiOnnx.dropout([x], 1, 0.5)
    loss = builder.aiOnnx.reducesum([out], keepdims=0)
    flow = popart.DataFlow(1, [out])
    optimizer = popart.ConstSGD(0.1)
    session = popart.TrainingSession(builder.getModelProto(), flow, loss, optimizer, device)
    return session, x, out


def test_a_seed_goes_on_with_the_runs() -> None:
    device = popart.DeviceManager().createCpuDevice()
    session, x, out = _dropout(device)
    with pytest.raises(popart.popart_runtime_error, match="must be called before Devicex::setRand"):
        session.setRandomSeed(5)
    session.prepareDevice()
    session.setRandomSeed(5)
    assert session.getRandomSeed() == 5
    anchors = session.initAnchorArrays()
    data = popart.PyStepIO({x: np.ones(64, np.float32)}, anchors)
    masks = []
    for _ in range(2):
        session.run(data)
        masks.append(anchors[out].copy())
        seed = session.getRandomSeed()
    assert seed != 5
    assert not np.array_equal(masks[0], masks[1])
    session.setRandomSeed(5)
    session.run(data)
    np.testing.assert_array_equal(anchors[out], masks[0])
    following = session.getRandomSeed()
    second, x, out = _dropout(device)
    second.prepareDevice()
    second.setRandomSeed(following)
    anchors = second.initAnchorArrays()
    second.run(popart.PyStepIO({x: np.ones(64, np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[out], masks[1])


def test_a_seed_without_random_operators_is_ignored() -> None:
    session, *_ = inference(hardware())
    session.setRandomSeed(5)
    assert session.getRandomSeed() == 0


def test_the_state_of_a_device_is_saved_and_loaded() -> None:
    device = hardware()
    options: dict[str, Any] = {
        "enableLoadAndOffloadRNGState": True,
        "enableStochasticRounding": True,
    }
    session, x, _, _ = training(device, **options)
    with pytest.raises(popart.popart_runtime_error, match=r"Devicex::prepare\(\) must be called"):
        session.getRNGState()
    session.prepareDevice()
    session.weightsFromHost()
    state = session.getRNGState()
    assert len(state) == 4 * 6 * 4  # tiles, workers, words
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.ones((2, 4), np.float32)}, anchors))
    following = session.getRNGState()
    assert following != state
    session.setRNGState(state)
    session.run(popart.PyStepIO({x: np.ones((2, 4), np.float32)}, anchors))
    assert session.getRNGState() == following
    second, *_ = training(device, **options)
    second.prepareDevice()
    assert second.getRNGState() == following  # the device's
    with pytest.raises(popart.popart_runtime_error, match="received rngState of size 97; was exp"):
        session.setRNGState([*state, 0])


def test_states_that_a_session_does_not_have() -> None:
    session, *_ = training(hardware())
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="enableLoadAndOffloadRNGState must be"):
        session.getRNGState()
    synthetic, *_ = training(
        hardware(),
        enableLoadAndOffloadRNGState=True,
        syntheticDataMode=popart.SyntheticDataMode.Zeros,
    )
    synthetic.prepareDevice()
    synthetic.setRNGState([1, 2])
    assert synthetic.getRNGState() == []


def _masks(builder: popart.Builder, x: str, out: str) -> tuple[Any, Any]:
    """Return where a training keeps the ones of `x`, and where their gradients are not 0."""
    loss = builder.aiOnnx.reducesum([out], keepdims=0)
    gradient = popart.reservedGradientPrefix() + x
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [out, gradient]),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.setRandomSeed(3)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.ones(64, np.float32)}, anchors))
    return anchors[out] != 0, anchors[gradient] != 0


def test_every_call_of_a_subgraph_draws_its_own_mask() -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [64]), "x")
    inside = builder.createSubgraphBuilder()
    inner = inside.addUntypedInputTensor()
    inside.addOutputTensor(inside.aiOnnx.dropout([inner], 1, 0.5)[0])
    (first,) = builder.aiGraphcore.call([x], 1, inside)
    (second,) = builder.aiGraphcore.call([first], 1, inside)
    kept, has_gradient = _masks(builder, x, second)
    np.testing.assert_array_equal(kept, has_gradient)
    assert 4 < kept.sum() < 28  # a quarter: two different masks


def test_every_round_of_a_loop_draws_its_own_mask() -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [64]), "x")
    n_rounds = builder.aiOnnx.constant(np.array(2, np.int64))
    condition = builder.aiOnnx.constant(np.array(True))
    body = builder.createSubgraphBuilder()
    body.addInputTensor(popart.TensorInfo("INT64", []))
    goes_on = body.addInputTensor(popart.TensorInfo("BOOL", []))
    inner = body.addInputTensor(popart.TensorInfo("FLOAT", [64]))
    body.addOutputTensor(goes_on)
    body.addOutputTensor(body.aiOnnx.dropout([inner], 1, 0.5)[0])
    (out,) = builder.aiOnnx.loop([n_rounds, condition, x], 1, body)
    kept, has_gradient = _masks(builder, x, out)
    np.testing.assert_array_equal(kept, has_gradient)
    assert 4 < kept.sum() < 28  # a quarter: two different masks
