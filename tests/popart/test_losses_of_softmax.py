"""Gradients of the loss of a softmax, where probabilities are too small for their type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart


def _softmax(scores: NDArray[Any]) -> NDArray[np.float64]:
    powers = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(-1, keepdims=True)
    return shares


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 6)])
@pytest.mark.parametrize("reduction", [popart.ReductionType.Sum, popart.ReductionType.Mean])
@pytest.mark.parametrize("ignored", [None, 1])
@pytest.mark.parametrize("is_reshaped", [False, True])
def test_wrong_scores_that_are_certain_have_gradients(
    shape: tuple[int, ...],
    reduction: popart.ReductionType,
    ignored: int | None,
    is_reshaped: bool,  # pytest gives it by name
) -> None:
    """The gradient of the scores is p - 1 at the label, times what the loss is scaled by."""
    rng = np.random.default_rng(1)
    scores = (80 * rng.standard_normal(shape)).astype(np.float32)
    labels = scores.argmin(-1).astype(np.int32)
    labels.flat[0] = 1
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", shape))
    w = builder.addInitializedInputTensor(np.ones(1, np.float32))
    given = labels.reshape(-1) if is_reshaped else labels
    label = builder.addInputTensor(popart.TensorInfo("INT32", given.shape))
    probabilities = builder.aiOnnx.softmax([builder.aiOnnx.mul([x, w])], axis=len(shape) - 1)
    if is_reshaped:
        rows = builder.aiOnnx.constant(np.array([-1, shape[-1]]))
        read = builder.aiOnnx.reshape([probabilities, rows])
    else:
        read = probabilities
    loss = builder.aiGraphcore.nllloss([read, label], reduction, ignored)
    gradient = f"Gradient___{x}"
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [gradient, loss]),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": 1}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: scores, label: given}, anchors))

    p = _softmax(scores)
    counted = labels != ignored if ignored is not None else np.ones(labels.shape, bool)
    picked = np.take_along_axis(p, labels[..., None].astype(np.int64), -1)[..., 0]
    assert picked.min() < 1e-20, "some probabilities are too small for float32's logarithm"
    scale = 1 / counted.sum() if reduction is popart.ReductionType.Mean else 1
    expected = scale * (p - np.eye(shape[-1])[labels]) * counted[..., None]
    np.testing.assert_allclose(anchors[gradient], expected, rtol=1e-5, atol=1e-6)
    losses = -np.log(np.maximum(picked, 1e-7)) * counted
    np.testing.assert_allclose(anchors[loss], scale * losses.sum(), rtol=1e-5)
