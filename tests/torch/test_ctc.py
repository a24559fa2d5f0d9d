"""Connectionist temporal classification, compared with PyTorch's loss and its gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.compared import drawn, near
from tests.torch.steps import graph_file, trained
from torch.nn import functional

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.training import Loss, Sgd, for_training

_STEPS, _BATCH, _CLASSES, _LONGEST = 8, 4, 6, 3
_LABELS = np.array([[1, 2, 2], [3, 3, 3], [5, 1, 0], [4, 0, 0]])
_LENGTHS, _ALL_LENGTHS = np.array([3, 3, 2, 1]), np.full(_BATCH, _LONGEST)


def _model(folder: Any, loss: Loss) -> Any:
    path = graph_file(
        folder / "graph.onnx",
        [("Mul", "x,w", "y")],
        {"x": (_STEPS, _BATCH, _CLASSES)},
        {"y": (_STEPS, _BATCH, _CLASSES)},
        {"w": drawn((_STEPS, _BATCH, _CLASSES), 1)},
    )
    return for_training(load_onnx(path, trainable=["w"]), loss, Sgd(lr=0.5), anchors=["w"])


def _in_torch(x: Any, labels: Any, steps: Any, lengths: Any, **options: Any) -> tuple[Any, Any]:
    w = torch.tensor(drawn((_STEPS, _BATCH, _CLASSES), 1)).double().requires_grad_()
    logs = functional.log_softmax(torch.tensor(x).double() * w, dim=2)
    loss = functional.ctc_loss(
        logs, torch.tensor(labels), torch.tensor(steps), torch.tensor(lengths), **options
    )
    loss.backward()
    assert w.grad is not None
    return loss.item(), w.grad.numpy()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("blank", [0, 5])
@pytest.mark.parametrize("has_steps", [False, True])
@pytest.mark.parametrize("has_lengths", [False, True])
def test_loss_and_gradient(has_lengths, has_steps, blank, reduction, tmp_path):
    x = drawn((_STEPS, _BATCH, _CLASSES), 2)
    labels = _LABELS if has_lengths else np.array([[1, 2, 2], [3, 1, 3], [2, 1, 4], [4, 3, 1]])
    labels = np.where(labels == blank, 2, labels) if blank else labels
    steps = np.array([8, 7, 5, 3]) if has_steps else np.full(_BATCH, _STEPS)
    lengths = _LENGTHS if has_lengths else _ALL_LENGTHS
    if has_steps and not has_lengths:
        steps[3] = 4
    loss = Loss(
        kind="ctc",
        reduction=reduction,
        blank=blank,
        steps="steps" if has_steps else "",
        lengths="lengths" if has_lengths else "",
        longest=_LONGEST,
    )
    batch = {"x": x, "labels": labels, "steps": steps, "lengths": lengths}
    with trained(_model(tmp_path, loss)) as trainer:
        outputs = trainer.step([batch])
    expected, gradient = _in_torch(x, labels, steps, lengths, reduction=reduction, blank=blank)
    assert float(outputs["loss"][0]) == pytest.approx(expected, rel=1e-5)
    near(outputs["Gradient___w"][0], gradient, "w")


def test_an_empty_label_and_one_that_no_alignment_gives(tmp_path):
    x, labels = drawn((_STEPS, _BATCH, _CLASSES), 3), _LABELS.copy()
    steps, lengths = np.array([8, 3, 8, 8]), np.array([0, 3, 2, 1])
    loss = Loss(kind="ctc", reduction="sum", steps="steps", lengths="lengths", longest=_LONGEST)
    batch = {"x": x, "labels": labels, "steps": steps, "lengths": lengths}
    with trained(_model(tmp_path, loss)) as trainer:
        outputs = trainer.step([batch])
    assert np.isinf(outputs["loss"][0]), "three equal classes take five steps"
    without = replace(loss, zero_infinity=True)
    with trained(_model(tmp_path, without)) as trainer:
        outputs = trainer.step([batch])
    expected, gradient = _in_torch(x, labels, steps, lengths, reduction="sum", zero_infinity=True)
    assert float(outputs["loss"][0]) == pytest.approx(expected, rel=1e-5)
    near(outputs["Gradient___w"][0], gradient, "w")
    steps[1] = 5
    with trained(_model(tmp_path, loss)) as trainer:
        outputs = trainer.step([{**batch, "steps": steps}])
    expected, gradient = _in_torch(x, labels, steps, lengths, reduction="sum")
    assert float(outputs["loss"][0]) == pytest.approx(expected, rel=1e-5)
    near(outputs["Gradient___w"][0], gradient, "w")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "say with ctc:longest=… how long they are at most"),
        ({"longest": 3, "blank": 6}, "the blank is class 6 of 6"),
        ({"longest": 3, "labels": "x"}, "Input 'x' has shape|labels of shape"),
    ],
)
def test_what_does_not_fit_is_refused(options, sentence, tmp_path):
    with pytest.raises(BadModel, match=sentence):
        _model(tmp_path, Loss(kind="ctc", **options))
