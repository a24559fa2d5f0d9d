"""Contents of initializers in files beside a model: loaded, written back, moved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.popart.session_models import WEIGHT, product

import popart


def _session(tmp_path: Path, optimizer: popart.Optimizer) -> tuple[popart.TrainingSession, str]:
    builder, x, w, _, loss = product()
    builder.saveInitializersExternally([w], str(tmp_path / "weights.bin"))
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, []),
        loss,
        optimizer,
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    session.run(popart.PyStepIO({x: np.ones((2, 4), np.float32)}, {}))
    return session, w


def test_a_model_is_loaded_with_contents_of_another_file(tmp_path: Path) -> None:
    builder, x, w, out, _ = product()
    builder.saveInitializersExternally([w], str(tmp_path / "weights.bin"))
    builder.saveModelProto(str(tmp_path / "model.onnx"))
    for model in (builder.getModelProto(), str(tmp_path / "model.onnx")):
        flow, device = popart.DataFlow(1, [out]), popart.DeviceManager().createCpuDevice()
        session = popart.InferenceSession(model, flow, device)
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: np.ones((2, 4), np.float32)}, anchors))
        np.testing.assert_allclose(anchors[out], np.ones((2, 4)) @ WEIGHT, rtol=1e-6)


def test_halves_go_into_a_file(tmp_path: Path) -> None:
    builder = popart.Builder()
    halves = np.array([7, 4, 2], np.float16)
    w = builder.addInitializedInputTensor(halves)
    builder.aiOnnx.add([w, w])
    transformer = popart.GraphTransformer(builder.getModelProto())
    transformer.saveInitializersExternally([w], str(tmp_path / "changed.bin"))
    builder.saveInitializersExternally([w], str(tmp_path / "weights.bin"))
    for name in ("changed.bin", "weights.bin"):
        np.testing.assert_array_equal(np.fromfile(tmp_path / name, np.float16), halves)


def test_trained_weights_and_states_are_written_back(tmp_path: Path) -> None:
    session, w = _session(tmp_path, popart.SGD({"defaultMomentum": (0.5, True)}))
    for _ in range(2):  # the second time replaces what the first one wrote
        session.modelToHost(str(tmp_path / "model.onnx"))
    held = {w: np.empty_like(WEIGHT), f"Accl___{w}": np.empty_like(WEIGHT)}
    session.readWeights(popart.PyWeightsIO(held))
    written = np.fromfile(tmp_path / "weights.bin", np.float32).reshape(2, 4, 3)
    np.testing.assert_array_equal(written, np.stack([*held.values()]))
    assert not np.array_equal(held[w], WEIGHT)
    names = [
        t.name
        for t in onnx.load(tmp_path / "model.onnx", load_external_data=False).graph.initializer
    ]
    assert names == [*held]


def test_contents_move_to_another_file(tmp_path: Path) -> None:
    session, _ = _session(tmp_path, popart.ConstSGD(0.5))
    first, second = str(tmp_path / "weights.bin"), str(tmp_path / "second.bin")
    session.updateExternallySavedTensorLocations(first, second)
    session.modelToHost(str(tmp_path / "model.onnx"))
    np.testing.assert_array_equal(np.fromfile(first, np.float32), WEIGHT.reshape(-1))
    assert not np.array_equal(np.fromfile(second, np.float32), WEIGHT.reshape(-1))
    for source, target, sentence in (
        (first, second, "already exists"),
        (str(tmp_path / "none"), str(tmp_path / "third"), "none' does not exist"),
        (first, str(tmp_path / "third"), "No ONNX model initializers have external location"),
    ):
        with pytest.raises(popart.popart_runtime_error, match=sentence):
            session.updateExternallySavedTensorLocations(source, target)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    session, _ = _session(tmp_path, popart.ConstSGD(0.5))
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(popart.popart_exception, match="Unrecognised file name"):
        session.modelToHost(str(tmp_path / "model.onnx"))
