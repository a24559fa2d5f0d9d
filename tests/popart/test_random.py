"""Random operators of sessions: they follow the session's seed, and draw others in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart

Array = NDArray[Any]


def _normal(builder: popart.Builder) -> Any:
    return builder.aiOnnx.randomnormal([3, 5])


def _uniform_like(builder: popart.Builder) -> Any:
    x = builder.aiOnnx.constant(np.zeros([3, 5], np.float32))
    return builder.aiOnnx.randomuniformlike([x], high=2.0)


def _in_a_call(builder: popart.Builder) -> Any:
    inner = builder.createSubgraphBuilder()
    inner.addOutputTensor(inner.aiOnnx.randomnormal([3, 5]))
    return builder.aiGraphcore.call([], 1, inner)[0]


_CASES = [_normal, _uniform_like, _in_a_call]


def _drawn(case: Any, seed: int, n_runs: int, *, trains: bool) -> list[Array]:
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.ones([3, 5], np.float32))
    r = case(builder)
    y = builder.aiOnnx.mul([r, w])
    loss = builder.aiGraphcore.l1loss([y], 1.0)
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    flow = popart.DataFlow(2, {r: popart.AnchorReturnType("All")})
    model = builder.getModelProto()
    session: Any
    if trains:
        session = popart.TrainingSession(model, flow, loss, popart.ConstSGD(0.1), device)
    else:
        session = popart.InferenceSession(model, flow, device)
    session.prepareDevice()
    session.setRandomSeed(seed)
    session.weightsFromHost()
    drawn = []
    for _ in range(n_runs):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({}, anchors))
        drawn += [np.array(batch) for batch in anchors[r]]
    return drawn


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("case", _CASES)
def test_numbers_follow_the_seed_and_differ_by_batch(
    case: Any,
    trains: bool,  # pytest gives it by name
) -> None:
    first = _drawn(case, 3, 2, trains=trains)
    assert len({array.tobytes() for array in first}) == 4
    for again, array in zip(_drawn(case, 3, 2, trains=trains), first, strict=True):
        np.testing.assert_array_equal(again, array)
    (other, _) = _drawn(case, 4, 1, trains=trains)
    assert not np.array_equal(other, first[0])
