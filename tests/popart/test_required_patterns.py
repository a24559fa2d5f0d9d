"""Patterns without which PopART cannot run an operator or its gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import popart

Make = Callable[[popart.Builder, str, str], str]
ONES = np.ones((2, 7), np.float32)


def _session(make: Make, *enabled: str, is_trained: bool = True) -> None:
    builder = popart.Builder()
    x, w = builder.addInputTensor("FLOAT", [2, 7]), builder.addInitializedInputTensor(ONES)
    out = make(builder, x, w)
    loss = builder.aiGraphcore.identityloss([out])
    patterns = popart.Patterns([*enabled])
    patterns.enableRuntimeAsserts(False)
    flow = popart.DataFlow(1, {out: popart.AnchorReturnType("All")})
    device = popart.DeviceManager().createCpuDevice()
    model = builder.getModelProto()
    if is_trained:
        optimizer = popart.ConstSGD(0.1)
        popart.TrainingSession(model, flow, loss, optimizer, device, patterns=patterns)
    else:
        popart.InferenceSession(model, flow, device, patterns=patterns)


GRADIENTS: list[tuple[Make, str]] = [
    (lambda b, _, w: b.aiOnnx.cos([w]), "CosGradOp"),
    (lambda b, _, w: b.aiOnnx.exp([b.aiOnnx.neg([w])]), "ExpGradOp"),
    (lambda b, _, w: b.aiOnnx.sqrt([w]), "SqrtGradOp"),
    (lambda b, x, w: b.aiOnnx.sub([x, w]), "SubtractArg1GradOp"),
    (lambda b, x, w: b.aiGraphcore.atan2([w, x]), "Atan2Arg0GradOp"),
    (lambda b, x, w: b.aiGraphcore.atan2([x, w]), "Atan2Arg1GradOp"),
    (lambda b, _, w: b.aiGraphcore.log1p([w]), "Log1pGradOp"),
]


@pytest.mark.parametrize(("make", "pattern"), GRADIENTS)
def test_a_gradient_needs_its_pattern(make: Make, pattern: str) -> None:
    with pytest.raises(popart.popart_exception) as refused:
        _session(make)
    assert str(refused.value).endswith(f"This op should have been removed by pattern {pattern}")
    _session(make, pattern)
    _session(make, is_trained=False)


def test_an_operand_without_a_weight_needs_none() -> None:
    _session(lambda b, x, w: b.aiOnnx.add([b.aiOnnx.cos([x]), w]))
    _session(lambda b, x, w: b.aiOnnx.sub([w, x]))


def test_an_operator_needs_its_pattern() -> None:
    with pytest.raises(popart.popart_exception, match="removed by pattern CoshOp"):
        _session(lambda b, x, _: b.aiOnnx.cosh([x]), is_trained=False)
