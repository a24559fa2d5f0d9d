"""Where sessions keep tensors: in streaming memory, in shards of replicas, by phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart

Array = NDArray[Any]

_N_LAYERS, _WIDTH = 3, 10
_OFF = popart.TensorLocationSettings(popart.TensorStorage.OffChip, 0)
_OFF_SHARDED = popart.TensorLocationSettings(
    popart.TensorLocation(
        popart.TensorStorage.OffChip,
        popart.TileSet.Compute,
        popart.TileSet.Compute,
        popart.ReplicatedTensorSharding.On,
    ),
    0,
    2,
)
_ALL_OFF = {
    f"{kind}TensorLocationSettings": _OFF
    for kind in ("activation", "weight", "optimizerState", "accumulator")
}


class _Trained:
    """A session of three products after two steps, each of its layers in a phase.

    Parameters
    ----------
    n_ipus, n_replicas
        Of the device; IPUs of one replica.
    phases
        Of the layers.
    prepare
        Called with the builder and the names of what the layers compute.
    """

    def __init__(
        self,
        n_ipus: int = 1,
        n_replicas: int = 1,
        phases: tuple[int, ...] = (0, 1, 2),
        prepare: Callable[[popart.Builder, list[str]], None] | None = None,
        optimizer: popart.Optimizer | None = None,
        **options: Any,
    ) -> None:
        drawn = np.random.default_rng(0)
        builder = popart.Builder()
        x = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, _WIDTH]), "x")
        outputs, out = [], x
        for i in range(_N_LAYERS):
            weight = (drawn.normal(size=(_WIDTH, _WIDTH)) / 4).astype(np.float32)
            with builder.executionPhase(phases[i]):
                w = builder.addInitializedInputTensor(weight, f"W{i}")
                out = builder.aiOnnx.matmul([out, w])
            outputs.append(out)
        with builder.executionPhase(phases[-1]):
            loss = builder.aiGraphcore.l1loss([out], 0.1)
        if prepare is not None:
            prepare(builder, outputs)
        stated = popart.SessionOptions()
        for name, value in options.items():
            setattr(stated, name, value)
        if n_replicas > 1:
            stated.enableReplicatedGraphs, stated.replicatedGraphCount = True, n_replicas
        device = popart.DeviceManager().createIpuModelDevice(
            {"numIPUs": n_ipus * n_replicas, "tilesPerIPU": 4}
        )
        assert device is not None
        flow = popart.DataFlow(1, {loss: popart.AnchorReturnType("All")})
        self.session = popart.TrainingSession(
            builder.getModelProto(),
            flow,
            loss,
            optimizer or popart.Adam({"defaultLearningRate": (0.01, False)}),
            device,
            userOptions=stated,
        )
        self.session.prepareDevice()
        self.session.weightsFromHost()
        anchors = self.session.initAnchorArrays()
        data = drawn.normal(size=(2, n_replicas, 2, _WIDTH)).astype(np.float32)
        for batch in data:
            self.session.run(popart.PyStepIO({x: batch if n_replicas > 1 else batch[0]}, anchors))
        self.loss = anchors[loss]
        self.session.weightsToHost()
        self.weights = {f"W{i}": np.empty((_WIDTH, _WIDTH), np.float32) for i in range(_N_LAYERS)}
        self.session.readWeights(popart.PyWeightsIO(self.weights))

    @property
    def off_chip(self) -> set[str]:
        """Names of the remote buffers of the program."""
        assert self.session._compiled is not None
        graph = self.session._compiled.executable.graph
        return {buffer.name for buffer in graph.remote_buffers}


def _phased(**options: Any) -> dict[str, Any]:
    settings = popart.ExecutionPhaseSettings()
    settings.phases = _N_LAYERS
    mode = popart.VirtualGraphMode.ExecutionPhases
    return {"executionPhaseSettings": settings, "virtualGraphMode": mode, **options}


@pytest.fixture(scope="module")
def plain() -> _Trained:
    return _Trained()


def _agree(trained: _Trained, plain: _Trained) -> None:
    np.testing.assert_allclose(trained.loss, plain.loss, rtol=1e-6)
    for name, weight in trained.weights.items():
        np.testing.assert_allclose(weight, plain.weights[name], rtol=1e-5, atol=1e-7)


_WEIGHTS = {"W0", "W1", "W2"}
_STATES = {f"Accl{i}___{name}" for i in (1, 2) for name in _WEIGHTS}


def test_states_are_off_chip(plain: _Trained) -> None:
    assert plain.off_chip == set()
    trained = _Trained(optimizerStateTensorLocationSettings=_OFF)
    _agree(trained, plain)
    assert trained.off_chip == _STATES | {"Step___adam"}


@pytest.mark.parametrize("n_ipus", [1, 2])
def test_phases_load_weights_and_activations(plain: _Trained, n_ipus: int) -> None:
    trained = _Trained(n_ipus, **_phased(**_ALL_OFF))
    _agree(trained, plain)
    assert trained.off_chip > _WEIGHTS | _STATES
    assert any(name.startswith("MatMul") for name in trained.off_chip)


def test_names_take_precedence(plain: _Trained) -> None:
    def prepare(builder: popart.Builder, outputs: list[str]) -> None:
        builder.outputTensorLocation(
            outputs[0], popart.TensorLocation(popart.TensorStorage.OffChip)
        )

    on_chip = popart.TensorLocation(popart.TensorStorage.OnChip)
    trained = _Trained(
        prepare=prepare,
        weightTensorLocationSettings=_OFF,
        tensorLocationSettingsOverride={"W1": on_chip},
    )
    _agree(trained, plain)
    assert {name for name in trained.off_chip if name.startswith("W")} == {"W0", "W2"}
    assert sum(name.startswith("MatMul") for name in trained.off_chip) == 1


def test_replicas_have_shards() -> None:
    whole = _Trained(n_replicas=2)
    trained = _Trained(n_replicas=2, optimizerStateTensorLocationSettings=_OFF_SHARDED)
    _agree(trained, whole)
    assert trained.session._compiled is not None
    buffers = trained.session._compiled.executable.graph.remote_buffers
    sizes = {buffer.n_elements for buffer in buffers if buffer.name in _STATES}
    assert sizes == {_WIDTH * _WIDTH // 2}
    combined = popart.SGD({"defaultMomentum": (0.9, False), "defaultLearningRate": (0.1, False)})
    with pytest.warns(UserWarning, match="a velocity that gradients are added to is whole"):
        _Trained(
            n_replicas=2,
            optimizer=combined,
            optimizerStateTensorLocationSettings=_OFF_SHARDED,
        )


def test_bad_phases_are_refused() -> None:
    options = _phased(**_ALL_OFF)
    with pytest.raises(popart.popart_exception, match="> 1 execution phases requires"):
        _Trained(**{**options, "virtualGraphMode": popart.VirtualGraphMode.Manual})
    with pytest.raises(popart.popart_exception, match="phases run in ascending order, so state"):
        _Trained(phases=(0, 2, 1), **options)
