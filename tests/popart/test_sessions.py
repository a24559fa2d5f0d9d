"""Sessions: anchors and their return types, weights, micro-batches, devices, reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import popart

_RNG = np.random.default_rng(7)
WEIGHT = _RNG.normal(size=(4, 3)).astype(np.float32)
_BATCH = (2, 4)

Array = NDArray[Any]


def _model(weight: Array = WEIGHT) -> bytes:
    """Return a product with a weight, a Relu, and the sum of it."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
            helper.make_node("Relu", ["m"], ["r"], name="relu"),
            helper.make_node("ReduceSum", ["r"], ["loss"], name="sum", keepdims=0),
        ],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _BATCH)],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, (2, 3))],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 11)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=6).SerializeToString()
    return model


def _device() -> popart.DeviceInfo:
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})


def _batches(*sizes: int) -> Array:
    return _RNG.normal(size=(*sizes, *_BATCH)).astype(np.float32)


def _inference(flow: popart.DataFlow, **options: Any) -> tuple[popart.InferenceSession, Any]:
    stated = popart.SessionOptions()
    for name, value in options.items():
        setattr(stated, name, value)
    session = popart.InferenceSession(_model(), flow, _device(), userOptions=stated)
    session.prepareDevice()
    return session, session.initAnchorArrays()


def _training(
    flow: popart.DataFlow, optimizer: popart.Optimizer, n_rounds: int = 1, **options: Any
) -> tuple[popart.TrainingSession, Any]:
    stated = popart.SessionOptions()
    stated.enableGradientAccumulation, stated.accumulationFactor = n_rounds > 1, n_rounds
    for name, value in options.items():
        setattr(stated, name, value)
    session = popart.TrainingSession(
        _model(), flow, "loss", optimizer, _device(), userOptions=stated
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, session.initAnchorArrays()


def _weights(session: popart.TrainingSession) -> Array:
    session.weightsToHost()
    held = {"w": np.empty_like(WEIGHT)}
    session.readWeights(popart.PyWeightsIO(held))
    return held["w"]


def _gradient(x: Array, w: Array) -> Array:
    return x.T @ (x @ w > 0).astype(np.float32)


@pytest.mark.parametrize(("kind", "period"), [("All", 0), ("Final", 0), ("SUM", 0), ("everyn", 2)])
def test_anchors_are_returned_as_their_type_says(kind: str, period: int) -> None:
    art = popart.AnchorReturnType(kind, period) if period else popart.AnchorReturnType(kind)
    session, anchors = _inference(popart.DataFlow(4, {"m": art}))
    x = _batches(4)
    session.run(popart.PyStepIO({"x": x}, anchors))
    every = x @ WEIGHT
    expected = {
        "all": every, "final": every[-1], "sum": every.sum(axis=0), "everyn": every[1::2]
    }  # fmt: skip
    assert anchors["m"].shape == expected[kind.lower()].shape
    np.testing.assert_allclose(anchors["m"], expected[kind.lower()], rtol=1e-5, atol=1e-6)


def test_inputs_and_several_tensors_are_anchors() -> None:
    session, anchors = _inference(popart.DataFlow(1, ["x", "m", "loss"]))
    x = _batches()
    session.run(popart.PyStepIO({"x": x}, anchors))
    np.testing.assert_array_equal(anchors["x"], x)
    np.testing.assert_allclose(anchors["loss"], np.maximum(x @ WEIGHT, 0).sum(), rtol=1e-5)


def test_an_inference_refuses_gradient_accumulation() -> None:
    with pytest.raises(popart.popart_exception, match="only available when training"):
        _inference(popart.DataFlow(1, ["m"]), enableGradientAccumulation=True)


def test_callbacks_bring_batches_and_take_anchors() -> None:
    session, anchors = _inference(popart.DataFlow(3, ["m"]))
    x, called = _batches(3), []
    given = iter(x)
    taken = iter(anchors["m"])

    def bring(name: str, is_prefetched: bool) -> Array:
        assert not is_prefetched
        called.append(name)
        batch: Array = next(given)
        return batch

    def take(name: str) -> Array:
        called.append(name)
        place: Array = next(taken)
        return place

    session.run(popart.PyStepIOCallback(bring, called.append, take, called.append))
    np.testing.assert_allclose(anchors["m"], x @ WEIGHT, rtol=1e-5, atol=1e-6)
    assert called == ["x", "x", "m", "m"] * 3


@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize("is_mean", [False, True])
def test_steps_of_gradient_descent(n_rounds: int, is_mean: bool) -> None:
    names = ["loss", "Gradient___x", "Gradient___w"]
    reduction = popart.ReductionType.Mean if is_mean else popart.ReductionType.Sum
    session, anchors = _training(
        popart.DataFlow(2, names),
        popart.SGD({"defaultLearningRate": (0.125, False)}),
        n_rounds,
        accumulationAndReplicationReductionType=reduction,
    )
    x, w = _batches(2, n_rounds), WEIGHT.copy()
    session.run(popart.PyStepIO({"x": x}, anchors))
    losses, of_weight = [], []
    for step in range(2):
        gradients = [_gradient(x[step, i], w) for i in range(n_rounds)]
        losses += [np.maximum(x[step, i] @ w, 0).sum() for i in range(n_rounds)]
        of_weight += gradients
        w = w - 0.125 * sum(gradients) / (n_rounds if is_mean else 1)
    np.testing.assert_allclose(anchors["loss"].reshape(-1), losses, rtol=1e-5)
    np.testing.assert_allclose(
        anchors["Gradient___w"].reshape(-1, 4, 3), of_weight, rtol=1e-5, atol=1e-6
    )
    assert anchors["Gradient___x"].shape == tuple(n for n in (2, n_rounds) if n > 1) + _BATCH
    np.testing.assert_allclose(_weights(session), w, rtol=1e-5, atol=1e-6)


def test_a_model_without_weights_has_gradients_of_inputs() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "x"], ["square"]),
            helper.make_node("ReduceSum", ["square"], ["loss"], keepdims=0),
        ],
        "square",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, _BATCH)],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, ())],
    )
    opsets = [helper.make_opsetid("", 11)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=6).SerializeToString()
    flow = popart.DataFlow(1, ["Gradient___x"])
    session = popart.TrainingSession(model, flow, "loss", popart.ConstSGD(0.1), _device())
    session.prepareDevice()
    session.weightsFromHost()
    anchors, x = session.initAnchorArrays(), _batches()
    session.run(popart.PyStepIO({"x": x}, anchors))
    np.testing.assert_allclose(anchors["Gradient___x"], 2 * x, rtol=1e-6)


def test_the_rate_is_changed_between_steps_and_constants_are_not() -> None:
    session, anchors = _training(
        popart.DataFlow(1, ["loss"]), popart.SGD({"defaultLearningRate": (0.5, False)})
    )
    x = _batches()
    session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (0.25, False)}))
    session.run(popart.PyStepIO({"x": x}, anchors))
    expected = WEIGHT - 0.25 * _gradient(x, WEIGHT)
    np.testing.assert_allclose(_weights(session), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(popart.popart_exception, match="not a valid replacement"):
        session.updateOptimizerFromHost(popart.ConstSGD(0.25))


def test_weights_go_to_a_file_and_into_an_inference(tmp_path: Path) -> None:
    session, anchors = _training(popart.DataFlow(1, ["loss"]), popart.ConstSGD(0.5))
    x = _batches()
    session.run(popart.PyStepIO({"x": x}, anchors))
    trained = _weights(session)
    session.modelToHost(str(tmp_path / "trained.onnx"))
    (tensor,) = onnx.load(tmp_path / "trained.onnx").graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), trained)
    second, read = _inference(popart.DataFlow(1, ["m"]), constantWeights=False)
    second.resetHostWeights(str(tmp_path / "trained.onnx"))
    second.weightsFromHost()
    second.run(popart.PyStepIO({"x": x}, read))
    np.testing.assert_allclose(read["m"], x @ trained, rtol=1e-5, atol=1e-6)
    constant, _ = _inference(popart.DataFlow(1, ["m"]))
    with pytest.raises(popart.popart_exception, match="constantWeights is set"):
        constant.resetHostWeights(str(tmp_path / "trained.onnx"))


def test_a_report_has_the_names_of_the_program(tmp_path: Path) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    shown = {"showExecutionSteps": "true"}
    session, anchors = _inference(
        popart.DataFlow(2, ["r"]),
        engineOptions=options,
        reportOptions=shown,
        instrumentWithHardwareCycleCounter=True,
    )
    session.run(popart.PyStepIO({"x": _batches(2)}, anchors), "first")
    report = session.getReport()
    assert len(report.execution.runs) == 2
    names = {step.program.name for step in report.execution.steps}
    assert any(name.startswith("product") for name in names)
    assert session.getCycleCount() > 0
    assert "product" in session.getSummaryReport()
    session.close()
    assert (tmp_path / "inference" / "profile.pop").exists()


def test_a_session_without_a_report_has_one_of_its_program() -> None:
    session, _ = _inference(popart.DataFlow(1, ["r"]))
    report = session.getReport()
    assert sum(tile.memory.total.excludingGaps for tile in report.compilation.tiles) > 0
    assert not report.execution.runs
    assert session.getReport().compilation.target.numTiles == report.compilation.target.numTiles


def test_recomputation_gives_the_same_bits() -> None:
    kinds = (popart.RecomputationType.NoRecompute, popart.RecomputationType.RecomputeAll)
    x, results = _batches(), []
    for kind in kinds:
        session, anchors = _training(
            popart.DataFlow(1, ["loss"]), popart.ConstSGD(0.5), autoRecomputation=kind
        )
        session.run(popart.PyStepIO({"x": x}, anchors))
        results.append(_weights(session))
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize(
    ("flow", "sentence"),
    [
        (["nothing"], "Anchor tensor `nothing' not in Ir Tensors"),
        (["Gradient___x"], "Anchor tensor `Gradient___x' not in Ir Tensors"),
    ],
)
def test_anchors_that_do_not_exist(flow: list[str], sentence: str) -> None:
    with pytest.raises(popart.popart_exception, match=sentence):
        _inference(popart.DataFlow(1, flow))


def test_data_of_another_size_or_type() -> None:
    session, anchors = _inference(popart.DataFlow(2, ["m"]))
    with pytest.raises(popart.popart_exception, match="Expected 16, but got 8"):
        session.run(popart.PyStepIO({"x": _batches()}, anchors))
    with pytest.raises(popart.popart_exception, match="No tensor x provided in PyStepIO's inputs"):
        session.run(popart.PyStepIO({}, anchors))
    with pytest.raises(popart.popart_exception, match="Type discrepancy for tensor x"):
        session.run(popart.PyStepIO({"x": _batches(2).astype(np.float64)}, anchors))
    with pytest.raises(popart.popart_exception, match="not c-contiguous"):
        popart.PyStepIO({"x": _batches(2).T}, anchors)


def test_what_needs_several_ipus_is_refused_by_its_option() -> None:
    for option, message in (
        ("enablePipelining", "Pipelining requires more than 1 IPU"),
        ("enableDistributedReplicatedGraphs", "enableDistributedReplicatedGraphs needs several"),
    ):
        with pytest.raises(popart.popart_exception, match=message):
            _inference(popart.DataFlow(1, ["m"]), **{option: True})
    with pytest.raises(popart.popart_exception, match="does not divide the 1 IPUs of the device"):
        _inference(popart.DataFlow(1, ["m"]), enableReplicatedGraphs=True, replicatedGraphCount=2)


def test_devices_are_simulated_wherever_hardware_is_asked_for() -> None:
    manager = popart.DeviceManager()
    device = manager.acquireAvailableDevice(2)
    assert (device.numIpus, device.tilesPerIPU, device.isAttached) == (2, 1472, True)
    with device:
        pass
    assert not device.isAttached
    assert manager.createIpuModelDevice({"tilesPerIPU": 16}).tilesPerIpu == 16
    with pytest.raises(popart.popart_exception, match="power of two"):
        manager.acquireAvailableDevice(3)
    with pytest.raises(popart.popart_exception, match=r"Invalid option `numIPU'.*'numIPUs'"):
        manager.createIpuModelDevice({"numIPU": 2})


def test_a_model_that_does_not_fit_says_so() -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"])],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 2048))],
        [helper.make_tensor_value_info("m", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.zeros((2048, 1024), np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 11)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=6).SerializeToString()
    session = popart.InferenceSession(model, popart.DataFlow(1, ["m"]), _device())
    with pytest.raises(popart.OutOfMemoryException, match="Out of memory"):
        session.prepareDevice()
    on_cpu = popart.InferenceSession(
        model, popart.DataFlow(1, ["m"]), popart.DeviceManager().createCpuDevice()
    )
    on_cpu.prepareDevice()


def test_what_is_no_model() -> None:
    for model, sentence in ((b"nothing", "from 7 bytes"), ("nothing.onnx", "there is no file")):
        with pytest.raises(popart.popart_exception, match=sentence):
            popart.InferenceSession(model, popart.DataFlow(1, ["m"]), _device())
    session = popart.InferenceSession(_model(), popart.DataFlow(1, ["m"]), _device())
    with pytest.raises(
        popart.popart_exception, match=r"Devicex::prepare\(\) must be called before"
    ):
        session.run(popart.PyStepIO({"x": _batches()}, session.initAnchorArrays()))
