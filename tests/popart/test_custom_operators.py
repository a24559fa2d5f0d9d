"""Operators that a program registers: builder, inference and training."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popart
from tilescope import engine
from tilescope.engine import load_operators
from tilescope.engine.ir.registered import REGISTERED

EXAMPLE = Path(__file__).parents[2] / "examples/custom_operators.py"
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
W = np.linspace(-1, 1, 6, dtype=np.float32)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    before = dict(REGISTERED)
    load_operators(EXAMPLE)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)
    sys.modules.pop("custom_operators", None)


def _device() -> Any:
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 16})


def _program() -> tuple[popart.Builder, str, str, str]:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", X.shape))
    w = builder.addInitializedInputTensor(W, "w")
    product = builder.aiOnnx.mul([x, w])
    (leaky,) = builder.customOp(
        opName="LeakyRelu", opVersion=1, domain="custom.ops", inputs=[product],
        attributes={"alpha": 0.5}, numOutputs=1, name="leaky",
    )  # fmt: skip
    (cube,) = builder.customOp("Cube", 1, "custom.ops", [leaky], {})
    return builder, x, leaky, cube


def test_the_builder_knows_the_types() -> None:
    builder, _, leaky, cube = _program()
    assert builder.getTensorShape(leaky) == builder.getTensorShape(cube) == [4, 6]
    assert builder.getTensorDtypeString(cube) == "float32"
    (unknown,) = builder.customOp("Missing", 1, "custom.ops", [cube], {})
    assert builder.getTensorShape(unknown) == []


def test_inference_and_training() -> None:
    builder, x, _, cube = _program()
    loss = builder.aiGraphcore.l1loss([cube], 0.1)
    flow = popart.DataFlow(1, {cube: popart.AnchorReturnType("All")})
    product = X * W
    y = np.where(product > 0, product, product / 2)
    session = popart.InferenceSession(builder.getModelProto(), flow, _device())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: X}, anchors))
    np.testing.assert_allclose(anchors[cube], y**3, rtol=1e-5, atol=1e-7)
    training = popart.TrainingSession(
        builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), _device()
    )
    training.prepareDevice()
    training.weightsFromHost()
    training.run(popart.PyStepIO({x: X}, training.initAnchorArrays()))
    training.weightsToHost()
    trained = np.zeros_like(W)
    training.readWeights(popart.PyWeightsIO({"w": trained}))
    slope = np.where(product > 0, 1, 0.5)
    gradient = (0.1 / X.size * np.sign(y) * 3 * y**2 * slope * X).sum(0)
    np.testing.assert_allclose(trained, W - 0.1 * gradient, rtol=1e-5)


def test_versions_are_those_of_the_domain() -> None:
    engine.custom_operator("Versioned", domain="my", versions=(1, 2), decompose=_times_version)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", X.shape))
    (y,) = builder.customOp("Versioned", 2, "my", [x], {})
    with pytest.raises(popart.popart_exception, match="Invalid opset 1 used"):
        builder.customOp("Versioned", 1, "my", [x], {})
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
    session = popart.InferenceSession(builder.getModelProto(), flow, _device())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: X}, anchors))
    np.testing.assert_allclose(anchors[y], 2 * X)


def _times_version(node: Any, into: Any) -> Any:
    factor = into.constant(np.float32(node.version), "factor")
    return into.emit(engine.operator("Mul"), node.operand(0), factor)


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("Missing", {}, r"custom.ops.Missing \(1\).*\n.*\n.*register them with"),
        ("LeakyRelu", {"beta": 1.0}, "unknown attribute 'beta' of custom.ops.LeakyRelu"),
        ("LeakyReluGrad", {}, "custom.ops.LeakyReluGrad takes 2 inputs, got 1"),
    ],
)
def test_refused_nodes(name: str, attributes: dict[str, Any], message: str) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", X.shape))
    (y,) = builder.customOp(name, 1, "custom.ops", [x], attributes)
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
    with pytest.raises(popart.popart_exception, match=message):
        popart.InferenceSession(builder.getModelProto(), flow, _device())


def test_an_operator_that_fails_ends_in_popart_s_exception() -> None:
    def fails(_node: Any, _into: Any) -> Any:
        raise KeyError("lost")

    engine.custom_operator("Fails", domain="my", decompose=fails)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", X.shape))
    (y,) = builder.customOp("Fails", 1, "my", [x], {}, name="bad")
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
    with pytest.raises(popart.popart_exception, match=r"decompose of my.Fails failed at"):
        popart.InferenceSession(builder.getModelProto(), flow, _device())


def _local(scales: Any) -> None:
    """Register an operator whose codelet no other process finds, or that has no digest."""

    @engine.codelet(
        engine.Field("x", "in"),
        engine.Field("out", "out"),
        law=lambda batch, _: 9 + batch.size["x"][:, 0],
        code_bytes=40,
    )
    def doubled(x: Any, out: Any) -> None:
        for i in range(out.size):
            out[i] = 2 * x[i]

    def lower(at: Any, op: Any) -> Any:
        return engine.map_codelet(at.builder, doubled, [at.tensor(op.operand(0))])

    def lower_with(at: Any, op: Any) -> Any:
        assert scales is not None
        return lower(at, op)

    engine.custom_operator(
        "Doubled",
        domain="my",
        infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
        lower=lower_with if scales is not None else lower,
    )


@pytest.mark.parametrize("scales", [None, object()])
def test_operators_that_no_other_process_finds_are_not_cached(tmp_path: Path, scales: Any) -> None:
    _local(scales)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", X.shape))
    (y,) = builder.customOp("Doubled", 1, "my", [x], {})
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
    options = popart.SessionOptions()
    options.enableEngineCaching, options.cachePath = True, str(tmp_path / "cache")
    device = popart.DeviceManager().acquireAvailableDevice(1, 16)
    for _ in range(2):
        session = popart.InferenceSession(
            builder.getModelProto(), flow, device, userOptions=options
        )
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: X}, anchors))
        np.testing.assert_array_equal(anchors[y], 2 * X)
    assert not [*tmp_path.glob("cache/*.popef")]
    with pytest.raises(popart.popart_exception, match="The program cannot be saved: "):
        session.saveExecutable(str(tmp_path / "program.popef"))
    assert not (tmp_path / "program.popef").exists()
