"""Weights after several steps, compared with those of PyTorch's optimiser."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.compared import drawn, near
from tests.torch.steps import graph_file, trained
from torch.nn import functional

from tilescope.engine.errors import BadInput
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.training import (
    AdaDelta,
    Adagrad,
    Adam,
    AdaMax,
    AdamW,
    AutomaticScaling,
    Descent,
    Lamb,
    Loss,
    RmsProp,
    Sgd,
    for_training,
)
from tilescope.engine.transform import in_half

_BATCH, _FEATURES, _HIDDEN, _CLASSES = 6, 5, 7, 4
_WEIGHTS = {
    "w1": drawn((_HIDDEN, _FEATURES), 1) / 2,
    "b1": drawn((_HIDDEN,), 2) / 4,
    "w2": drawn((_CLASSES, _HIDDEN), 3) / 2,
    "b2": drawn((_CLASSES,), 4) / 4,
}
_N_STEPS = 4


def _model(folder: Path) -> Any:
    path = graph_file(
        folder / "graph.onnx",
        [
            ("Gemm", "x,w1,b1", "h", {"transB": 1}),
            ("Tanh", "h", "t"),
            ("Gemm", "t,w2,b2", "y", {"transB": 1}),
        ],
        {"x": (_BATCH, _FEATURES)},
        {"y": (_BATCH, _CLASSES)},
        _WEIGHTS,
    )
    return load_onnx(path, trainable=list(_WEIGHTS))


def _batches(n: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(8)
    return [
        {
            "x": rng.normal(size=(_BATCH, _FEATURES)).astype(np.float32),
            "labels": rng.integers(0, _CLASSES, _BATCH),
        }
        for _ in range(n)
    ]


def _scores(weights: dict[str, torch.Tensor], batch: dict[str, np.ndarray]) -> torch.Tensor:
    hidden = torch.tanh(torch.tensor(batch["x"]).double() @ weights["w1"].T + weights["b1"])
    return hidden @ weights["w2"].T + weights["b2"]


def _in_torch(
    options: dict[str, float], n_rounds: int, *, is_averaged: bool, reduction: str
) -> tuple[list[list[float]], dict[str, np.ndarray]]:
    """Return the losses of the steps, and the weights after them."""
    weights = {n: torch.tensor(a).double().requires_grad_() for n, a in _WEIGHTS.items()}
    optimiser = torch.optim.SGD(weights.values(), **options)
    if options.get("dampening") and options.get("momentum"):
        # The first step is dampened too: velocities exist, and are zero.
        for weight in weights.values():
            optimiser.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
    losses: list[list[float]] = []
    batches = iter(_batches(n_rounds * _N_STEPS))
    for _ in range(_N_STEPS):
        optimiser.zero_grad()
        losses.append([])
        for _ in range(n_rounds):
            batch = next(batches)
            loss = functional.cross_entropy(
                _scores(weights, batch), torch.tensor(batch["labels"]), reduction=reduction
            )
            (loss / n_rounds if is_averaged else loss).backward()
            losses[-1].append(loss.item())
        optimiser.step()
    return losses, {name: weight.detach().numpy() for name, weight in weights.items()}


def _on_machine(
    folder: Path,
    optimiser: Descent,
    n_rounds: int,
    n_steps: int = _N_STEPS,
    *,
    is_averaged: bool,
    reduction: str,
) -> tuple[list[list[float]], dict[str, np.ndarray]]:
    loss = Loss(kind="cross-entropy", reduction=reduction)
    model = for_training(_model(folder), loss, optimiser, n_rounds, is_averaged=is_averaged)
    batches, losses = _batches(n_rounds * n_steps), []
    with trained(model) as trainer:
        for i in range(n_steps):
            outputs = trainer.step(batches[i * n_rounds : (i + 1) * n_rounds])
            losses.append([float(value) for value in outputs["loss"]])
        return losses, trainer.held()


_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"lr": 0.1},
    "decay": {"lr": 0.1, "weight_decay": 0.05},
    "momentum": {"lr": 0.1, "momentum": 0.9},
    "momentum-decay": {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.1},
    "dampening": {"lr": 0.1, "momentum": 0.9, "dampening": 0.4},
    "dampening-decay": {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.05},
    "nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "nesterov-decay": {"lr": 0.1, "momentum": 0.7, "nesterov": True, "weight_decay": 0.1},
}
#: Options, options of the machine's optimiser only, micro-batches, and how losses are joined.
_RUNS: dict[str, tuple[str, dict[str, Any], int, bool, str]] = {
    **{name: (name, {}, 1, True, "mean") for name in _OPTIONS},
    "plain-sum": ("plain", {}, 1, True, "sum"),
    "constant": ("momentum-decay", {"is_constant": True}, 1, True, "mean"),
    "scaled": ("momentum-decay", {"loss_scaling": 128.0}, 1, True, "mean"),
    "scaled-plain": ("decay", {"loss_scaling": 0.25}, 1, True, "mean"),
    "two": ("plain", {}, 2, True, "mean"),
    "three": ("momentum-decay", {}, 3, True, "mean"),
    "four": ("nesterov", {}, 4, True, "mean"),
    "two-sum": ("decay", {}, 2, False, "mean"),
    "three-sum": ("momentum", {}, 3, False, "sum"),
    "four-scaled": ("momentum-decay", {"loss_scaling": 1024.0}, 4, True, "sum"),
    "four-scaled-sum": ("dampening", {"loss_scaling": 64.0}, 4, False, "mean"),
}


@pytest.mark.parametrize("run", _RUNS.values(), ids=_RUNS)
def test_weights_after_steps(run, tmp_path):
    name, others, n_rounds, is_averaged, reduction = run
    options = _OPTIONS[name]
    how = {"is_averaged": is_averaged, "reduction": reduction}
    losses, weights = _in_torch(options, n_rounds, **how)
    sgd = Sgd(**options, **others)
    actual_losses, held = _on_machine(tmp_path, sgd, n_rounds, **how)
    near(np.array(actual_losses), np.array(losses), "losses")
    for key, expected in weights.items():
        near(held[key], expected, key)


def test_dampening_without_momentum_scales_the_rate(tmp_path):
    how: dict[str, Any] = {"is_averaged": True, "reduction": "mean"}
    _, weights = _in_torch({"lr": 0.075}, 1, **how)
    _, held = _on_machine(tmp_path, Sgd(lr=0.1, dampening=0.25), 1, **how)
    for key, expected in weights.items():
        near(held[key], expected, key)


def test_the_host_changes_the_rate_between_steps(tmp_path):
    model = for_training(_model(tmp_path), Loss(kind="cross-entropy"), Sgd(lr=0.1, momentum=0.9))
    weights = {n: torch.tensor(a).double().requires_grad_() for n, a in _WEIGHTS.items()}
    optimiser = torch.optim.SGD(weights.values(), lr=0.1, momentum=0.9)
    with trained(model) as trainer:
        for rate, batch in zip((0.1, 0.02, 0.3), _batches(3), strict=True):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            functional.cross_entropy(
                _scores(weights, batch), torch.tensor(batch["labels"])
            ).backward()
            optimiser.step()
            trainer.program.write_optimiser(trainer.engine, Sgd(lr=rate, momentum=0.9))
            trainer.step([batch])
        held = trainer.held()
    for name, weight in weights.items():
        near(held[name], weight.detach().numpy(), name)


def test_anchors_are_of_each_micro_batch(tmp_path):
    model = for_training(
        _model(tmp_path), Loss(kind="cross-entropy"), Sgd(lr=0.1), 3, anchors=["w1", "t"]
    )
    batches = _batches(3)
    with trained(model) as trainer:
        outputs = trainer.step(batches)
    for i, batch in enumerate(batches):
        weights = {n: torch.tensor(a).double().requires_grad_() for n, a in _WEIGHTS.items()}
        labels = torch.tensor(batch["labels"])
        functional.cross_entropy(_scores(weights, batch), labels).backward()
        gradient = weights["w1"].grad
        assert gradient is not None
        near(outputs["Gradient___w1"][i], gradient.numpy(), "w1")
        assert outputs["Gradient___t"][i].shape == (_BATCH, _HIDDEN)


def test_frozen_weights_stay(tmp_path):
    model = _model(tmp_path)
    path = tmp_path / "graph.onnx"
    model = for_training(load_onnx(path, trainable=["w2"]), Loss(kind="cross-entropy"), Sgd(lr=0.1))
    with trained(model) as trainer:
        trainer.step(_batches(1))
        held = trainer.held()
    assert [name for name in held if name in _WEIGHTS] == ["w2"]


@pytest.mark.parametrize("n_rounds", [1, 2])
@pytest.mark.parametrize(("rows", "columns"), [(2, 9), (64, 16), (7, 3)])
def test_a_table_with_momentum(rows, columns, n_rounds, tmp_path):
    """Its layout is that of lookups, and its states lie alike."""
    table = drawn((rows, columns), 1)
    path = graph_file(
        tmp_path / "graph.onnx",
        [("Gather", "table,i", "e"), ("Tanh", "e", "y")],
        {},
        {"y": (6, columns)},
        {"table": table, "i": np.arange(6) * 5 % rows},
    )
    sgd = Sgd(lr=0.1, momentum=0.9, weight_decay=0.1)
    model = for_training(load_onnx(path, trainable=["table"]), Loss(kind="mse"), sgd, n_rounds)
    labels = [drawn((6, columns), 2 + i) for i in range(3 * n_rounds)]
    weight = torch.tensor(table).double().requires_grad_()
    optimiser = torch.optim.SGD([weight], lr=0.1, momentum=0.9, weight_decay=0.1)
    with trained(model) as trainer:
        for step in range(3):
            batch = labels[step * n_rounds : (step + 1) * n_rounds]
            trainer.step([{"labels": rows_of} for rows_of in batch])
            optimiser.zero_grad()
            for rows_of in batch:
                out = torch.tanh(weight[torch.arange(6) * 5 % rows])
                loss = functional.mse_loss(out, torch.tensor(rows_of).double())
                (loss / n_rounds).backward()
            optimiser.step()
        held = trainer.held()
    near(held["table"], weight.detach().numpy(), "table")


class _TorchLamb(torch.optim.Optimizer):
    """LAMB after its paper: PyTorch has none."""

    def __init__(self, weights: Any, **options: Any) -> None:
        super().__init__(weights, options)

    def step(self, closure: Any = None) -> None:
        """Change the weights."""
        del closure
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                state["t"] = t = state.get("t", 0) + 1
                b1, b2 = group.get("beta1", 0.9), group.get("beta2", 0.999)
                m = state["m"] = b1 * state.get("m", 0 * w) + (1 - b1) * w.grad
                v = state["v"] = b2 * state.get("v", 0 * w) + (1 - b2) * w.grad**2
                size = (v / (1 - b2**t)).sqrt() + group.get("eps", 1e-6)
                u = m / (1 - b1**t) / size + group.get("weight_decay", 0) * w
                of_w = w.norm().clamp(max=group.get("most_norm", float("inf")))
                ratio = of_w / u.norm() if w.norm() > 0 and u.norm() > 0 else 1.0
                with torch.no_grad():
                    w.sub_(group["lr"] * ratio * u)


#: Ours, PyTorch's, and the options of both with their names here and there.
_KINDS: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "adam": (Adam, torch.optim.Adam, {"lr": 0.02}, {}),
    "adam-l2": (Adam, torch.optim.Adam, {"lr": 0.02, "weight_decay": 0.1}, {}),
    "adam-eps": (Adam, torch.optim.Adam, {"lr": 0.05, "eps": 1e-3}, {}),
    "adam-betas": (
        lambda beta1, beta2, **o: Adam(beta1=beta1, beta2=beta2, **o),
        lambda w, beta1, beta2, **o: torch.optim.Adam(w, betas=(beta1, beta2), **o),
        {"lr": 0.02, "beta1": 0.0, "beta2": 0.9},
        {},
    ),
    "adamw": (AdamW, torch.optim.AdamW, {"lr": 0.02}, {}),
    "adamw-decay": (AdamW, torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.3}, {}),
    "adamax": (AdaMax, torch.optim.Adamax, {"lr": 0.02}, {}),
    "adamax-l2": (AdaMax, torch.optim.Adamax, {"lr": 0.02, "weight_decay": 0.1}, {}),
    "lamb": (Lamb, _TorchLamb, {"lr": 0.02}, {}),
    "lamb-decay": (Lamb, _TorchLamb, {"lr": 0.02, "weight_decay": 0.1}, {}),
    "lamb-norm": (Lamb, _TorchLamb, {"lr": 0.02, "weight_decay": 0.1, "most_norm": 0.5}, {}),
    "adagrad": (Adagrad, torch.optim.Adagrad, {"lr": 0.05}, {}),
    "adagrad-decay": (
        lambda initial, **o: Adagrad(initial=initial, **o),
        lambda w, initial, **o: torch.optim.Adagrad(w, initial_accumulator_value=initial, **o),
        {"lr": 0.05, "weight_decay": 0.1, "lr_decay": 0.3, "initial": 0.2},
        {},
    ),
    "rmsprop": (RmsProp, torch.optim.RMSprop, {"lr": 0.01}, {}),
    "rmsprop-momentum": (
        RmsProp,
        torch.optim.RMSprop,
        {"lr": 0.003, "momentum": 0.8, "alpha": 0.9, "weight_decay": 0.1},
        {},
    ),
    "rmsprop-centred": (
        RmsProp,
        torch.optim.RMSprop,
        {"lr": 0.01, "eps": 1e-4},
        {"is_centered": True, "centered": True},
    ),
    "adadelta": (AdaDelta, torch.optim.Adadelta, {"lr": 1.0}, {}),
    "adadelta-l2": (
        AdaDelta,
        torch.optim.Adadelta,
        {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1},
        {},
    ),
}
_LONG = 20
#: Of the largest weight, after 20 steps.
_NEAR = 1e-6


def _of_torch(kind: str, weights: Any, **others: Any) -> torch.optim.Optimizer:
    _, theirs, options, named = _KINDS[kind]
    own = {"centered": named["centered"]} if "centered" in named else {}
    made: torch.optim.Optimizer = theirs(weights, **options, **own, **others)
    return made


def _ours(kind: str, **others: Any) -> Descent:
    kind_of, _, options, named = _KINDS[kind]
    own = {name: value for name, value in named.items() if name.startswith("is_")}
    made: Descent = kind_of(**options, **own, **others)
    return made


def _long_in_torch(
    optimiser_of: Any, n_rounds: int = 1, clip: Any = lambda _: None
) -> tuple[list[list[float]], dict[str, np.ndarray]]:
    """Return losses and weights of 20 steps in double precision."""
    weights = {n: torch.tensor(a).double().requires_grad_() for n, a in _WEIGHTS.items()}
    optimiser = optimiser_of(weights)
    losses: list[list[float]] = []
    batches = iter(_batches(n_rounds * _LONG))
    for _ in range(_LONG):
        optimiser.zero_grad()
        losses.append([])
        for _ in range(n_rounds):
            batch = next(batches)
            labels = torch.tensor(batch["labels"])
            loss = functional.cross_entropy(_scores(weights, batch), labels)
            (loss / n_rounds).backward()
            losses[-1].append(loss.item())
        clip(weights.values())
        optimiser.step()
    return losses, {name: weight.detach().numpy() for name, weight in weights.items()}


def _agree_for_long(folder: Path, ours: Descent, theirs: Any, n_rounds: int = 1, **o: Any) -> None:
    losses, weights = _long_in_torch(theirs, n_rounds, **o)
    actual_losses, held = _on_machine(
        folder, ours, n_rounds, _LONG, is_averaged=True, reduction="mean"
    )
    near(np.array(actual_losses), np.array(losses), "losses", _NEAR)
    for key, expected in weights.items():
        near(held[key], expected, key, _NEAR)


@pytest.mark.parametrize("kind", _KINDS)
def test_weights_after_twenty_steps(kind, tmp_path):
    _agree_for_long(tmp_path, _ours(kind), lambda weights: _of_torch(kind, weights.values()))


@pytest.mark.parametrize("others", [{"loss_scaling": 256.0}, {"is_constant": True}], ids=str)
@pytest.mark.parametrize(
    "kind", ["adam", "adam-l2", "adamax", "lamb-decay", "adagrad-decay", "rmsprop-centred"]
)
def test_numbers_that_are_scaled_or_constant(kind, others, tmp_path):
    _agree_for_long(
        tmp_path, _ours(kind, **others), lambda weights: _of_torch(kind, weights.values())
    )


@pytest.mark.parametrize("kind", ["adam-l2", "adamax", "lamb", "rmsprop-momentum", "adadelta"])
def test_micro_batches(kind, tmp_path):
    _agree_for_long(
        tmp_path, _ours(kind), lambda weights: _of_torch(kind, weights.values()), n_rounds=2
    )


def test_weights_of_a_pattern_have_numbers_of_their_own(tmp_path):
    specific = {"b*": {"lr": 0.1, "weight_decay": 0.0}, "b2": {"beta1": 0.5, "is_constant": True}}
    ours = AdamW(lr=0.02, weight_decay=0.2, specific=specific)

    def theirs(weights):
        def group(*names, **options):
            return {"params": [weights[name] for name in names], **options}

        return torch.optim.AdamW(
            [
                group("w1", "w2"),
                group("b1", lr=0.1, weight_decay=0.0),
                group("b2", betas=(0.5, 0.999)),  # the last pattern alone
            ],
            lr=0.02,
            weight_decay=0.2,
        )

    _agree_for_long(tmp_path, ours, theirs)


def test_patterns_may_choose_other_forms(tmp_path):
    ours = Sgd(lr=0.05, momentum=0.9, specific={"b*": {"momentum": 0.0}, "w2": {"nesterov": True}})

    def theirs(weights):
        biases = {"params": [weights["b1"], weights["b2"]], "momentum": 0.0}
        ahead = {"params": [weights["w2"]], "nesterov": True}
        return torch.optim.SGD([{"params": [weights["w1"]]}, biases, ahead], lr=0.05, momentum=0.9)

    _agree_for_long(tmp_path, ours, theirs)


@pytest.mark.parametrize("others", [{}, {"loss_scaling": 64.0}], ids=str)
@pytest.mark.parametrize("most", [0.05, 100.0])
@pytest.mark.parametrize("kind", ["adam-eps", "lamb-decay", "rmsprop-momentum"])
def test_the_norm_of_gradients_is_clipped(kind, most, others, tmp_path):
    _agree_for_long(
        tmp_path,
        _ours(kind, clip_norm=most, **others),
        lambda weights: _of_torch(kind, weights.values()),
        clip=lambda weights: torch.nn.utils.clip_grad_norm_(weights, most),
    )


@pytest.mark.parametrize("n_rounds", [1, 2])
@pytest.mark.parametrize("optimiser", [Sgd(lr=0.1), Sgd(lr=0.1, momentum=0.9, weight_decay=0.01)])
def test_gradients_of_sgd_are_clipped(optimiser, n_rounds, tmp_path):
    options = {"lr": 0.1, "momentum": optimiser.momentum, "weight_decay": optimiser.weight_decay}

    def clip(weights):
        weights = [*weights]
        torch.nn.utils.clip_grad_value_(weights, 0.03)
        torch.nn.utils.clip_grad_norm_(weights, 0.1)

    _agree_for_long(
        tmp_path,
        dataclasses.replace(optimiser, clip_norm=0.1, clip_value=0.03, loss_scaling=8.0),
        lambda weights: torch.optim.SGD(weights.values(), **options),
        n_rounds,
        clip=clip,
    )


@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_combined_velocity_is_that_of_sgd(decay, n_rounds, tmp_path):
    ours = Sgd(lr=0.05, momentum=0.8, weight_decay=decay, is_combined=True, loss_scaling=16.0)
    _agree_for_long(
        tmp_path,
        ours,
        lambda w: torch.optim.SGD(w.values(), lr=0.05, momentum=0.8, weight_decay=decay),
        n_rounds,
    )


def test_the_combined_velocity_saves_the_sum_of_gradients(tmp_path):
    names = {}
    for is_combined in (False, True):
        sgd = Sgd(lr=0.05, momentum=0.8, is_combined=is_combined)
        model = for_training(_model(tmp_path), Loss(kind="cross-entropy"), sgd, 2)
        with trained(model) as trainer:
            names[is_combined] = {name for name in trainer.held() if name.startswith("Acc")}
    assert names == {
        True: {f"Accl___{name}" for name in _WEIGHTS},
        False: {f"{prefix}___{name}" for name in _WEIGHTS for prefix in ("Accl", "Accum")},
    }


def test_states_in_half_follow_those_in_float(tmp_path):
    _, weights = _long_in_torch(lambda w: torch.optim.Adam(w.values(), lr=0.02))
    ours = Adam(lr=0.02, state_dtype="float16", loss_scaling=64.0)
    _, held = _on_machine(tmp_path, ours, 1, _LONG, is_averaged=True, reduction="mean")
    assert held["Accl1___w1"].dtype == np.float16
    for key, expected in weights.items():
        near(held[key], expected, key, 2e-2)


@pytest.mark.parametrize("kind", _KINDS)
def test_small_gradients_do_not_vanish_in_states_of_half(kind, tmp_path):
    """Their squares are far below what half holds, and steps are divided by the root of these."""
    ours = {dtype: _ours(kind, state_dtype=dtype) for dtype in ("float32", "float16")}
    held = {}
    for dtype, optimiser in ours.items():
        loss = Loss(kind="cross-entropy", factor=1e-3)
        with trained(for_training(_model(tmp_path), loss, optimiser)) as trainer:
            for batch in _batches(_LONG):
                trainer.step([batch])
            held[dtype] = trainer.held()
    for name in _WEIGHTS:
        near(held["float16"][name], held["float32"][name], name, 2e-2)


@pytest.mark.parametrize("kind", ["adamw", "adagrad", "lamb"])
def test_the_host_changes_rates_between_steps(kind, tmp_path):
    rates = (0.1, 0.02, 0.3)
    weights = {n: torch.tensor(a).double().requires_grad_() for n, a in _WEIGHTS.items()}
    optimiser = _of_torch(kind, weights.values())
    ours = _ours(kind, specific={"b1": {"lr": 0.01}})
    with trained(for_training(_model(tmp_path), Loss(kind="cross-entropy"), ours)) as trainer:
        for rate, batch in zip(rates, _batches(3), strict=True):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            labels = torch.tensor(batch["labels"])
            functional.cross_entropy(_scores(weights, batch), labels).backward()
            optimiser.step()
            others = dataclasses.replace(ours, lr=rate, specific={"b1": {"lr": rate}})
            trainer.program.write_optimiser(trainer.engine, others)
            trainer.step([batch])
        held = trainer.held()
    for name, weight in weights.items():
        near(held[name], weight.detach().numpy(), name, _NEAR)


_OTHER_PROGRAMS: dict[str, tuple[Descent, Descent]] = {
    "kind": (Adam(lr=0.1), AdamW(lr=0.1)),
    "decay": (Adam(lr=0.1), Adam(lr=0.1, weight_decay=0.1)),
    "form": (Adam(lr=0.1, weight_decay=0.1), Adam(lr=0.1, weight_decay=0.1, decay="decoupled")),
    "clipping": (Sgd(lr=0.1), Sgd(lr=0.1, clip_norm=1.0)),
    "constant": (Sgd(lr=0.1, is_constant=True), Sgd(lr=0.2, is_constant=True)),
    "one-constant": (Adam(lr=0.1, constants=("beta1",)), Adam(lr=0.1, beta1=0.5)),
    "pattern": (Sgd(lr=0.1), Sgd(lr=0.1, specific={"w1": {"lr": 0.2}})),
    "states": (Adam(lr=0.1), Adam(lr=0.1, state_dtype="float16")),
    "scaling": (Sgd(lr=0.1), Sgd(lr=0.1, loss_scaling=2.0)),
}


@pytest.mark.parametrize("pair", _OTHER_PROGRAMS.values(), ids=_OTHER_PROGRAMS)
def test_what_needs_another_program_is_refused(pair, tmp_path):
    compiled_for, other = pair
    model = for_training(_model(tmp_path), Loss(kind="cross-entropy"), compiled_for)
    with trained(model) as trainer:
        trainer.program.write_optimiser(trainer.engine, compiled_for)
        with pytest.raises(BadInput, match="computes otherwise"):
            trainer.program.write_optimiser(trainer.engine, other)


def test_the_host_changes_the_loss_scaling(tmp_path):
    results = []
    for scalings in ((16.0, 16.0), (16.0, 256.0)):
        ours = Adam(lr=0.1, loss_scaling=scalings[0])
        with trained(for_training(_model(tmp_path), Loss(kind="cross-entropy"), ours)) as trainer:
            for scaling, batch in zip(scalings, _batches(2), strict=True):
                changed = dataclasses.replace(ours, loss_scaling=scaling)
                trainer.program.write_optimiser(trainer.engine, changed)
                trainer.step([batch])
            results.append(trainer.held())
    for name in _WEIGHTS:
        near(results[1][name], results[0][name], name, _NEAR)
    assert results[1]["lossScaling___float32"] == 256.0


def test_the_device_chooses_the_loss_scaling(tmp_path):
    settings = AutomaticScaling(initial=64.0, period=3, most=256.0)
    ours = Adam(lr=0.02, scaling=settings)
    factors = []
    with trained(for_training(_model(tmp_path), Loss(kind="cross-entropy"), ours)) as trainer:
        for batch in _batches(_LONG):
            trainer.step([batch])
            factors.append(float(trainer.held()["lossScaling"]))
        held = trainer.held()
    assert factors[:7] == [64.0, 64.0, 128.0, 128.0, 128.0, 256.0, 256.0]
    assert set(factors[7:]) == {256.0}
    assert held["lossScalingOverflows"] == 0
    _, weights = _long_in_torch(lambda w: torch.optim.Adam(w.values(), lr=0.02))
    for name, expected in weights.items():
        near(held[name], expected, name, _NEAR)


def test_large_gradients_halve_the_loss_scaling(tmp_path):
    ours = Adam(lr=0.02, scaling=AutomaticScaling(initial=2.0**15, period=2, edge=1e-3))
    factors = []
    with trained(for_training(_model(tmp_path), Loss(kind="cross-entropy"), ours)) as trainer:
        for batch in _batches(8):
            trainer.step([batch])
            factors.append(float(trainer.held()["lossScaling"]))
    assert factors == [2.0**k for k in (15, 14, 14, 13, 13, 12, 12, 11)]


def test_a_step_that_overflows_changes_nothing_but_the_loss_scaling(tmp_path):
    ours = Sgd(lr=0.1, momentum=0.9, scaling=AutomaticScaling(initial=8.0, period=4))
    with trained(for_training(_model(tmp_path), Loss(kind="cross-entropy"), ours)) as trainer:
        first, second = _batches(2)
        trainer.step([first])
        before = trainer.held()
        trainer.step([{**second, "x": np.where(second["x"] > 1, np.inf, second["x"])}])
        after = trainer.held()
        trainer.step([second])
        later = trainer.held()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {"lossScaling", "lossScalingOverflows", "lossScalingSteps"}
    assert after["lossScaling"] == 4.0
    assert after["lossScalingOverflows"] == 1
    assert after["lossScalingSteps"] == 0
    assert np.isfinite(later["w1"]).all()
    assert not np.array_equal(later["w1"], before["w1"])


@pytest.mark.parametrize("kind", _KINDS)
def test_half_with_weights_in_float(kind, tmp_path):
    """Activations and gradients are half; what is computed of them is not."""
    _, weights = _long_in_torch(lambda w: _of_torch(kind, w.values()))
    model = in_half(_model(tmp_path), has_masters=True)
    ours = _ours(kind, loss_scaling=256.0)
    with trained(for_training(model, Loss(kind="cross-entropy"), ours)) as trainer:
        for batch in _batches(_LONG):
            trainer.step([{**batch, "x": batch["x"].astype(np.float16)}])
        held = trainer.held()
    for name, expected in weights.items():
        assert held[name].dtype == np.float32
        near(held[name], expected, name, 2e-3)


def test_steps_too_small_for_half_change_it_in_the_mean(tmp_path):
    """Rounded to the nearest, weights in half stay; by chance they follow those in float."""
    results = {}
    for is_by_chance in (False, True):
        ours = Sgd(
            lr=1e-4, loss_scaling=64.0, sum_dtype="float32", stochastic_rounding=is_by_chance
        )
        model = for_training(in_half(_model(tmp_path)), Loss(kind="cross-entropy"), ours)
        with trained(model) as trainer:
            batch = _batches(1)[0]
            for _ in range(60):
                trainer.step([{**batch, "x": batch["x"].astype(np.float16)}])
            results[is_by_chance] = trainer.held()
    weights = {n: torch.tensor(a).double().requires_grad_() for n, a in _WEIGHTS.items()}
    optimiser = torch.optim.SGD(weights.values(), lr=1e-4)
    for _ in range(60):
        optimiser.zero_grad()
        labels = torch.tensor(batch["labels"])
        functional.cross_entropy(_scores(weights, batch), labels).backward()
        optimiser.step()
    start = _WEIGHTS["w1"].astype(np.float16)
    moved = (weights["w1"].detach().numpy() - _WEIGHTS["w1"]).ravel()
    nearest = (results[False]["w1"].astype(float) - start).ravel()
    by_chance = (results[True]["w1"].astype(float) - start).ravel()
    assert np.abs(nearest).sum() < 0.1 * np.abs(moved).sum()
    assert np.dot(by_chance, moved) / np.dot(moved, moved) == pytest.approx(1, abs=0.35)
    assert results[True]["roundingSeed"].tolist() == [0, 60]
