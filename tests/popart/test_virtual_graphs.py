"""Virtual graphs: nodes on IPUs by scopes, by attributes, and by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart

_RNG = np.random.default_rng(2)
_WEIGHTS = [_RNG.normal(size=(8, 8), scale=0.4).astype(np.float32) for _ in range(4)]
Array = NDArray[Any]


def _layers(ipus: list[int | None]) -> tuple[popart.Builder, str, str, str]:
    """Return a builder of products and relus by layer, on IPUs, with its loss."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4, 8]))
    h = x
    for weight, ipu in zip(_WEIGHTS, ipus, strict=True):
        if ipu is None:
            h = builder.aiOnnx.relu([builder.aiOnnx.matmul([h, _weight(builder, weight)])])
            continue
        with builder.virtualGraph(ipu):
            h = builder.aiOnnx.relu([builder.aiOnnx.matmul([h, _weight(builder, weight)])])
    if ipus[-1] is None:
        loss = builder.aiGraphcore.l1loss([h], 0.1)
    else:
        with builder.virtualGraph(ipus[-1]):
            loss = builder.aiGraphcore.l1loss([h], 0.1)
    return builder, x, h, loss


def _weight(builder: popart.Builder, weight: Array) -> str:
    return builder.addInitializedInputTensor(weight)


def _trained(
    ipus: list[int | None], mode: popart.VirtualGraphMode, n_ipus: int, **options: Any
) -> tuple[Array, list[Array], Any]:
    """Return the losses of two steps, the weights after them, and the report."""
    builder, x, _, loss = _layers(ipus)
    stated = popart.SessionOptions()
    stated.virtualGraphMode = mode
    for name, value in options.items():
        setattr(stated, name, value)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(2, {loss: popart.AnchorReturnType("All")}),
        loss,
        popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.5, False)}),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": n_ipus}),
        userOptions=stated,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    data = np.random.default_rng(3).normal(size=(2, 4, 8)).astype(np.float32)
    session.run(popart.PyStepIO({x: data}, anchors))
    session.weightsToHost()
    names = [name for name in session.getAllTensorIds() if name.startswith("init_input")]
    weights = {name: np.empty((8, 8), np.float32) for name in sorted(names)}
    session.readWeights(popart.PyWeightsIO(weights))
    return anchors[loss], list(weights.values()), session.getReport()


_OFF = popart.VirtualGraphMode.Off
_MANUAL, _AUTO = popart.VirtualGraphMode.Manual, popart.VirtualGraphMode.Auto


@pytest.mark.parametrize(
    ("ipus", "mode", "n_ipus"),
    [
        ([0, 0, 1, 1], _MANUAL, 2),
        ([1, 0, 1, 0], _MANUAL, 2),
        ([0, 1, 2, 3], _MANUAL, 4),
        ([None] * 4, _MANUAL, 2),
        ([None] * 4, _AUTO, 2),
        ([0, 1, 1, 1], _AUTO, 2),
        ([0, 7, 0, 7], _OFF, 1),
    ],
)
def test_training_on_several_ipus_is_that_on_one(
    ipus: list[int | None], mode: popart.VirtualGraphMode, n_ipus: int
) -> None:
    expected, weights, _ = _trained([None] * 4, _OFF, 1)
    losses, actual, report = _trained(ipus, mode, n_ipus)
    np.testing.assert_array_equal(losses, expected)
    assert len(actual) == len(_WEIGHTS)
    for one, several in zip(weights, actual, strict=True):
        np.testing.assert_array_equal(one, several)
    assert report.compilation.target.numIPUs == n_ipus


def test_ratios_move_the_cut() -> None:
    """With three quarters of the work on the first IPU, the copy follows the third layer."""
    _, _, even = _trained([None] * 4, _AUTO, 2)
    _, _, uneven = _trained([None] * 4, _AUTO, 2, virtualGraphSplitRatios=[0.75, 0.25])

    def crossing(report: Any) -> set[str]:
        names = {step.name for step in report.compilation.programs if "toIpu1" in step.name}
        return {name.split("/toIpu1")[0] for name in names}

    assert crossing(even) != crossing(uneven)


def _prepared(ipus: list[int | None], n_ipus: int, **options: Any) -> None:
    builder, _, h, _ = _layers(ipus)
    stated = popart.SessionOptions()
    stated.virtualGraphMode = _MANUAL
    for name, value in options.items():
        setattr(stated, name, value)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, [h]),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": n_ipus}),
        userOptions=stated,
    )
    session.prepareDevice()


@pytest.mark.parametrize(
    ("ipus", "n_ipus", "options", "message"),
    [
        ([0, 0, None, 1], 2, {}, "Either all Ops must have"),
        ([0, 0, 1, 9], 2, {}, "invalid virtual graph 9. numIPUs = 2"),
        ([None] * 4, 32, {"virtualGraphMode": _AUTO}, "Couldn't find enough splits"),
        (
            [None] * 4,
            2,
            {"virtualGraphMode": _AUTO, "virtualGraphSplitRatios": [0.5, 0.25, 0.25]},
            "The size of virtualGraphSplitRatios",
        ),
        (
            [None] * 4,
            2,
            {"virtualGraphMode": _AUTO, "virtualGraphSplitRatios": [0.5, 0.25]},
            "must be equal to 1.0, but found 0.75",
        ),
    ],
)
def test_what_is_wrong_is_said(
    ipus: list[int | None], n_ipus: int, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(popart.popart_exception, match=message):
        _prepared(ipus, n_ipus, **options)
