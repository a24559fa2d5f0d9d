"""Sessions with pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import popart

Array = NDArray[Any]
_BATCH, _WIDTH, _N_LAYERS = 4, 8, 4
_RNG = np.random.default_rng(2)
_WEIGHTS = [_RNG.normal(size=(_WIDTH, _WIDTH), scale=0.4).astype(np.float32) for _ in range(4)]
_ALL = popart.AnchorReturnType("All")
_MODES = popart.VirtualGraphMode


class _Model:
    """Products and relus by layer, on IPUs and in stages; a stage of None is not stated.

    Attributes
    ----------
    x, y, loss
        Names of the input, the last layer's output and the loss.
    hidden
        Names of the layers' outputs.
    """

    def __init__(self, ipus: Sequence[int], stages: Sequence[int | None] = (None,) * 4) -> None:
        self.builder = popart.Builder()
        self.x = value = self.builder.addInputTensor(popart.TensorInfo("FLOAT", [_BATCH, _WIDTH]))
        self.weights, self.hidden = [], []
        for weight, ipu, stage in zip(_WEIGHTS, ipus, stages, strict=True):
            self.weights.append(self.builder.addInitializedInputTensor(weight))
            product = self.builder.aiOnnx.matmul([value, self.weights[-1]])
            value = self.builder.aiOnnx.relu([product])
            self._place([product, value], ipu, stage)
            self.hidden.append(value)
        self.y = value
        self.loss = self.builder.aiGraphcore.l1loss([value], 0.1)
        self._place([self.loss], ipus[-1], stages[-1])

    def _place(self, names: Sequence[str], ipu: int, stage: int | None) -> None:
        for name in names:
            self.builder.virtualGraph(name, ipu)
            if stage is not None:
                self.builder.pipelineStage(name, stage)


def _options(mode: popart.VirtualGraphMode, **options: Any) -> popart.SessionOptions:
    stated = popart.SessionOptions()
    stated.virtualGraphMode = mode
    for name, value in options.items():
        setattr(stated, name, value)
    return stated


def _session(
    model: _Model, n_batches: int, anchors: Sequence[str], n_ipus: int, **options: Any
) -> popart.TrainingSession:
    mode = options.pop("mode", _MODES.Manual if n_ipus > 1 else _MODES.Off)
    return popart.TrainingSession(
        model.builder.getModelProto(),
        popart.DataFlow(n_batches, dict.fromkeys(anchors, _ALL)),
        model.loss,
        popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.5, False)}),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": n_ipus, "tilesPerIPU": 16}),
        userOptions=_options(mode, **options),
    )


def _run(
    session: Any, model: _Model, n_rounds: int, weights: Sequence[str] = ()
) -> dict[str, Array]:
    """Return the anchors of a step, and weights after it."""
    session.prepareDevice()
    session.weightsFromHost()
    anchors: dict[str, Array] = session.initAnchorArrays()
    data = np.random.default_rng(3).normal(size=(n_rounds, _BATCH, _WIDTH)).astype(np.float32)
    session.run(popart.PyStepIO({model.x: data}, anchors))
    if weights:
        session.weightsToHost()
        after = {name: np.empty((_WIDTH, _WIDTH), np.float32) for name in weights}
        session.readWeights(popart.PyWeightsIO(after))
        anchors |= {f"after {name}": array for name, array in after.items()}
    return anchors


def _same(actual: dict[str, Array], expected: dict[str, Array]) -> None:
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


def _accumulating(factor: int) -> dict[str, Any]:
    return {"enableGradientAccumulation": True, "accumulationFactor": factor}


@pytest.mark.parametrize(
    ("ipus", "stages", "kind"),
    [
        ((0, 0, 1, 1), (None,) * 4, "NoRecompute"),
        ((0, 1, 2, 3), (None,) * 4, "Pipeline"),
        ((0, 1, 0, 1), (0, 1, 2, 3), "NoRecompute"),
        ((0, 1, 0, 1), (0, 1, 2, 3), "Pipeline"),
        ((1, 1, 0, 0), (0, 0, 1, 1), "Standard"),
    ],
)
def test_training_gives_the_values_of_one_ipu(
    ipus: Sequence[int], stages: Sequence[int | None], kind: str
) -> None:
    """Two batches of eight micro-batches each."""
    model = _Model(ipus, stages)
    anchors = [model.loss, f"Gradient___{model.hidden[0]}"]
    given = {"autoRecomputation": getattr(popart.RecomputationType, kind)}
    one = _session(model, 2, anchors, 1, **_accumulating(8))
    expected = _run(one, model, 16, model.weights)
    session = _session(
        model, 2, anchors, max(ipus) + 1, enablePipelining=True, **_accumulating(8), **given
    )
    _same(_run(session, model, 16, model.weights), expected)


def test_inference() -> None:
    results = []
    for n_ipus in (1, 2):
        model = _Model((0, 0, 1, 1))
        session = popart.InferenceSession(
            model.builder.getModelProto(),
            popart.DataFlow(6, {model.y: _ALL}),
            popart.DeviceManager().createIpuModelDevice({"numIPUs": n_ipus, "tilesPerIPU": 16}),
            userOptions=_options(
                _MODES.Manual if n_ipus > 1 else _MODES.Off, enablePipelining=n_ipus > 1
            ),
        )
        results.append(_run(session, model, 6))
    _same(*results)


def test_a_balanced_split_is_pipelined() -> None:
    model = _Model((0, 0, 1, 1))
    expected = _run(_session(model, 1, [model.loss], 1, **_accumulating(5)), model, 5)
    session = _session(
        model, 1, [model.loss], 2, mode=_MODES.Auto, enablePipelining=True, **_accumulating(5)
    )
    _same(_run(session, model, 5), expected)
    text = str(session.getSummaryReport())
    assert text


def test_without_accumulation_every_micro_batch_changes_weights() -> None:
    """Of the first one, all is as without a pipeline; then stages read older weights."""
    model = _Model((0, 0, 1, 1))
    names = [model.loss, model.weights[0], model.weights[3]]
    alone = _run(_session(model, 8, names, 2), model, 8)
    piped = _run(_session(model, 8, names, 2, enablePipelining=True), model, 8, model.weights)
    for name in names:
        np.testing.assert_array_equal(piped[name][0], alone[name][0], err_msg=name)
    assert not np.array_equal(piped[model.loss][-1], alone[model.loss][-1])
    for name in names[1:]:
        assert len({array.tobytes() for array in piped[name]}) == 8
        np.testing.assert_array_equal(piped[name][-1], piped[f"after {name}"])


def test_restored_values_are_anchors() -> None:
    model = _Model((0, 0, 1, 1))
    names = [model.x, model.hidden[0], f"Restored___{model.x}", f"Restored___{model.hidden[0]}"]
    session = _session(model, 2, names, 2, enablePipelining=True, **_accumulating(4))
    anchors = _run(session, model, 8)
    for name in names[:2]:
        assert anchors[name].shape == (2, 4, _BATCH, _WIDTH)
        np.testing.assert_array_equal(anchors[name], anchors[f"Restored___{name}"])
    with pytest.raises(popart.popart_exception, match="Anchor tensor `Restored___none' not in"):
        _session(model, 8, ["Restored___none"], 2, enablePipelining=True)


def test_an_identity_has_a_gradient_of_its_own() -> None:
    """Its operand has that of other readers as well."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4]))
    same = builder.aiOnnx.identity([x])
    total = builder.aiOnnx.add([x, builder.aiOnnx.mul([same, same])])
    loss = builder.aiGraphcore.identityloss([total])
    anchors = [f"Gradient___{name}" for name in (x, same)]
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, dict.fromkeys(anchors, _ALL)),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": 4}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    values = session.initAnchorArrays()
    data = np.array([1, 2, 3, 4], np.float32)
    session.run(popart.PyStepIO({x: data}, values))
    np.testing.assert_allclose(values[anchors[1]], 2 * data / 4)
    np.testing.assert_allclose(values[anchors[0]], (1 + 2 * data) / 4)


def test_stages_that_follow_each_other_on_one_ipu_are_one() -> None:
    """Two stages need three micro-batches, and four would need seven."""
    model = _Model((0, 0, 1, 1), (0, 1, 2, 3))
    expected = _run(_session(model, 1, [model.loss], 1, **_accumulating(3)), model, 3)
    session = _session(model, 1, [model.loss], 2, enablePipelining=True, **_accumulating(3))
    _same(_run(session, model, 3), expected)


@pytest.mark.parametrize(
    ("ipus", "stages", "n_ipus", "options", "message"),
    [
        ((0, 0, 0, 0), (None,) * 4, 1, {}, r"Pipelining requires more than 1 IPU \(currently 1\)"),
        ((0, 0, 1, 1), (None,) * 4, 2, {}, r"depth \(batchesPerStep\) must equal at least .*\(3\)"),
        (
            (0, 0, 1, 1),
            (None,) * 4,
            2,
            _accumulating(2),
            r"depth \(gradient accumulation factor\) must equal at least the number .*\(3\)",
        ),
        ((0, 0, 1, 1), (0, 0, None, 1), 2, {}, "Only some ops have had their pipeline stage set"),
        ((0, 0, 0, 1), (0, 0, 1, 1), 2, {}, "Ops .* have the same pipeline stage 1, but different"),
        ((0, 1, 0, 0), (None,) * 4, 2, {}, "is consumed in an earlier pipeline stage than it is"),
        (
            (0, 0, 1, 1),
            (None,) * 4,
            2,
            {"createImplicitPipeliningFwdOnlyProgram": True},
            "forward-only program is not supported without gradient accumulation",
        ),
    ],
)
def test_what_popart_refuses(
    ipus: Sequence[int],
    stages: Sequence[int | None],
    n_ipus: int,
    options: dict[str, Any],
    message: str,
) -> None:
    model = _Model(ipus, stages)
    with pytest.raises(popart.popart_exception, match=message):
        _session(model, 2, [model.loss], n_ipus, enablePipelining=True, **options)
