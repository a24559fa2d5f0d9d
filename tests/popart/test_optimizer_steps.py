"""Steps of optimizers in sessions, against numpy: numbers that change, groups, loss scaling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart

_RNG = np.random.default_rng(11)
_W, _V = (_RNG.normal(size=(4, 3)).astype(np.float32) for _ in range(2))
_X = _RNG.normal(size=(2, 4)).astype(np.float32)
#: Gradient of both weights: the loss is the sum of `x @ w + x @ v`.
_G = _X.T @ np.ones((2, 3), np.float32)

Array = NDArray[Any]
_All = popart.AnchorReturnType("All")


def _session(
    optimizer: popart.Optimizer,
    anchors: dict[str, popart.AnchorReturnType] | None = None,
    dtype: str = "float32",
    n_batches: int = 1,
    **options: Any,
) -> popart.TrainingSession:
    builder = popart.Builder()
    x = builder.addInputTensor({"float32": "FLOAT", "float16": "FLOAT16"}[dtype], [2, 4], "x")
    w, v = (
        builder.addInitializedInputTensor(array.astype(dtype), name)
        for name, array in (("w", _W), ("v", _V))
    )
    y = builder.aiOnnx.add([builder.aiOnnx.matmul([x, w]), builder.aiOnnx.matmul([x, v])])
    loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
    stated = popart.SessionOptions()
    for name, value in options.items():
        setattr(stated, name, value)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(n_batches, anchors or {}),
        loss,
        optimizer,
        popart.DeviceManager().createIpuModelDevice({}),
        userOptions=stated,
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def _step(session: popart.TrainingSession, x: Array = _X) -> dict[str, Array]:
    anchors: dict[str, Array] = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x}, anchors))
    return anchors


def _weights(session: popart.TrainingSession) -> tuple[Array, Array]:
    session.weightsToHost()
    held = {"w": np.empty_like(_W), "v": np.empty_like(_V)}
    session.readWeights(popart.PyWeightsIO(held))
    return held["w"], held["v"]


@pytest.mark.parametrize("name", ["defaultWeightDecay", "defaultMomentum", "defaultDampening"])
def test_numbers_begin_at_0_and_change_later(name: str) -> None:
    def sgd(value: float) -> popart.SGD:
        values = {"defaultLearningRate": (0.1, False), name: (value, False)}
        return popart.SGD(values, accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate)

    session = _session(sgd(0))
    _step(session)
    w = _W - 0.1 * _G
    np.testing.assert_allclose(_weights(session)[0], w, rtol=1e-5)
    session.updateOptimizerFromHost(sgd(0.5))
    _step(session)
    change = {
        "defaultWeightDecay": _G + 0.5 * w,
        "defaultMomentum": _G + 0.5 * _G,
        "defaultDampening": 0.5 * _G,
    }[name]
    np.testing.assert_allclose(_weights(session)[0], w - 0.1 * change, rtol=1e-5)


def test_a_weight_has_constants_and_forms_of_its_own() -> None:
    def sgd(rate: float) -> popart.SGD:
        values = {"defaultLearningRate": (0.1, True), "nesterov": (False, True)}
        rule = popart.SGD(values | {"defaultMomentum": (0.5, True)})
        rule.insertSpecific("w", {"learningRate": (rate, False), "nesterov": (True, True)})
        return rule

    session = _session(sgd(0.2))
    _step(session)
    session.updateOptimizerFromHost(sgd(0.4))
    _step(session)
    w, v = _weights(session)
    # Nesterov's form: w - rate * (g + momentum * velocity), velocities g and 1.5 g.
    np.testing.assert_allclose(w, _W - 0.2 * 1.5 * _G - 0.4 * 1.75 * _G, rtol=1e-5)
    np.testing.assert_allclose(v, _V - 0.1 * _G - 0.1 * 1.5 * _G, rtol=1e-5)


def test_lamb_has_the_largest_norm_of_a_weight_by_weight() -> None:
    lamb = popart.Adam({"defaultLearningRate": (0.1, True)}, mode=popart.AdamMode.LambNoBias)
    lamb.insertSpecific("w", {"maxWeightNorm": (0.5, True)})
    session = _session(lamb)
    _step(session)
    w, v = _weights(session)
    steps = [float(np.linalg.norm(after - before)) for after, before in ((w, _W), (v, _V))]
    assert steps == pytest.approx([0.1 * 0.5, 0.1 * float(np.linalg.norm(_V))], rel=1e-4)


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_groups_of_weights_have_limits_of_their_own(n_rounds: int) -> None:
    groups = [
        popart.ClipNormSettings.clipWeights([name], most) for name, most in (("w", 0.5), ("v", 1e6))
    ]
    session = _session(
        popart.SGD({"defaultLearningRate": (0.1, False)}, groups),
        enableGradientAccumulation=n_rounds > 1,
        accumulationFactor=n_rounds,
    )
    _step(session, np.stack([_X] * n_rounds))
    w, v = _weights(session)
    np.testing.assert_allclose(w, _W - 0.1 * 0.5 * _G / np.linalg.norm(_G), rtol=1e-5)
    np.testing.assert_allclose(v, _V - 0.1 * n_rounds * _G, rtol=1e-5)


def test_the_limit_of_sgd_is_of_scaled_gradients_and_that_of_adam_is_not() -> None:
    clip = [popart.ClipNormSettings.clipAllWeights(1.0)]
    values = {"defaultLearningRate": (0.1, False), "lossScaling": (8.0, False)}
    session = _session(popart.SGD(values, clip))
    _step(session)
    norm = np.sqrt(2) * np.linalg.norm(_G)
    np.testing.assert_allclose(_weights(session)[0], _W - 0.1 * _G / norm / 8, rtol=1e-5)
    adam = popart.Adam(values, clip_norm_settings=clip)
    session = _session(adam)
    _step(session)
    session.weightsToHost()
    moment = {"Accl1___w": np.empty_like(_W)}
    session.readWeights(popart.PyWeightsIO(moment))
    np.testing.assert_allclose(moment["Accl1___w"], 0.1 * _G / norm, rtol=1e-4)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([(["w", "u"], 1.0)], "'u', which is not a trained weight"),
        ([(["w"], 1.0), (["w"], 2.0)], "'w' in two groups"),
    ],
)
def test_groups_name_trained_weights_once(
    groups: list[tuple[list[str], float]], words: str
) -> None:
    clip = [popart.ClipNormSettings.clipWeights(*group) for group in groups]
    with pytest.raises(popart.popart_exception, match=words):
        _session(popart.SGD({}, clip))


@pytest.mark.parametrize("mode", list(popart.WeightDecayMode))
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop_of_tensorflow(mode: popart.WeightDecayMode, momentum: float) -> None:
    values = {"defaultLearningRate": 0.1, "defaultAlpha": 0.9, "defaultEps": 0.01}
    values |= {"defaultMomentum": momentum, "defaultWeightDecay": 0.2}
    rule = popart.Adaptive(
        {name: (value, True) for name, value in values.items()},
        weight_decay_mode=mode,
        rmsprop_tf_variant=True,
    )
    session = _session(rule)
    w, squares, moved = _W.astype(np.float64), np.ones(_W.shape), np.zeros(_W.shape)
    is_l2 = mode is popart.WeightDecayMode.L2Regularization
    for _ in range(2):
        _step(session)
        gradient = _G + 0.2 * w * is_l2
        squares = 0.9 * squares + 0.1 * gradient**2
        moved = momentum * moved + 0.1 * gradient / np.sqrt(squares + 0.01)
        w = w - moved - (0 if is_l2 else 0.2 * w * (1 if momentum else 0.1))
    np.testing.assert_allclose(_weights(session)[0], w, rtol=1e-4)


def test_numbers_of_the_optimizer_are_anchors() -> None:
    def sgd(rate: float) -> popart.SGD:
        values = {"defaultLearningRate": (rate, False), "defaultWeightDecay": (0.5, False)}
        rule = popart.SGD(values | {"lossScaling": (4.0, False)})
        rule.insertSpecific("v", {"learningRate": (0.75, False)})
        return rule

    default = popart.reservedDefaultScaledLearningRate0Prefix() + "FLOAT"
    decay = popart.reservedDefaultWeightDecayScaleFactor0Prefix() + "FLOAT"
    specific = popart.reservedSpecificScaledLearningRate0Prefix() + "v"
    scale = popart.reservedLossScalingPrefix() + "FLOAT"
    session = _session(sgd(0.5), dict.fromkeys([default, decay, specific, scale], _All))
    _step(session)
    session.updateOptimizerFromHost(sgd(0.25))
    anchors = _step(session)
    found = {name: float(array) for name, array in anchors.items()}
    assert found == {default: 0.0625, decay: 0.875, specific: 0.1875, scale: 4.0}


def test_a_constant_number_is_no_anchor() -> None:
    rule = popart.SGD({"lossScaling": (4.0, True)})
    with pytest.raises(popart.popart_exception, match="`lossScaling_FLOAT' not in Ir Tensors"):
        _session(rule, {"lossScaling_FLOAT": _All})


def _scaling(**settings: Any) -> popart.AutomaticLossScalingSettings:
    return popart.AutomaticLossScalingSettings(
        enabled=True, binEdgeLocation=0.5, thresholdUpperCountProportion=0.2, **settings
    )


@pytest.mark.parametrize(
    ("period", "scales"), [(1, [8, 16, 32, 64, 128]), (2, [8, 16, 16, 32, 32])]
)
def test_the_device_chooses_the_loss_scaling(period: int, scales: list[float]) -> None:
    def sgd(rate: float) -> popart.SGD:
        return popart.SGD({"defaultLearningRate": (rate, False), "lossScaling": (8.0, False)})

    session = _session(
        sgd(0.01),
        {"finalLossScale": _All},
        "float16",
        n_batches=5,
        automaticLossScalingSettings=_scaling(updatePeriod=period),
    )
    x = np.stack([_X.astype(np.float16)] * 5)
    np.testing.assert_array_equal(_step(session, x)["finalLossScale"], scales)
    session.updateOptimizerFromHost(sgd(0.02))
    assert _step(session, x)["finalLossScale"][0] > scales[-2]


@pytest.mark.parametrize(
    ("is_const", "change", "words"),
    [
        (True, {}, "must have non-const loss scaling$"),
        (False, {"thresholdUpperCountProportion": 1.5}, "^Out of range value for 'threshold"),
        (False, {"binEdgeLocation": -1.0}, "Out of range value for 'binEdgeLocation'"),
        (False, {"toTrackTensors": ["w"]}, "toTrackTensors has been set, but"),
        (False, {}, "No tracked gradient tensors of type fp16 were found.$"),
    ],
)
def test_settings_of_automatic_loss_scaling_are_checked(
    is_const: bool, change: dict[str, Any], words: str
) -> None:
    settings = _scaling()
    for name, value in change.items():
        setattr(settings, name, value)
    with pytest.raises(popart.popart_exception, match=words):
        _session(
            popart.SGD({"lossScaling": (8.0, is_const)}), automaticLossScalingSettings=settings
        )


def test_options_and_optimizer_are_those_of_when_the_session_was_made() -> None:
    rule, options = popart.SGD({"defaultLearningRate": (0.1, False)}), popart.SessionOptions()
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 4], "x")
    w = builder.addInitializedInputTensor(_W, "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.matmul([x, w])])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {}),
        loss,
        rule,
        popart.DeviceManager().createIpuModelDevice({}),
        userOptions=options,
    )
    options.enableGradientAccumulation, options.accumulationFactor = True, 4
    rule.insertSpecific("w", {"learningRate": (9.0, True)})
    assert session.accumulationFactor == 1
    session.prepareDevice()
    session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (0.2, False)}))


def test_a_loss_of_one_element_may_have_dimensions() -> None:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 4], "x")
    w = builder.addInitializedInputTensor(_W, "w")
    loss = builder.aiOnnx.reducesum([builder.aiOnnx.matmul([x, w])])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {loss: _All, "w": _All}),
        loss,
        popart.SGD({"defaultLearningRate": (0.1, False), "lossScaling": (4.0, False)}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = _step(session)
    np.testing.assert_allclose(anchors[loss].reshape(()), (_X @ _W).sum(), rtol=1e-5)
    np.testing.assert_allclose(anchors["w"], _W - 0.1 * _G, rtol=1e-5)


def _placed(mode: popart.VirtualGraphMode) -> Callable[[], popart.InferenceSession]:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 4], "x")
    with builder.virtualGraph(0):
        y = builder.aiOnnx.relu([x])
    with builder.virtualGraph(1):
        z = builder.aiOnnx.neg([y])
    options = popart.SessionOptions()
    options.virtualGraphMode = mode
    return lambda: popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, [z]),
        popart.DeviceManager().createIpuModelDevice({}),
        userOptions=options,
    )


def test_places_of_nodes_count_where_virtual_graphs_are_on() -> None:
    _placed(popart.VirtualGraphMode.Off)().prepareDevice()
    session = _placed(popart.VirtualGraphMode.Manual)()
    with pytest.raises(popart.popart_exception, match=r"invalid virtual graph 1. numIPUs = 1"):
        session.prepareDevice()
