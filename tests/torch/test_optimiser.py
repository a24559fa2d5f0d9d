"""Weights after several steps, compared with those of PyTorch's optimiser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.compared import drawn, near
from tests.torch.steps import graph_file, trained
from torch.nn import functional

from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.training import Loss, Sgd, for_training

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
    folder: Path, sgd: Sgd, n_rounds: int, *, is_averaged: bool, reduction: str
) -> tuple[list[list[float]], dict[str, np.ndarray]]:
    loss = Loss(kind="cross-entropy", reduction=reduction)
    model = for_training(_model(folder), loss, sgd, n_rounds, is_averaged=is_averaged)
    batches, losses = _batches(n_rounds * _N_STEPS), []
    with trained(model) as trainer:
        for i in range(_N_STEPS):
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
