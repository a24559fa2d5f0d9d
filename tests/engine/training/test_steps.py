"""Training steps of a small network, against the same step in numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.engine.many_threads import share_all

from tilescope.engine.errors import BadInput, BadModel, BadOption, UnsupportedOperators
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.ir import (
    ENGINE_DOMAIN,
    IrBuilder,
    Model,
    Operator,
    Parameter,
    TrainingPass,
)
from tilescope.engine.lower import lower
from tilescope.engine.machine import load_machine
from tilescope.engine.operators.elementwise.elementwise import UNARY
from tilescope.engine.session.trainer import LossNotFinite, Trainer
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.transform import transform

MACHINE = load_machine("gc200", tiles_per_ipu=16)
_RNG = np.random.default_rng(0)
BATCH, WIDTHS = 16, (48, 32, 16)
WEIGHTS = {
    "w1": _RNG.normal(size=(WIDTHS[1], WIDTHS[0]), scale=0.2),
    "b1": _RNG.normal(size=WIDTHS[1], scale=0.2),
    "w2": _RNG.normal(size=(WIDTHS[2], WIDTHS[1]), scale=0.2),
    "b2": _RNG.normal(size=WIDTHS[2], scale=0.2),
}
X = _RNG.normal(size=(4, BATCH, WIDTHS[0])).astype(np.float32)
LABELS = _RNG.integers(0, WIDTHS[2], (4, BATCH))

Arrays = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of two dense layers with a relu between them."""
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="fc1", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], name="fc2", transB=1),
    ]
    return _saved(tmp_path_factory.mktemp("models") / "network.onnx", nodes, WEIGHTS)


def _saved(path: Path, nodes: list[onnx.NodeProto], weights: Arrays, opset: int = 17) -> Path:
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTHS[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
    return path


def _trained(network: Path, sgd: Sgd, n_rounds: int = 1, **options: Any) -> Model:
    model = load_onnx(network, trainable=list(WEIGHTS))
    return for_training(model, Loss(kind="cross-entropy"), sgd, n_rounds, **options)


def _gradients(weights: Arrays, x: NDArray[Any], labels: NDArray[Any]) -> tuple[float, Arrays]:
    """Return the mean loss and the gradients, in double precision."""
    h = x.astype(np.float64) @ weights["w1"].T + weights["b1"]
    r = np.maximum(h, 0)
    scores = r @ weights["w2"].T + weights["b2"]
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    rows = np.arange(x.shape[0])
    loss = -np.log(p[rows, labels]).mean()
    d = p.copy()
    d[rows, labels] -= 1
    d /= x.shape[0]
    of_h = (d @ weights["w2"]) * (h > 0)
    return float(loss), {
        "w2": d.T @ r,
        "b2": d.sum(0),
        "w1": of_h.T @ x,
        "b1": of_h.sum(0),
    }


def _stepped(sgd: Sgd, weights: Arrays, velocity: Arrays, gradients: Arrays) -> None:
    for name, gradient in gradients.items():
        d = gradient + sgd.weight_decay * weights[name]
        velocity[name] = sgd.momentum * velocity[name] + (1 - sgd.dampening) * d
        ahead = d + sgd.momentum * velocity[name] if sgd.nesterov else velocity[name]
        weights[name] = weights[name] - sgd.lr * ahead


@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize(
    "sgd",
    [
        Sgd(lr=0.1),
        Sgd(lr=0.1, weight_decay=0.05),
        Sgd(lr=0.1, momentum=0.9),
        Sgd(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01, loss_scaling=64.0),
        Sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        Sgd(lr=0.1, momentum=0.9, is_constant=True),
    ],
    ids=["plain", "decay", "momentum", "dampening", "nesterov", "constant"],
)
def test_steps_are_those_of_numpy(network: Path, sgd: Sgd, n_rounds: int) -> None:
    weights, velocity = dict(WEIGHTS), {k: np.zeros_like(w) for k, w in WEIGHTS.items()}
    with Trainer(_trained(network, sgd, n_rounds), MACHINE) as trainer:
        for _ in range(3):
            batch: Arrays = {"x": X[:n_rounds], "labels": LABELS[:n_rounds]}
            if n_rounds == 1:
                batch = {name: array[0] for name, array in batch.items()}
            losses = np.atleast_1d(trainer.step(batch)["loss"])
            parts = [_gradients(weights, X[i], LABELS[i]) for i in range(n_rounds)]
            np.testing.assert_allclose(losses, [loss for loss, _ in parts], rtol=1e-5)
            mean = {k: np.mean([g[k] for _, g in parts], axis=0) for k in weights}
            _stepped(sgd, weights, velocity, mean)
        actual = trainer.weights()
    assert actual.keys() == weights.keys()
    for name, expected in weights.items():
        np.testing.assert_allclose(actual[name], expected, rtol=1e-5, atol=1e-6)


def test_the_host_changes_the_rate_between_steps(network: Path) -> None:
    weights = dict(WEIGHTS)
    batch = {"x": X[0], "labels": LABELS[0]}
    with Trainer(_trained(network, Sgd(lr=0.1)), MACHINE) as trainer:
        for rate in (0.1, 0.0, 0.3):
            trainer.set_optimiser(Sgd(lr=rate))
            trainer.step(batch)
            for name, gradient in _gradients(weights, X[0], LABELS[0])[1].items():
                weights[name] = weights[name] - rate * gradient
        np.testing.assert_allclose(trainer.weights()["w1"], weights["w1"], rtol=1e-5, atol=1e-6)
        with pytest.raises(BadInput, match="computes otherwise"):
            trainer.set_optimiser(Sgd(lr=0.1, momentum=0.5))


def test_a_step_copies_no_weight_and_updates_each_where_it_lies(network: Path) -> None:
    model = transform(_trained(network, Sgd(lr=0.1, momentum=0.9)))
    lowered = lower(model, MACHINE)
    held = {value.name for value in model.held}
    copied = [
        region.variable.name
        for compute_set in lowered.graph.compute_sets
        for batch in compute_set.batches
        if "Copy" in batch.codelet.name
        for region in batch.fields.values()
        if region.variable.name in held
    ]
    assert copied == []
    streams = {type(child).__name__ for child in lowered.programs[0].children}
    assert "StreamCopyIn" in streams
    read = {v.name for v in model.inputs}
    assert read == {"x", "labels"}, "no weight is an input of a step"


def test_passes_follow_from_what_an_operation_computes(network: Path) -> None:
    model = transform(_trained(network, Sgd(lr=0.1)))
    passes: dict[TrainingPass | None, set[str]] = {}
    for operation in model.operations:
        passes.setdefault(operation.training_pass, set()).add(operation.name)
    assert passes[TrainingPass.FORWARD] == {"fc1", "relu", "fc2", "loss"}
    assert "fc2:GemmDataGrad" in passes[TrainingPass.DATA_GRADIENT]
    assert passes[TrainingPass.WEIGHT_GRADIENT] == {"fc1:GemmWeightsGrad", "fc2:GemmWeightsGrad"}
    assert passes[TrainingPass.UPDATE] == {f"Update/{name}" for name in WEIGHTS}
    assert "fc1:GemmDataGrad" not in passes[TrainingPass.DATA_GRADIENT], "nothing is before fc1"


def test_a_checkpoint_goes_on_bit_by_bit(network: Path, tmp_path: Path) -> None:
    model = _trained(network, Sgd(lr=0.1, momentum=0.9))
    batches = [{"x": X[i], "labels": LABELS[i]} for i in range(4)]
    with Trainer(model, MACHINE) as trainer:
        for batch in batches:
            trainer.step(batch)
        expected = trainer.weights()
    with Trainer(model, MACHINE) as trainer:
        for batch in batches[:2]:
            trainer.step(batch)
        trainer.save(tmp_path / "state.npz", {"epoch": 7})
    with Trainer(model, MACHINE) as trainer:
        assert trainer.restore(tmp_path / "state.npz") == {"epoch": 7}
        assert trainer.n_steps == 2
        for batch in batches[2:]:
            trainer.step(batch)
        actual = trainer.weights()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array)


def test_a_checkpoint_of_another_model_is_refused(network: Path, tmp_path: Path) -> None:
    with Trainer(_trained(network, Sgd(lr=0.1)), MACHINE) as trainer:
        trainer.save(tmp_path / "state.npz")
    np.savez(tmp_path / "arrays.npz", w1=WEIGHTS["w1"])
    with Trainer(_trained(network, Sgd(lr=0.1, momentum=0.5)), MACHINE) as trainer:
        with pytest.raises(BadInput, match="another model, or of another optimiser"):
            trainer.restore(tmp_path / "state.npz")
        with pytest.raises(BadInput, match="is no checkpoint"):
            trainer.restore(tmp_path / "arrays.npz")


def test_a_loss_that_is_no_number_names_the_operation_and_changes_nothing(network: Path) -> None:
    broken = X[0].copy()
    broken[3] = 3e38 * np.sign(WEIGHTS["w1"][0])
    with Trainer(_trained(network, Sgd(lr=0.1)), MACHINE) as trainer:
        trainer.step({"x": X[0], "labels": LABELS[0]})
        before = trainer.weights()
        with pytest.raises(LossNotFinite, match=r"step 2, first in Node 'fc1' \(Gemm\)"):
            trainer.step({"x": broken, "labels": LABELS[0]})
        broken[3, 5] = np.nan
        with pytest.raises(LossNotFinite, match="step 2, first in 'x'"):
            trainer.step({"x": broken, "labels": LABELS[0]})
        after = trainer.weights()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


@pytest.mark.parametrize("is_trained", [True, False])
def test_gradients_of_inputs_are_outputs_where_they_are_asked_for(
    network: Path, is_trained: bool
) -> None:
    model = load_onnx(network, trainable=list(WEIGHTS) if is_trained else [])
    model = for_training(model, Loss(kind="cross-entropy"), Sgd(lr=0.1), anchors=["x", "r"])
    with Trainer(model, MACHINE) as trainer:
        actual = trainer.step({"x": X[0], "labels": LABELS[0]})
        assert bool(trainer.weights()) == is_trained
    moved, step = X[0].astype(np.float64), 1e-4
    for place in ((0, 0), (3, 7), (BATCH - 1, WIDTHS[0] - 1)):
        sides = []
        for sign in (1, -1):
            moved[place] = X[0][place] + sign * step
            sides.append(_gradients(WEIGHTS, moved, LABELS[0])[0])
        moved[place] = X[0][place]
        slope = (sides[0] - sides[1]) / (2 * step)
        assert actual["Gradient___x"][place] == pytest.approx(slope, rel=1e-3, abs=1e-6)
    assert actual["Gradient___r"].shape == (BATCH, WIDTHS[1])


def test_outputs_are_chosen_among_inputs_and_results(network: Path) -> None:
    model = load_onnx(network, outputs=["h", "x", "r"])
    assert [name for name, _ in model.outputs] == ["h", "x", "r"]
    assert [operation.name for operation in model.operations] == ["fc1", "relu", "fc2"]
    with pytest.raises(BadInput, match=r"The model computes no 'hh', .* did you mean 'h'"):
        load_onnx(network, outputs=["hh"])


def _of_nodes(tmp_path: Path, nodes: list[onnx.NodeProto], weights: Arrays) -> Callable[[], Model]:
    path = _saved(tmp_path / "model.onnx", nodes, weights)
    return lambda: load_onnx(path, trainable=list(weights))


def test_what_cannot_be_trained_is_refused_before_anything_is_compiled(network: Path) -> None:
    plain = load_onnx(network)
    with pytest.raises(BadModel, match="no parameter that can be trained"):
        for_training(plain, Loss(kind="cross-entropy"), Sgd(lr=0.1))
    model = load_onnx(network, trainable=["w1"])
    with pytest.raises(BadInput, match="There is no output 'z'; the model has y"):
        for_training(model, Loss(kind="mse", output="z"), Sgd(lr=0.1))
    with pytest.raises(BadModel, match="has to be one floating-point number"):
        transform(for_training(model, Loss(kind="identity", reduction="none"), Sgd(lr=0.1)))
    with pytest.raises(BadModel, match="neither that of Softmax nor of LogSoftmax"):
        for_training(model, Loss(kind="nll"), Sgd(lr=0.1))
    with pytest.raises(BadModel, match=r"no gradient of 'nothing'"):
        transform(for_training(model, Loss(kind="mse"), Sgd(lr=0.1), anchors=["nothing"]))


def test_an_operator_without_gradient_is_named_with_its_way_to_the_loss() -> None:
    own = Operator(
        name="Own",
        domain=ENGINE_DOMAIN,
        infer=lambda node: [(node.operand(0).shape, "float32")],
        lower=lambda lowering, op: lowering.tensor(op.operand(0)),
    )
    builder = IrBuilder("network")
    w = Parameter("w", (3,), "float32", np.ones(3, np.float32), is_trainable=True)
    made = builder.emit(own, [w], name="own", source="Own")
    last = builder.emit(UNARY, [made], name="last", source="Tanh", function="tanh")
    model = for_training(builder.finish([("y", last)]), Loss(kind="identity"), Sgd(lr=0.1))
    sentence = (
        r"Node 'own' \(Own\) lies between a parameter and the loss, and operator 'Own' has no"
        r" gradient \(way to the loss: own → last → loss\)"
    )
    with pytest.raises(UnsupportedOperators, match=sentence):
        transform(model)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lr": "much"}, "lr is 'much'; it has to be a number"),
        ({"lr": "-1"}, "lr is -1; it has to be 0 or more"),
        ({"rate": "1"}, "sgd has no option 'rate': it has lr, weight_decay"),
        ({}, "sgd needs a rate"),
        ({"lr": "1", "momentum": "2"}, "momentum is 2; it has to be from 0 to 1"),
        ({"lr": "1", "nesterov": "true"}, "nesterov needs a momentum"),
        ({"lr": "1", "loss_scaling": "0"}, "loss_scaling is 0; it has to be above 0"),
    ],
)
def test_options_of_the_optimiser_are_checked(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadOption, match=sentence):
        Sgd.parsed(options)


def test_weights_are_the_same_bits_on_any_number_of_threads(
    network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = []
    for n_threads in (1, 2, 3):
        share_all(monkeypatch, n_threads)
        with Trainer(_trained(network, Sgd(lr=0.1, momentum=0.9), 2), MACHINE) as trainer:
            for _ in range(2):
                trainer.step({"x": X[:2], "labels": LABELS[:2]})
            weights = trainer.weights()
        bits.append(b"".join(weights[name].tobytes() for name in sorted(weights)))
    assert bits[0] == bits[1] == bits[2]
