"""What sessions refuse, in PopART's words, and what they count."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from tests.popart.session_models import hardware, inference, product, training

import popart


def _cpu() -> popart.DeviceInfo:
    return popart.DeviceManager().createCpuDevice()


def test_an_inference_needs_an_anchor_and_something_to_compute() -> None:
    builder, x, *_ = product()
    model = builder.getModelProto()
    with pytest.raises(popart.popart_exception, match=r"must specify an anchor tensor when doing"):
        popart.InferenceSession(model, popart.DataFlow(1, {}), _cpu())
    with pytest.raises(popart.popart_exception, match="All operations in the main graph were"):
        popart.InferenceSession(model, popart.DataFlow(1, [x]), _cpu())


@pytest.mark.parametrize(("size", "text"), [("n", "[n, 4]"), (-1, "[-1, 4]")])
def test_open_sizes_must_be_given(size: str | int, text: str) -> None:
    builder, x, _, out, _ = product()
    model = onnx.load_from_string(builder.getModelProto())
    dimension = model.graph.input[0].type.tensor_type.shape.dim[0]
    if isinstance(size, str):
        dimension.dim_param = size
    else:
        dimension.dim_value = size
    proto, flow = model.SerializeToString(), popart.DataFlow(1, [out])
    with pytest.raises(popart.popart_exception) as refused:
        popart.InferenceSession(proto, flow, _cpu())
    assert str(refused.value) == (
        f"Input tensor '{x}' must be specified in InputShapeInfo, as it has shape {text}, which"
        f" uses an unknown value '{size}'."
    )
    shapes = popart.InputShapeInfo()
    shapes.add(x, popart.TensorInfo("FLOAT", [2, 4]))
    popart.InferenceSession(proto, flow, _cpu(), shapes)


@pytest.mark.filterwarnings("ignore::popart.NoEffectWarning")
def test_marks_and_options_that_contradict() -> None:
    builder, _, _, out, loss = product()
    builder.recomputeOutputInBackwardPass(out)
    options = popart.SessionOptions()
    options.autoRecomputation = popart.RecomputationType.Standard
    flow = popart.DataFlow(1, [out])
    with pytest.raises(popart.popart_exception, match="A mixture of auto and manual recomputatio"):
        popart.TrainingSession(
            builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), _cpu(), userOptions=options
        )
    builder, _, _, out, _ = product()
    builder.excludePatterns(out, ["NoSuchPattern"])
    with pytest.raises(popart.popart_exception, match="Invalid pattern name 'NoSuchPattern'"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), _cpu())


@pytest.mark.parametrize("dtype", ["INT8", "UINT8"])
def test_8_bit_integers_have_no_arithmetic(dtype: str) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(dtype, [2]))
    out = builder.aiOnnx.add([x, x])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [out]), _cpu())
    with pytest.raises(popart.poplar_exception, match=f"'Add:0'.* computes in {dtype.lower()}"):
        session.prepareDevice()


def test_the_order_of_calls() -> None:
    session, x, _, _ = training(hardware())
    calls: list[tuple[Any, str]] = [
        (session.weightsToHost, r"before Devicex::weightsToHost\(const"),
        (session.getSummaryReport, "must have been prepared before a report can be fetched"),
        (session.getReport, "must have been prepared before a report can be fetched"),
        (session.loadEngineAndConnectStreams, "no compiled engine"),
    ]
    for call, sentence in calls:
        with pytest.raises(popart.popart_runtime_error, match=sentence):
            call()
    session.prepareDevice()
    data = popart.PyStepIO({x: np.ones((2, 4), np.float32)}, session.initAnchorArrays())
    with pytest.raises(popart.popart_runtime_error, match="Must call weightsFromHost before run"):
        session.run(data)
    with pytest.raises(popart.popart_exception, match=r"Program other not found"):
        session.run("other", data)
    session.weightsFromHost()
    session.run(data)
    assert {x, "w"} <= session.getTensorIds()
    session.checkInplacingAmbiguity()
    with pytest.raises(popart.popart_exception, match="modelToHost writes the model"):
        session.saveVariables("weights.bin")
    constant, *_ = inference(hardware())
    constant.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="Cannot call writeWeights when"):
        constant.writeWeights(popart.PyWeightsIO({}))


def test_an_offline_device_does_not_run() -> None:
    session, x, _ = inference(popart.DeviceManager().createOfflineIPUDevice({"tilesPerIPU": 4}))
    session.prepareDevice()
    data = popart.PyStepIO({x: np.ones((2, 4), np.float32)}, session.initAnchorArrays())
    with pytest.raises(popart.popart_runtime_error, match="not configured for execution"):
        session.run(data)


def test_engines_are_loaded_when_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    on_demand = popart.DeviceConnectionType.OnDemand
    device = popart.DeviceManager().acquireAvailableDevice(1, 4, connectionType=on_demand)
    session, x, _ = inference(device)
    popart.getLogger().setLevel("INFO")
    try:
        session.prepareDevice(False)
        assert not device.isAttached
        assert "Engine loaded" not in capsys.readouterr().err
        data = popart.PyStepIO({x: np.ones((2, 4), np.float32)}, session.initAnchorArrays())
        for n_loads in (1, 0):
            session.run(data)
            assert capsys.readouterr().err.count("Engine loaded") == n_loads
        assert device.isAttached
    finally:
        popart.getLogger().setLevel("WARN")


def test_cycles_are_counted_if_they_are_asked_for() -> None:
    x_data = np.ones((3, 2, 4), np.float32)
    session, x, _ = inference(
        hardware(),
        3,
        instrumentWithHardwareCycleCounter=True,
        hardwareInstrumentations={popart.Instrumentation.Outer, popart.Instrumentation.Inner},
    )
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="Must call run before getCycleCount"):
        session.getCycleCount()
    session.run(popart.PyStepIO({x: x_data}, session.initAnchorArrays()))
    assert session.getCycleCount() == 3 * session.getCycleCount("inner_ipu_0") > 0
    with pytest.raises(popart.popart_runtime_error, match="hardwareInstrumentations correctly"):
        session.getCycleCount("inner_ipu_1")
    plain, x, _ = inference(hardware(), 3)
    plain.prepareDevice()
    plain.run(popart.PyStepIO({x: x_data}, plain.initAnchorArrays()))
    with pytest.raises(popart.popart_runtime_error, match="'instrumentWithHardwareCycleCounter'"):
        plain.getCycleCount()


def test_data_for_what_is_no_input() -> None:
    session, x, out = inference(_cpu())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    inputs = {x: np.ones((2, 4), np.float32), out: np.ones(3, np.float32)}
    with pytest.raises(popart.popart_runtime_error, match=f"The tensor '{out}' has been provided"):
        session.run(popart.PyStepIO(inputs, anchors))
    lenient = popart.PyStepIO(inputs, anchors)
    lenient.enableRuntimeAsserts(False)
    session.run(lenient)


def test_unknown_engine_options() -> None:
    session, *_ = inference(_cpu(), engineOptions={"option": "value"})
    with pytest.raises(popart.poplar_exception, match=r"Unrecognised option 'option'$"):
        session.prepareDevice()


def test_out_of_memory_has_its_report(tmp_path: Any) -> None:
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [768, 768]))
    out = builder.aiOnnx.matmul([x, x])
    options = popart.SessionOptions()
    options.engineOptions = {
        "debug.allowOutOfMemory": "true",
        "autoReport.outputGraphProfile": "true",
        "autoReport.directory": str(tmp_path),
    }
    flow = popart.DataFlow(1, [out])
    session = popart.InferenceSession(
        builder.getModelProto(), flow, hardware(), userOptions=options
    )
    with pytest.raises(popart.OutOfMemoryException, match="Cannot fit all variable data") as full:
        session.prepareDevice()
    assert "Memory" in full.value.getSummaryReport()
    assert full.value.getProfilePath() == str(tmp_path / "inference" / "profile.pop")


def test_every_nth_value_counts_micro_batches() -> None:
    builder, x, _, _, loss = product()
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 2
    flow = popart.DataFlow(2, {x: popart.AnchorReturnType("EveryN", 2)})
    session = popart.TrainingSession(
        builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), _cpu(), userOptions=options
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    data = np.arange(32, dtype=np.float32).reshape(2, 2, 2, 4)
    session.run(popart.PyStepIO({x: data}, anchors))
    np.testing.assert_array_equal(anchors[x], data[:, 1])


@pytest.mark.filterwarnings("ignore::popart.NoEffectWarning")
@pytest.mark.parametrize(
    ("mode", "factor", "sentence"),
    [
        ("output_channels", 2, "factor 2 for output channels dim 3. output_channels dim should be"),
        ("input_channels", 3, "factor 3 for input channels dim 2. input_channels dim should be"),
        ("reducing_dim", 3, "factor 3 for reducing dimension 4. reducing_dim dim should be"),
        ("reducing_dim", 0, "Serialisation factor must be a non-zero positive integer"),
        ("reducing_dim", 2, ""),
    ],
)
def test_products_are_cut_into_equal_parts(mode: str, factor: int, sentence: str) -> None:
    builder, _, _, out, _ = product()
    builder.setSerializeMatMul({out}, mode, factor)
    model, flow = builder.getModelProto(), popart.DataFlow(1, [out])
    if not sentence:
        popart.InferenceSession(model, flow, _cpu())
        return
    with pytest.raises(popart.popart_exception, match=sentence):
        popart.InferenceSession(model, flow, _cpu())


def test_the_memory_of_plans_is_logged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"with a per-tile memory limit of {int(0.25 * 638976)}"
    for level, n_lines in (("INFO", 0), ("DEBUG", 1)):
        monkeypatch.setenv("POPLIBS_LOG_LEVEL", level)
        builder, _, _, out, _ = product()
        builder.setAvailableMemoryProportion(out, 0.25)
        flow = popart.DataFlow(1, [out])
        popart.InferenceSession(builder.getModelProto(), flow, hardware()).prepareDevice()
        assert capsys.readouterr().err.count(text) == n_lines


def test_debug_information_has_the_program(tmp_path: Any) -> None:
    popart.initializePoplarDebugInfo(str(tmp_path / "debug.json"))
    session, x, _ = inference(hardware())
    session.prepareDevice()
    popart.closePoplarDebugInfo()
    content = json.loads((tmp_path / "debug.json").read_text())
    names = {(content["stringTable"][c["name"]], c["layer"]) for c in content["contexts"]}
    assert {(x, "popart"), ("w", "popart")} <= names
    assert any(layer == "library" for _, layer in names)
    numbers = {c["id"] for c in content["contexts"]}
    assert {c["parentId"] for c in content["contexts"] if "parentId" in c} <= numbers
