"""Builders: models that are valid and compute what they say, names, scopes and refusals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import popart
from popart.builder.attribute_effects import attributes_set, warn_of_attributes
from popart.builder.graph import Graph
from tilescope import engine


def model_of(builder: popart.Builder) -> onnx.ModelProto:
    model = onnx.load_from_string(builder.getModelProto())
    onnx.checker.check_model(model)
    return model


def run(builder: popart.Builder, folder: Path, **inputs: Any) -> dict[str, np.ndarray]:
    path = folder / "model.onnx"
    path.write_bytes(builder.getModelProto())
    machine = engine.load_machine("gc200", tiles_per_ipu=4)
    compiled = engine.compile_model(engine.load_onnx(path), machine)
    with engine.Engine(compiled.executable, engine.resolve_options(environ={})) as device:
        return dict(compiled.run(device, inputs))


@pytest.fixture
def builder() -> popart.Builder:
    return popart.Builder()


def floats(builder: popart.Builder, *shape: int, name: str = "") -> str:
    return builder.addInputTensor(popart.TensorInfo("FLOAT", list(shape)), name)


def test_a_model_computes_what_it_says(builder: popart.Builder, tmp_path: Path) -> None:
    data = floats(builder, 1, 1, 4, 4)
    weights = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    kernel = builder.addInitializedInputTensor(weights, "kernel")
    result = builder.aiOnnx.conv([data, kernel], pads=[1, 1, 1, 1], strides=[1, 1])
    result = builder.aiOnnx.relu([result])
    builder.addOutputTensor(result)
    model = model_of(builder)
    assert [entry.version for entry in model.opset_import] == [10]
    pixels = np.zeros((1, 1, 4, 4), np.float32)
    pixels[0, 0, 1, 1] = 1
    computed = run(builder, tmp_path, input=pixels)[result]
    np.testing.assert_array_equal(computed[0, 0, :3, :3], weights[0, 0, ::-1, ::-1])


def test_a_loop_and_a_branch(builder: popart.Builder, tmp_path: Path) -> None:
    start = floats(builder, 2, name="start")
    rounds = builder.aiOnnx.constant(np.array(3, np.int64), "M")
    go_on = builder.aiOnnx.constant(np.array(True), "cond")
    body = builder.createSubgraphBuilder()
    body.addInputTensor(popart.TensorInfo("INT64", []))
    keep = body.addInputTensor(popart.TensorInfo("BOOL", []))
    carried = body.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    doubled = body.aiOnnx.add([carried, carried])
    body.addOutputTensor(body.aiOnnx.identity([keep]))
    body.addOutputTensor(doubled)
    (result,) = builder.aiOnnx.loop([rounds, go_on, start], 1, body)
    builder.addOutputTensor(result)
    assert builder.getTensorShape(result) == [2]
    model_of(builder)
    computed = run(builder, tmp_path, start=np.array([1, 2], np.float32))[result]
    np.testing.assert_array_equal(computed, [8, 16])


def test_a_branch_has_the_types_of_its_outputs(builder: popart.Builder) -> None:
    a, b = floats(builder, 3, name="a"), floats(builder, 3, name="b")
    condition = builder.addInputTensor("BOOL", [], "cond")
    branches = []
    for operator in ("add", "sub"):
        branch = builder.createSubgraphBuilder()
        branch.addOutputTensor(getattr(branch.aiOnnx, operator)([a, b]))
        branches.append(branch)
    (result,) = builder.aiOnnx.logical_if([condition], 1, *branches, name="choice")
    builder.addOutputTensor(result)
    assert builder.getTensorShape(result) == [3]
    assert model_of(builder).graph.node[-1].name == "choice"


def test_a_body_is_completed_where_a_node_holds_it(builder: popart.Builder, tmp_path: Path) -> None:
    a, step = floats(builder, 2, name="a"), floats(builder, 2, name="step")
    rounds = builder.aiOnnx.constant(np.array(2, np.int64))
    go_on = builder.aiOnnx.constant(np.array(True))
    body = builder.createSubgraphBuilder()
    body.addUntypedInputTensor()
    keep, carried = body.addUntypedInputTensor(), body.addUntypedInputTensor()
    body.addInputTensorFromParentGraph(step)
    plus = body.aiOnnx.add([carried, step])
    assert body.getTensorShape(plus) == []
    for output in (keep, plus, plus):
        body.addOutputTensor(body.aiOnnx.identity([output]))
    last, every = builder.aiOnnx.loop([rounds, go_on, a], 2, body)
    for output in (last, every):
        builder.addOutputTensor(output)
    assert (builder.getTensorShape(last), builder.getTensorShape(every)) == ([2], [2, 2])
    held = model_of(builder).graph.node[-1].attribute[0].g
    # What is read from the graph around a loop is no input of its body, in ONNX.
    assert len(held.input) == 3
    assert all(value.type.tensor_type.elem_type for value in (*held.input, *held.output))
    computed = run(builder, tmp_path, a=np.zeros(2, np.float32), step=np.ones(2, np.float32))
    np.testing.assert_array_equal(computed[every], [[1, 1], [2, 2]])


def test_a_scan_collects_along_its_inputs(builder: popart.Builder, tmp_path: Path) -> None:
    total, rows = floats(builder, 2, name="total"), floats(builder, 3, 2, name="rows")
    body = builder.createSubgraphBuilder()
    sum_, row = body.addUntypedInputTensor(), body.addUntypedInputTensor()
    plus = body.aiOnnx.add([sum_, row])
    for output in (plus, plus):
        body.addOutputTensor(body.aiOnnx.identity([output]))
    last, every = builder.aiOnnx.scan([total, rows], 2, body, 1)
    for output in (last, every):
        builder.addOutputTensor(output)
    assert (builder.getTensorShape(last), builder.getTensorShape(every)) == ([2], [3, 2])
    model_of(builder)
    steps = np.arange(6, dtype=np.float32).reshape(3, 2)
    computed = run(builder, tmp_path, total=np.zeros(2, np.float32), rows=steps)
    np.testing.assert_array_equal(computed[every], np.cumsum(steps, axis=0))


def test_a_scan_collects_along_any_axis(builder: popart.Builder) -> None:
    rows = floats(builder, 3, 2, name="rows")
    body = builder.createSubgraphBuilder()
    row = body.addUntypedInputTensor()
    body.addOutputTensor(body.aiOnnx.neg([row]))
    (every,) = builder.aiOnnx.scan([rows], 1, body, 1, scan_output_axes=[1])
    assert builder.getTensorShape(every) == [2, 3]


def test_names_are_those_of_the_operator_and_unique(builder: popart.Builder) -> None:
    a = floats(builder, 2)
    assert (a, floats(builder, 2)) == ("input", "input/1")
    assert builder.addInitializedInputTensor(np.ones(2, np.float32)) == "init_input"
    assert builder.aiOnnx.add([a, a]) == "Add:0"
    assert builder.aiOnnx.add([a, a]) == "Add:0/1"
    with builder.nameScope("layer"), builder.nameScope("norm"):
        assert builder.getNameScope("x") == "layer/norm/x"
        assert floats(builder, 2, name="gamma") == "layer/norm/gamma"
        inside = builder.aiOnnx.add([a, a], "plus")
        assert inside == "layer/norm/Add:0"
    assert builder._impl.node_with_outputs({inside}).name == "layer/norm/plus"
    child = builder.createSubgraphBuilder()
    assert floats(child, 2) == "input/2"
    assert builder.getInputTensorIds() == ["input", "input/1", "init_input", "layer/norm/gamma"]


def test_nodes_are_logged(builder: popart.Builder, capfd: pytest.CaptureFixture[str]) -> None:
    a = floats(builder, 2)
    try:
        popart.getLogger().setLevel("DEBUG")
        builder.aiOnnx.abs([a])
        assert "Adding ai.onnx.Abs:6 to builder opset:10" in capfd.readouterr().err
    finally:
        popart.getLogger().setLevel("WARN")
    builder.aiOnnx.abs([a])
    assert capfd.readouterr().err == ""


def test_equal_builders_make_equal_models() -> None:
    def make() -> bytes:
        builder = popart.Builder()
        builder.addOutputTensor(builder.aiOnnx.relu([floats(builder, 2)]))
        return builder.getModelProto()

    assert make() == make()


def test_the_first_set_of_operators_is_the_only_one(builder: popart.Builder) -> None:
    a = floats(builder, 1)
    builder.aiOnnxOpset8.add([a, a])
    builder.aiOnnx.add([a, a])
    assert str(builder.aiOnnx) == "AiOnnx8"
    with pytest.raises(RuntimeError, match="Invalid opset 'aiOnnxOpset9' selected"):
        builder.aiOnnxOpset9.add([a, a])
    model = model_of(builder)
    assert (model.ir_version, model.opset_import[0].version) == (3, 8)
    chosen = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    assert str(chosen.aiOnnx) == "AiOnnx11"
    with pytest.raises(ValueError, match=r"Unsupported or unrecognized ai\.Onnx version: 5"):
        popart.Builder(opsets={"ai.onnx": 5, "ai.graphcore": 1})


def test_all_forms_of_inputs(builder: popart.Builder) -> None:
    settings = popart.InputSettings(popart.TileSet.IO, popart.ExchangeStrategy.OverlapLoops)
    broadcast = popart.InputSettings(popart.ReplicatedStreamMode.Broadcast)
    info = popart.TensorInfo("FLOAT16", [2])
    names = [
        builder.addInputTensor(info),
        builder.addInputTensor("INT32", [3], "ids"),
        builder.addInputTensor(info, settings, "late"),
        builder.addInputTensor("FLOAT", [], broadcast, debugContext="scalar"),
        builder.addInputTensor(info, debugPrefix="old"),
    ]
    assert names == ["input", "ids", "late", "scalar", "old"]
    builder.addOutputTensor(builder.aiOnnx.identity(["input"]))
    metadata = {entry.key: entry.value for entry in model_of(builder).metadata_props}
    assert metadata["__tile_set/late"] == "1"
    assert metadata["__exchange_strategy/late"] == "2"
    assert metadata["__replicated_stream_mode/scalar"] == "0"
    assert builder.getTensorDtypeString("input") == "float16"
    with pytest.raises(TypeError, match=r"addInputTensor\(\): incompatible function arguments"):
        builder.addInputTensor(3)


def test_attributes_of_scopes_and_nodes(builder: popart.Builder) -> None:
    a = floats(builder, 2)
    with builder.virtualGraph(1), builder.pipelineStage(2):
        assert (builder.getVirtualGraph(), builder.getPipelineStage()) == (1, 2)
        with builder.virtualGraph(3):
            inner = builder.aiOnnx.relu([a])
        outer = builder.aiOnnx.relu([a])
    free = builder.aiOnnx.relu([a])
    assert not builder.hasVirtualGraph()
    assert builder.getVirtualGraph(inner) == 3
    assert builder.getVirtualGraph({outer}) == 1
    assert builder.getInt64NodeAttribute("__pipeline_stage", {outer}) == 2
    builder.virtualGraph(free, 4)
    assert builder.getVirtualGraph(free) == 4
    with pytest.raises(popart.popart_exception, match="Node already has attribute __ipu_number"):
        builder.virtualGraph(free, 5)
    with pytest.raises(popart.popart_exception, match="Virtual graph not set in current scope"):
        builder.getVirtualGraph()
    builder.addNodeAttribute("test", [1.5, 2], {free})
    assert builder.getFloatVectorNodeAttribute("test", {free}) == [1.5, 2]
    assert builder.nodeHasAttribute("test", {free})
    assert "test" in builder.getAllNodeAttributeNames({free})
    with pytest.raises(popart.popart_exception, match="Attribute test is not an integer"):
        builder.getInt64NodeAttribute("test", {free})
    builder.removeNodeAttribute("test", {free})
    with pytest.raises(popart.popart_exception, match="Cannot remove attribute test"):
        builder.removeNodeAttribute("test", {free})
    with pytest.raises(popart.popart_exception, match="Could not find a node with outputs i ,j"):
        builder.addNodeAttribute("test", 1, {"i", "j"})


def test_recomputation_and_priorities(builder: popart.Builder) -> None:
    a = floats(builder, 2)
    with builder.recomputeOutput(popart.RecomputeType.Checkpoint), builder.schedulePriority(2):
        kept = builder.aiOnnx.relu([a])
    assert builder.getInt64NodeAttribute("__recompute_output_in_backward_pass", {kept}) == 1
    assert builder.getFloatNodeAttribute("__schedule_priority", {kept}) == 2
    again = builder.aiOnnx.relu([a])
    builder.recomputeOutputInBackwardPass(again)
    assert builder.getRecomputeOutputInBackwardPass(again)
    (marked,) = builder.checkpointOutput([again])
    assert builder.getInt64NodeAttribute("__recompute_output_in_backward_pass", {marked}) == 1
    excluded = builder.getStringVectorNodeAttribute("__exclude_patterns", {marked})
    assert excluded == ["PreUniRepl", "PostNRepl"]
    with builder.outlineAttributes({"layer": 1}), builder.outlineAttributes({"part": "b"}):
        outlined = builder.aiOnnx.relu([a])
    pairs = builder.getStringVectorNodeAttribute("__outline", {outlined})
    assert pairs == ["layer", "1", "part", "b"]


def test_settings_without_effect_warn_once_by_name(
    builder: popart.Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popart.effect._warned", set())
    a = floats(builder, 2)
    with builder.schedulePriority(1.0):
        kept = builder.aiOnnx.relu([a])
    builder.recomputeOutputInBackwardPass(kept)
    model = model_of(builder)
    assert list(attributes_set(model.graph)) == [
        "__schedule_priority",
        "__recompute_output_in_backward_pass",
    ]
    with pytest.warns(popart.NoEffectWarning, match=r"Builder\.schedulePriority") as given:
        warn_of_attributes(model)
    assert len(given) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_attributes(model)


def test_settings_of_products(builder: popart.Builder) -> None:
    a, b = floats(builder, 2, 3), floats(builder, 3, 4)
    product = builder.aiOnnx.matmul([a, b])
    assert builder.getPartialsType(product) == "FLOAT"
    builder.setPartialsType(product, "HALF")
    assert builder.getPartialsType(product) == "HALF"
    builder.setAvailableMemoryProportion(product, 0.5)
    builder.setAvailableMemoryProportion({product}, 0.25)
    assert builder.getFloatNodeAttribute("__available_memory", {product}) == 0.25
    with pytest.raises(popart.popart_exception, match=r"must be in \(0,1\]"):
        builder.setAvailableMemoryProportion(product, 1.5)
    builder.setSerializeMatMul({product}, "output_channels", 2, True)
    assert builder.getInt64NodeAttribute("__serialize_matmul_factor", {product}) == 2
    with pytest.raises(popart.popart_exception, match="Unsupported mat mul serialization mode"):
        builder.setSerializeMatMul({product}, "rows")
    relu = builder.aiOnnx.relu([a])
    with pytest.raises(popart.popart_exception, match="should only be called on operators"):
        builder.setPartialsType(relu, "HALF")
    builder.setInplacePreferences(relu, {"ReluInplace": 3.0})
    assert builder.getFloatVectorNodeAttribute("__inplace_op_priorities", {relu}) == [3.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.aiOnnx.relu(["x"]), r"Unknown tensor 'x' \(valid tensors are input\)"),
        (lambda b: b.aiOnnx.add(["input"]), "Add has invalid number of inputs 1"),
        (lambda b: b.aiOnnx.rnn(["input"] * 3, 3), "has an invalid number of outputs 3"),
        (lambda b: b.aiOnnx.split(["input"], 2, 0, [1, 1]), "Mismatch between the sum of 'split'"),
        (lambda b: b.aiOnnx.cast(["input"], "FLOAT33"), "no ONNX type FLOAT33"),
        (lambda b: b.aiOnnx.maxpool(["input"], 1, [9, 9]), "invalid spatial output shape"),
        (lambda b: b.aiOnnx.pad(["input"], [1]), r"Padding vector \(length 1\)"),
        (lambda b: b.getTensorShape("x"), "x is not an known tensor"),
        (lambda b: b.addUntypedInputTensor(), "Can not add untyped tensors to the top-level"),
        (
            lambda b: b.createSubgraphBuilder().addInputTensorFromParentGraph("x"),
            "Failed to add unrecognised Tensor x from higher scope",
        ),
        (
            lambda b: b.customOp("Own", 1, "own", ["input"], {"a": [1, 2.0]}),
            "mismatched python list type provided in custom op attribute 'a'",
        ),
    ],
)
def test_refusals(builder: popart.Builder, call, message: str) -> None:
    floats(builder, 3, 2, 4, 4)
    with pytest.raises(popart.popart_exception, match=message):
        call(builder)


def test_a_call_that_fits_no_form_lists_the_forms(builder: popart.Builder) -> None:
    a = floats(builder, 2)
    with pytest.raises(TypeError) as refusal:
        builder.aiOnnx.add([a, a], 1, 0, "sum")
    message = str(refusal.value)
    assert message.startswith("add(): incompatible function arguments. The following argument")
    assert "1. (self: popart.AiOnnx10, args: List[str], debugContext:" in message
    with pytest.raises(AttributeError, match="has no operator 'plus' in version 10"):
        builder.aiOnnx.plus([a, a])
    with pytest.raises(AttributeError, match="'Builder' has no attribute 'setLoss'"):
        builder.setLoss(a)


def test_a_model_is_taken_up_again(builder: popart.Builder, tmp_path: Path) -> None:
    a = floats(builder, 2, 3)
    sizes = builder.addInitializedInputTensor(np.array([3, 2], np.int64))
    shaped = builder.aiOnnx.reshape([a, sizes])
    builder.addOutputTensor(shaped)
    path = tmp_path / "model.onnx"
    builder.saveModelProto(str(path))
    for given in (str(path), builder.getModelProto()):
        again = popart.Builder(given)
        assert again.getModelProto() == builder.getModelProto()
        assert again.getTensorShape(shaped) == [3, 2]
        assert again.isInitializer(sizes)
        more = again.aiOnnx.relu([shaped])
        assert (more, again.getTensorShape(more)) == ("Relu:0", [3, 2])
    with pytest.raises(popart.popart_exception, match="Failed to load a ModelProto"):
        popart.Builder("nothing.onnx")


def test_weights_in_a_file_beside_the_model(builder: popart.Builder, tmp_path: Path) -> None:
    values = np.arange(4, dtype=np.float32)
    weight = builder.addInitializedInputTensor(values, "w")
    builder.addOutputTensor(builder.aiOnnx.add([weight, floats(builder, 4)]))
    file = tmp_path / "weights.bin"
    builder.saveInitializersExternally([weight], str(file))
    np.testing.assert_array_equal(np.fromfile(file, np.float32), values)
    assert popart.Builder(builder.getModelProto()).isInitializer(weight)
    moved = file.rename(tmp_path / "moved.bin")
    with pytest.raises(RuntimeError, match="it doesn't exist or is not accessible"):
        popart.Builder(builder.getModelProto())
    moved.rename(file)
    with pytest.raises(popart.popart_exception, match="already has an external data_location"):
        builder.saveInitializersExternally([weight], str(file))
    with pytest.raises(popart.popart_exception, match="is not an initializer"):
        builder.saveInitializersExternally(["input"], str(file))


def test_adding_a_node_does_not_look_at_the_others(
    builder: popart.Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_inferred = 0
    infer = onnx.shape_inference.infer_node_outputs

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal n_inferred
        n_inferred += 1
        return infer(*arguments, **named)

    n_proposed = 0
    is_taken = Graph._is_taken

    def counting(graph: Graph, name: str) -> bool:
        nonlocal n_proposed
        n_proposed += 1
        return is_taken(graph, name)

    monkeypatch.setattr(Graph, "_is_taken", counting)
    monkeypatch.setattr(onnx.shape_inference, "infer_node_outputs", counted)
    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", None)
    name = floats(builder, 2)
    for _ in range(50):
        name = builder.aiOnnx.relu([name])
    builder.getModelProto()
    assert (n_inferred, n_proposed) == (50, 51)
    assert builder.getTensorShape(name) == [2]
