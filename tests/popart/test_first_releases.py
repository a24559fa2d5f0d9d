"""Programs of the first releases of PopART, as its introductions print them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import popart
from popart import (
    SGD,
    AnchorReturnType,
    Builder,
    DataFlow,
    DeviceManager,
    InferenceSession,
    L1Loss,
    NllLoss,
    PyStepIO,
    TensorInfo,
    TrainingSession,
)

Array = NDArray[Any]
_WEIGHT = np.random.default_rng(3).normal(size=(5, 6)).astype(np.float32)


def _device() -> popart.DeviceInfo:
    return DeviceManager().createIpuModelDevice({"numIPUs": 1})


def test_the_inference_of_add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program takes `dataFeed`, the path of a model, and a return type in capitals."""
    monkeypatch.chdir(tmp_path)
    shape = [3, 4, 5]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    total = helper.make_tensor_value_info("sum", TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "y"], ["sum"])], "add", values, [total]
    )
    opset = [helper.make_opsetid("", 11)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=4), "add.onnx")

    session = InferenceSession(
        fnModel="add.onnx",
        dataFeed=DataFlow(1, {"sum": AnchorReturnType("FINAL")}),
        deviceInfo=DeviceManager().acquireAvailableDevice(numIpus=1),
    )
    anchors = session.initAnchorArrays()
    session.prepareDevice()
    rng = np.random.default_rng(1)
    x = rng.random((3, 4, 5), np.float32)
    y = rng.random((3, 4, 5), np.float32)
    session.run(PyStepIO({"x": x, "y": y}, anchors))
    np.testing.assert_allclose(anchors["sum"], x + y)


def _classifier(path: Path) -> None:
    """Write a model whose `output` is a product of its input with a weight."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["input", "w"], ["output"])],
        "network",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [4, 5])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [4, 6])],
        [numpy_helper.from_array(_WEIGHT, "w")],
    )
    opset = [helper.make_opsetid("", 10)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=4), path)


def _expected(
    weight: Array, batches: Array, labels: Array, rate: float
) -> tuple[Array, list[float]]:
    """Return the weight after a step of gradient descent by batch, and the losses before each."""
    weight, losses = weight.astype(np.float64), []
    for batch, label in zip(batches.astype(np.float64), labels, strict=True):
        logits = batch @ weight
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        rows = np.arange(len(label))
        losses.append(-np.log(p[rows, label]).sum())
        p[rows, label] -= 1
        weight = weight - rate * batch.T @ p
    return weight, losses


def test_the_training_of_a_model_with_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program grows a file's model, gives a list of losses, and writes the trained model."""
    monkeypatch.chdir(tmp_path)
    _classifier(tmp_path / "model.onnx")
    builder = Builder("model.onnx")
    probs = builder.aiOnnx.softmax(["output"])
    label = builder.addInputTensor(TensorInfo("INT32", [4]), "label")
    session = TrainingSession(
        fnModel=builder.getModelProto(),
        dataFeed=DataFlow(8, {"loss": AnchorReturnType("ALL")}),
        losses=[NllLoss(probs, label, "loss")],
        optimizer=SGD(learning_rate=0.001),
        deviceInfo=_device(),
    )
    anchors = session.initAnchorArrays()
    session.prepareDevice()
    session.weightsFromHost()
    session.optimizerFromHost()
    rng = np.random.default_rng(4)
    batches = rng.normal(size=(8, 4, 5)).astype(np.float32)
    labels = rng.integers(0, 6, (8, 4)).astype(np.int32)
    session.run(PyStepIO({"input": batches, "label": labels}, anchors))
    session.modelToHost("trained model.onnx")
    weight, losses = _expected(_WEIGHT, batches, labels, 0.001)
    np.testing.assert_allclose(anchors["loss"].reshape(-1), losses, rtol=1e-5)
    (trained,) = onnx.load("trained model.onnx").graph.initializer
    np.testing.assert_allclose(numpy_helper.to_array(trained), weight, rtol=1e-5, atol=1e-6)


def test_several_losses_are_summed(tmp_path: Path) -> None:
    """The gradient is that of all of them."""
    _classifier(tmp_path / "model.onnx")
    builder = Builder(str(tmp_path / "model.onnx"))
    probs = builder.aiOnnx.softmax(["output"])
    label = builder.addInputTensor(TensorInfo("INT32", [4]), "label")
    session = TrainingSession(
        builder.getModelProto(),
        DataFlow(1, {"loss": AnchorReturnType("ALL"), "norm": AnchorReturnType("ALL")}),
        losses=[NllLoss(probs, label, "loss"), L1Loss("output", "norm", 0.5)],
        optimizer=SGD(learning_rate=0.0),
        deviceInfo=_device(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    batch = np.random.default_rng(5).normal(size=(4, 5)).astype(np.float32)
    labels = np.arange(4, dtype=np.int32)
    session.run(PyStepIO({"input": batch, "label": labels}, anchors))
    _, losses = _expected(_WEIGHT, batch[None], labels[None], 0.0)
    np.testing.assert_allclose(anchors["loss"], losses[0], rtol=1e-5)
    np.testing.assert_allclose(anchors["norm"], 0.5 * np.abs(batch @ _WEIGHT).sum(), rtol=1e-5)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    """A loss that is none, one that has a taken name, and arguments that do not exist."""
    _classifier(tmp_path / "model.onnx")
    model, flow = str(tmp_path / "model.onnx"), DataFlow(1, {"output": AnchorReturnType("ALL")})
    rule = SGD(learning_rate=0.1)
    with pytest.raises(popart.popart_exception, match="it is empty"):
        TrainingSession(model, flow, losses=[], optimizer=rule, deviceInfo=_device())
    wrong: Any = ["loss"]
    with pytest.raises(popart.popart_exception, match="a str in it"):
        TrainingSession(model, flow, losses=wrong, optimizer=rule, deviceInfo=_device())
    taken = [L1Loss("output", "output", 1.0)]
    with pytest.raises(popart.popart_exception, match="another outputId"):
        TrainingSession(model, flow, losses=taken, optimizer=rule, deviceInfo=_device())
    with pytest.raises(popart.popart_exception, match="'output', must be a scalar"):
        TrainingSession(model, flow, loss="output", optimizer=rule, deviceInfo=_device())
    with pytest.raises(TypeError, match="'learningRate'"):
        SGD(learningRate=0.1)
    with pytest.raises(TypeError, match="'dataFlow'"):
        InferenceSession(model, deviceInfo=_device())
