"""Batch serialisation of sessions: values, what acts, warnings and refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart

_RNG = np.random.default_rng(11)
_W = _RNG.standard_normal((6, 3)).astype(np.float32)
_X = _RNG.standard_normal((8, 6)).astype(np.float32)
_OPTION = "SessionOptions.batchSerializationSettings"


def _trained(settings: popart.BatchSerializationSettings) -> tuple[NDArray[np.float32], list[str]]:
    """Return the weights after a step, and the names of the program's operations."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", _X.shape))
    w = builder.addInitializedInputTensor(_W, "w")
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.sin([builder.aiOnnx.matmul([x, w])])], 0.1)
    options = popart.SessionOptions()
    options.batchSerializationSettings = settings
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, []),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": 1}),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({x: _X}, session.initAnchorArrays()))
    session.weightsToHost()
    weights = {"w": np.empty_like(_W)}
    session.readWeights(popart.PyWeightsIO(weights))
    assert session._compiled is not None
    return weights["w"], [step.name for step in session._compiled.executable.steps]


def _settings(factor: int, **options: Any) -> popart.BatchSerializationSettings:
    settings = popart.BatchSerializationSettings()
    settings.factor = factor
    for name, value in options.items():
        setattr(settings, name, value)
    return settings


def test_a_factor_computes_the_batch_in_parts() -> None:
    """With the values of the whole; no warning says that it has no effect."""
    expected, steps = _trained(_settings(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual, in_parts = _trained(_settings(4))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    n_whole, n_in_parts = (sum("/sin" in name for name in names) for names in (steps, in_parts))
    assert n_in_parts == 4 * n_whole > 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"transformContext": popart.BatchSerializationTransformContext.Bwd}, "transformContext"),
        ({"batchSchedule": popart.BatchSerializationBatchSchedule.OverlapOnIo}, "batchSchedule"),
    ],
)
def test_what_has_no_counterpart_warns(
    options: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popart.effect._warned", set())
    with pytest.warns(popart.NoEffectWarning, match=f"{_OPTION}.{name} has no effect"):
        _trained(_settings(2, **options))


def test_bad_settings_are_refused() -> None:
    with pytest.raises(popart.popart_exception, match="Loop batch serialization is only supported"):
        _trained(_settings(2, method=popart.BatchSerializationMethod.Loop))
    with pytest.raises(popart.popart_exception, match="3 parts do not divide the batch of"):
        _trained(_settings(3))
