"""Saved models: contents as PopART writes them, and what optimizers keep of weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import popart
from tilescope.engine.ir.held import HELD_FROM_HOST, HELD_TO_HOST
from tilescope.engine.session.engine import Engine

_RNG = np.random.default_rng(3)
_WEIGHTS = [_RNG.normal(size=(3, 3)).astype(np.float32) for _ in range(2)]


def _builder(dtype: str = "float32") -> tuple[popart.Builder, str]:
    """Return a chain of two products, and the name of its loss."""
    builder = popart.Builder()
    kind = {"float32": "FLOAT", "float16": "FLOAT16"}[dtype]
    x = builder.addInputTensor(popart.TensorInfo(kind, [2, 3]), "x")
    for weight in _WEIGHTS:
        w = builder.addInitializedInputTensor(weight.astype(dtype), "w")
        x = builder.aiOnnx.matmul([x, w])
    return builder, builder.aiGraphcore.l1loss([x], 0.1)


def _session(
    optimizer: popart.Optimizer, model: bytes | str | None = None, *, n_rounds: int = 1
) -> popart.TrainingSession:
    builder, loss = _builder()
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = n_rounds > 1, n_rounds
    session = popart.TrainingSession(
        builder.getModelProto() if model is None else model,
        popart.DataFlow(1, {}),
        loss,
        optimizer,
        popart.DeviceManager().createIpuModelDevice({}),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def _step(session: popart.TrainingSession, n_rounds: int = 1) -> None:
    x = np.random.default_rng(5).normal(size=(n_rounds, 2, 3)).astype(np.float32)
    session.run(popart.PyStepIO({"x": x}, session.initAnchorArrays()))


def _saved(session: popart.TrainingSession, path: Path) -> dict[str, NDArray[Any]]:
    session.modelToHost(str(path))
    return {
        content.name: onnx.numpy_helper.to_array(content)
        for content in onnx.load(path).graph.initializer
    }


def _optimizers() -> dict[str, tuple[popart.Optimizer, set[str]]]:
    momentum = {"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)}
    separate = popart.SGDAccumulatorAndMomentum.Separate
    return {
        "sgd": (popart.SGD({"defaultLearningRate": (0.1, False)}), set()),
        "combined": (popart.SGD(momentum), {"Accl___"}),
        "separate": (popart.SGD(momentum, accumulatorAndMomentum=separate), {"Accl1___"}),
        "adam": (popart.Adam({}), {"Accl1___", "Accl2___", "Step___"}),
        "no bias": (popart.Adam({}, mode=popart.AdamMode.LambNoBias), {"Accl1___", "Accl2___"}),
        "rmsprop": (popart.Adaptive({"defaultMomentum": (0.9, True)}), {"Accl1___", "Accl3___"}),
    }


@pytest.mark.parametrize("n_rounds", [1, 2])
@pytest.mark.parametrize("name", list(_optimizers()))
def test_a_saved_model_has_what_the_optimizer_keeps_of_every_weight(
    name: str, n_rounds: int, tmp_path: Path
) -> None:
    optimizer, prefixes = _optimizers()[name]
    session = _session(optimizer, n_rounds=n_rounds)
    saved = _saved(session, tmp_path / "model.onnx")
    states = {prefix + weight for prefix in prefixes for weight in ("w", "w/1")}
    assert set(saved) == {"w", "w/1"} | states
    assert all(not saved[state].any() for state in states)
    _step(session, n_rounds)
    stepped = _saved(session, tmp_path / "model.onnx")
    assert all(stepped[state].any() for state in states)


def test_a_session_of_a_saved_model_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    def adam() -> popart.Adam:
        return popart.Adam({"defaultLearningRate": (0.1, False)})

    session = _session(adam())
    _step(session)
    path = tmp_path / "first.onnx"
    first = _saved(session, path)
    again = _session(adam(), str(path))
    np.testing.assert_equal(_saved(again, tmp_path / "again.onnx"), first)
    _step(session)
    _step(again)
    np.testing.assert_equal(
        _saved(again, tmp_path / "again.onnx"), _saved(session, tmp_path / "second.onnx")
    )
    assert _saved(again, tmp_path / "again.onnx")["Step___w"] == 2


def test_weights_from_host_bring_states_back() -> None:
    session = _session(popart.Adam({"defaultLearningRate": (0.1, False)}))
    _step(session)
    session.weightsFromHost()
    session.weightsToHost()
    moment = {"Accl1___w": np.ones((3, 3), np.float32)}
    session.readWeights(popart.PyWeightsIO(moment))
    assert not moment["Accl1___w"].any()


def test_weights_from_host_read_states_once(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[int] = []
    run = Engine.run

    def counted(engine: Engine, program: int = 0, name: str = "") -> object:
        programs.append(program)
        return run(engine, program, name)

    monkeypatch.setattr(Engine, "run", counted)
    _session(popart.Adam({"defaultLearningRate": (0.1, False)}))
    assert programs == [HELD_TO_HOST, HELD_FROM_HOST]


def test_weights_with_numbers_of_their_own_count_their_own_steps(tmp_path: Path) -> None:
    adam = popart.Adam({"defaultLearningRate": (0.1, False)})
    adam.insertSpecific("w", {"beta1": (0.5, True)})
    session = _session(adam)
    _step(session)
    saved = _saved(session, tmp_path / "model.onnx")
    assert [float(saved[f"Step___{weight}"]) for weight in ("w", "w/1")] == [1, 1]


def test_contents_are_in_the_fields_that_programs_read() -> None:
    single, half = (
        onnx.load_from_string(_builder(dtype)[0].getModelProto()).graph.initializer[0]
        for dtype in ("float32", "float16")
    )
    np.testing.assert_array_equal(np.reshape(single.float_data, (3, 3)), _WEIGHTS[0])
    packed = np.asarray(half.int32_data, np.int32).view(np.float16)
    np.testing.assert_array_equal(packed[:9].reshape(3, 3), _WEIGHTS[0].astype(np.float16))
    assert len(packed) == 10


def test_a_model_of_bytes_keeps_bytes(tmp_path: Path) -> None:
    model = onnx.load_from_string(_builder()[0].getModelProto())
    for content in model.graph.initializer:
        content.CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(content), content.name)
        )
    session = _session(popart.Adam({}), model.SerializeToString())
    session.modelToHost(str(tmp_path / "model.onnx"))
    contents = {t.name: t for t in onnx.load(tmp_path / "model.onnx").graph.initializer}
    assert contents["w"].raw_data
    assert not contents["w"].float_data
    assert len(contents["Accl1___w"].float_data) == 9
