"""Printed tensors: where Poplar prints them, and in its format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.popart.session_models import product

import popart


def _run(builder: popart.Builder, anchor: str, inputs: dict[str, Any], loss: str = "") -> None:
    model, device = builder.getModelProto(), popart.DeviceManager().createCpuDevice()
    flow = popart.DataFlow(1, [anchor])
    session: Any
    if loss:
        session = popart.TrainingSession(model, flow, loss, popart.ConstSGD(0.5), device)
    else:
        session = popart.InferenceSession(model, flow, device)
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO(inputs, session.initAnchorArrays()))


def test_tensors_are_printed_whether_or_not_they_are_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("INT32", [3]))
    twice = builder.aiOnnx.add([x, x])
    builder.aiGraphcore.printtensor([twice])
    _run(builder, twice, {x: np.array([3, 4, 6], np.int32)})
    output = capsys.readouterr()
    assert output.err == f"{twice}: [ 6  8 12]\n"
    assert not output.out


def test_a_format_and_a_title_are_those_of_the_gradient_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    builder, x, w, _, _ = product(np.ones((4, 3), np.float32))
    printed = builder.aiGraphcore.printtensor(
        [w], title="weight", digits=3, openBracket="(", closeBracket=")", maxLineWidth=0
    )
    loss = builder.aiOnnx.reducesum([builder.aiOnnx.matmul([x, printed])], keepdims=0)
    _run(builder, loss, {x: np.ones((2, 4), np.float32)}, loss)
    output = "".join(capsys.readouterr().err.split())
    assert output == "".join(
        f"{title}:({row * 4})"
        for title, row in (("weight", "(1.001.001.00)"), ("weight_gradient", "(2.002.002.00)"))
    )


def test_a_gradient_is_not_printed_if_the_node_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    builder, x, w, _, _ = product()
    printed = builder.aiGraphcore.printtensor([w], 0)
    loss = builder.aiOnnx.reducesum([builder.aiOnnx.matmul([x, printed])], keepdims=0)
    _run(builder, loss, {x: np.ones((2, 4), np.float32)}, loss)
    assert capsys.readouterr().err.count(":") == 1


@pytest.mark.parametrize("dtype", ["INT8", "UINT8"])
def test_synthetic_integers_of_8_bits_are_any_of_their_type(
    dtype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(dtype, [500]))
    out = builder.aiGraphcore.printtensor([builder.aiOnnx.cast([x], "INT32")], 1, "", "t", 0, 3, 0)
    options = popart.SessionOptions()
    options.syntheticDataMode = popart.SyntheticDataMode.RandomUniform
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, [out]),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.run(popart.PyStepIO({}, {}))
    values = [int(word) for word in capsys.readouterr().err.strip("t: []\n").split()]
    limits = np.iinfo(dtype.lower())
    assert limits.min <= min(values) < limits.min + 16
    assert limits.max - 16 < max(values) <= limits.max
