"""Replicas of PopART's sessions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart

Array = NDArray[Any]
_N = 4


def _device(n_ipus: int) -> popart.DeviceInfo:
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": n_ipus, "tilesPerIPU": 4})


def _options(n_replicas: int, factor: int = 1) -> popart.SessionOptions:
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = n_replicas > 1
    options.replicatedGraphCount = n_replicas
    options.enableGradientAccumulation = factor > 1
    options.accumulationFactor = factor
    return options


def _squared(n_replicas: int, art: popart.AnchorReturnType, batches: int, **named: Any) -> Array:
    """Return an anchor of x * x over the batches of a step."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [_N]), **named)
    y = builder.aiOnnx.mul([x, x])
    builder.addOutputTensor(y)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(batches, {y: art}),
        _device(n_replicas),
        userOptions=_options(n_replicas),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    n_inputs = batches * (1 if named else n_replicas)
    data = np.arange(n_inputs * _N, dtype=np.float32)
    session.run(popart.PyStepIO({x: data}, anchors))
    return anchors[y]


@pytest.mark.parametrize("batches", [1, 4])
def test_every_replica_takes_a_batch(batches: int) -> None:
    x = np.arange(batches * 3 * _N, dtype=np.float32).reshape(batches, 3, _N)
    every = _squared(3, popart.AnchorReturnType("All"), batches)
    np.testing.assert_array_equal(every, (x * x).reshape(every.shape))
    assert every.shape == ((batches, 3, _N) if batches > 1 else (3, _N))
    last = _squared(3, popart.AnchorReturnType("Final"), batches)
    np.testing.assert_array_equal(last, (x * x)[-1])
    total = _squared(3, popart.AnchorReturnType("Sum"), batches)
    np.testing.assert_array_equal(total, (x * x).sum(axis=0))
    if batches > 1:
        some = _squared(3, popart.AnchorReturnType("EveryN", 2), batches)
        np.testing.assert_array_equal(some, (x * x)[1::2])


def test_an_input_for_all_replicas() -> None:
    settings = popart.InputSettings(popart.ReplicatedStreamMode.Broadcast)
    every = _squared(2, popart.AnchorReturnType("All"), 3, settings=settings)
    x = np.arange(3 * _N, dtype=np.float32).reshape(3, 1, _N)
    np.testing.assert_array_equal(every, np.broadcast_to(x * x, (3, 2, _N)))


def _trained(
    n_replicas: int, factor: int, steps: int, reduction: popart.ReductionType
) -> tuple[Array, Mapping[str, Array]]:
    """Return the losses of steps of a product's training, and its weights."""
    options = _options(n_replicas, factor)
    options.accumulationAndReplicationReductionType = reduction
    drawn = np.random.default_rng(0)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 6]))
    w = builder.addInitializedInputTensor(drawn.standard_normal((6, 3)).astype(np.float32))
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.l1loss([y], 0.1)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {loss: popart.AnchorReturnType("All")}),
        loss,
        popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.5, False)}),
        _device(n_replicas),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    assert session.replicationFactor == n_replicas
    losses = []
    for _ in range(steps):
        anchors = session.initAnchorArrays()
        data = drawn.standard_normal((factor * n_replicas, 2, 6)).astype(np.float32)
        session.run(popart.PyStepIO({x: data}, anchors))
        losses.append(anchors[loss].reshape(-1))
    session.weightsToHost()
    weights = {w: np.zeros((6, 3), np.float32)}
    session.readWeights(popart.PyWeightsIO(weights))
    return np.array(losses), weights


@pytest.mark.parametrize("reduction", [popart.ReductionType.Sum, popart.ReductionType.Mean])
@pytest.mark.parametrize(("n_replicas", "factor"), [(2, 1), (4, 2), (2, 4)])
def test_training_is_that_of_one_replica_with_all_batches(
    n_replicas: int, factor: int, reduction: popart.ReductionType
) -> None:
    losses, weights = _trained(n_replicas, factor, 5, reduction)
    expected_losses, expected = _trained(1, n_replicas * factor, 5, reduction)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    (ours,), (theirs,) = weights.values(), expected.values()
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def _collective(name: str, n_replicas: int, *, group: popart.CommGroup | None = None) -> Array:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [6]))
    operator = getattr(builder.aiGraphcore, name)
    y = operator([x]) if group is None else operator([x], commGroup=group)
    builder.addOutputTensor(y)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        _device(n_replicas),
        userOptions=_options(n_replicas),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    data = np.arange(n_replicas * 6, dtype=np.float32)
    session.run(popart.PyStepIO({x: data}, anchors))
    return anchors[y]


def test_collectives() -> None:
    x = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    total = _collective("replicatedallreduce", 4)
    np.testing.assert_array_equal(total, np.broadcast_to(x.sum(axis=0), (4, 6)))
    pairs = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    halves = _collective("replicatedallreduce", 4, group=pairs)
    np.testing.assert_array_equal(halves[:2], np.broadcast_to(x[:2].sum(axis=0), (2, 6)))
    np.testing.assert_array_equal(halves[2:], np.broadcast_to(x[2:].sum(axis=0), (2, 6)))
    shares = _collective("replicatedreducescatter", 2)
    np.testing.assert_array_equal(shares.reshape(-1), x[:2].sum(axis=0))


def test_replicas_that_do_not_divide_the_ipus() -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [_N]))
    y = builder.aiOnnx.mul([x, x])
    with pytest.raises(popart.popart_exception, match="replicatedGraphCount is 3, which does not"):
        popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
            _device(4),
            userOptions=_options(3),
        )


def test_what_is_known_before_is_known_of_every_replica() -> None:
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.arange(6, dtype=np.float32))
    y = builder.aiGraphcore.replicatedallreduce([w])
    share = builder.aiGraphcore.replicatedreducescatter([w])
    for output in (y, share):
        builder.addOutputTensor(output)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(2, dict.fromkeys([y, share], popart.AnchorReturnType("All"))),
        _device(2),
        userOptions=_options(2),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, anchors))
    expected = np.broadcast_to(2 * np.arange(6, dtype=np.float32), (2, 2, 6))
    np.testing.assert_array_equal(anchors[y], expected)
    np.testing.assert_array_equal(anchors[share], expected.reshape(2, 2, 2, 3)[:, [0, 1], [0, 1]])


def _grouped(
    settings: popart.VariableSettings, start: Array, n_replicas: int
) -> tuple[popart.TrainingSession, str, str]:
    """Return a training of the sum of x * w, its input and its weight."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [6]))
    w = builder.addInitializedInputTensor(start, settings)
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])], popart.ReductionType.Sum)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {loss: popart.AnchorReturnType("All")}),
        loss,
        popart.SGD({"defaultLearningRate": (1.0, True), "defaultMomentum": (0.5, True)}),
        _device(n_replicas),
        userOptions=_options(n_replicas),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, x, w


_MODES = popart.VariableRetrievalMode


@pytest.mark.parametrize("mode", [_MODES.OnePerGroup, _MODES.AllReplicas])
@pytest.mark.parametrize("kind", ["Consecutive", "Orthogonal", "Ungrouped"])
def test_weights_of_groups_of_replicas(
    kind: str, mode: popart.VariableRetrievalMode, tmp_path: Path
) -> None:
    group = popart.CommGroup(getattr(popart.CommGroupType, kind), 2)
    settings = popart.VariableSettings(group, mode)
    n_groups = settings.getGroupCount(4)
    start = np.arange(n_groups * 6, dtype=np.float32).reshape(n_groups, 6)
    session, x, w = _grouped(settings, start, 4)
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    session.run(popart.PyStepIO({x: data}, session.initAnchorArrays()))
    session.weightsToHost()
    expected = start.copy()
    members = settings.groups(4)
    for number, replicas in enumerate(members):  # the gradient of w is x
        expected[number] -= data[replicas].sum(axis=0)
    if mode is _MODES.AllReplicas:
        of_replica = {replica: n for n, replicas in enumerate(members) for replica in replicas}
        expected = expected[[of_replica[replica] for replica in range(4)]]
    found = np.zeros_like(expected)
    session.readWeights(popart.PyWeightsIO({w: found}))
    np.testing.assert_array_equal(found, expected)
    session.modelToHost(str(tmp_path / "trained.onnx"))

    again, _, w = _grouped(settings, np.zeros_like(start), 4)
    again.resetHostWeights(str(tmp_path / "trained.onnx"))
    again.weightsFromHost()
    again.weightsToHost()
    found = np.zeros_like(expected)
    again.readWeights(popart.PyWeightsIO({w: found}))
    np.testing.assert_array_equal(found, expected)


def test_weights_that_all_replicas_share_and_return() -> None:
    start = np.arange(6, dtype=np.float32)
    session, x, w = _grouped(popart.VariableSettings(_MODES.AllReplicas), start, 2)
    data = np.ones((2, 6), np.float32)
    session.run(popart.PyStepIO({x: data}, session.initAnchorArrays()))
    session.weightsToHost()
    found = np.zeros((2, 6), np.float32)
    session.readWeights(popart.PyWeightsIO({w: found}))
    np.testing.assert_array_equal(found, np.broadcast_to(start - 2, (2, 6)))


def test_replicas_infer_with_weights_of_their_own() -> None:
    builder = popart.Builder()
    builder.embedReplicationFactor(2)
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [3]))
    start = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    group = popart.CommGroup(popart.CommGroupType.Ungrouped, 0)
    w = builder.addInitializedInputTensor(start, popart.VariableSettings(group))
    y = builder.aiOnnx.add([x, w])
    assert builder.getTensorShape(y) == [3]
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        _device(2),
        userOptions=_options(2),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.zeros((2, 3), np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[y], start)


def test_groups_that_a_weight_has_no_values_for() -> None:
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    with pytest.raises(popart.popart_exception, match=r"each of 2 groups .* has shape \[3, 6\]"):
        _grouped(popart.VariableSettings(group), np.zeros((3, 6), np.float32), 4)


def test_settings_by_stride_need_the_number_of_replicas() -> None:
    with pytest.raises(popart.popart_exception, match=r"not initialised using a `popart::CommG"):
        _grouped(popart.VariableSettings(2, 2), np.zeros((2, 6), np.float32), 4)
