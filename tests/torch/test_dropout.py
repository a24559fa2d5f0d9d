"""Masks of dropout: one for both passes, another for every micro-batch, all from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.torch.compared import drawn, near
from tests.torch.steps import graph_file, trained

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.training import Loss, Sgd, for_training

_SHAPE = (32, 64)
_FACTORS = drawn(_SHAPE, 7)

Masks = list[np.ndarray[Any, np.dtype[Any]]]


def _dropouts(folder: Path, ratio: float, opset: int, n: int = 1) -> Path:
    """Write a graph of dropouts of a parameter, one after the other."""
    known = {
        "x": np.ones(_SHAPE, np.float32),
        "ratio": np.array(ratio, np.float32),
        "is_training": np.array(True),
    }
    inputs, attributes = ",ratio,is_training", {}
    if opset < 12:  # before, the ratio is an attribute
        inputs, attributes = "", {"ratio": ratio}
        known = {"x": known["x"]}
    names = ["x", *(f"d{i}" for i in range(n - 1)), "dropped"]
    return Path(
        graph_file(
            folder / "graph.onnx",
            [
                *(("Dropout", f"{names[i]}{inputs}", names[i + 1], attributes) for i in range(n)),
                ("Mul", "dropped,factors", "y"),
            ],
            {"factors": _SHAPE},
            {"y": _SHAPE, "dropped": _SHAPE},
            known,
            opset,
        )
    )


def _masks(
    folder: Path,
    ratio: float = 0.3,
    *,
    opset: int = 17,
    n_rounds: int = 1,
    n_steps: int = 1,
    seed: int = 0,
) -> tuple[Masks, Masks]:
    """Return what dropout makes of ones, and the gradients without the factors."""
    model = for_training(
        load_onnx(_dropouts(folder, ratio, opset), trainable=["x"]),
        Loss(kind="identity", reduction="sum"),
        Sgd(lr=0.0),
        n_rounds,
        anchors=["x"],
        seed=seed,
    )
    forward: Masks = []
    backward: Masks = []
    with trained(model) as trainer:
        for _ in range(n_steps):
            outputs = trainer.step([{"factors": _FACTORS}] * n_rounds)
            forward += outputs["dropped"]
            backward += [g / _FACTORS for g in outputs["Gradient___x"]]
    return forward, backward


@pytest.mark.parametrize(("ratio", "opset"), [(0.3, 17), (0.75, 13), (0.5, 10), (0.1, 21)])
def test_both_passes_have_one_mask(ratio, opset, tmp_path):
    (forward,), (backward,) = _masks(tmp_path, ratio, opset=opset)
    near(backward, forward, "mask")
    kept = forward != 0
    near(forward[kept], np.full(int(kept.sum()), 1 / (1 - ratio)), "scale")


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_share_of_zeros_is_the_ratio(ratio, tmp_path):
    forward, _ = _masks(tmp_path, ratio, n_steps=4)
    n = forward[0].size * len(forward)
    share = sum(int((mask == 0).sum()) for mask in forward) / n
    assert abs(share - ratio) < 4 * np.sqrt(ratio * (1 - ratio) / n)


def test_every_micro_batch_of_every_step_has_another_mask(tmp_path):
    forward, backward = _masks(tmp_path, n_rounds=3, n_steps=2)
    assert len(forward) == 6
    for mask, gradient in zip(forward, backward, strict=True):
        near(gradient, mask, "mask")
    assert len({mask.tobytes() for mask in forward}) == 6


def test_masks_follow_from_the_seed(tmp_path):
    first, again, other = (
        [mask.tobytes() for mask in _masks(tmp_path, n_rounds=2, seed=seed)[0]]
        for seed in (7, 7, 8)
    )
    assert first == again
    assert not set(first) & set(other)


def test_masks_do_not_follow_from_the_number_of_micro_batches(tmp_path):
    in_rounds, _ = _masks(tmp_path, n_rounds=2, n_steps=2)
    in_steps, _ = _masks(tmp_path, n_steps=4)
    assert [m.tobytes() for m in in_rounds] == [m.tobytes() for m in in_steps]


def test_dropouts_of_a_model_have_masks_of_their_own(tmp_path):
    path = _dropouts(tmp_path, 0.5, 17, n=2)
    model = for_training(
        load_onnx(path, trainable=["x"]), Loss(kind="identity", reduction="sum"), Sgd(lr=0.0)
    )
    with trained(model) as trainer:
        outputs = trainer.step([{"factors": _FACTORS}])
    share = float((outputs["dropped"][0] != 0).mean())
    assert abs(share - 0.25) < 0.05


def test_a_ratio_of_0_drops_nothing(tmp_path):
    (forward,), _ = _masks(tmp_path, 0.0)
    near(forward, np.ones(_SHAPE))


def test_a_ratio_of_1_is_refused(tmp_path):
    path = _dropouts(tmp_path, 1.0, 17)
    with pytest.raises(BadModel, match="expected at least 0, and less than 1"):
        for_training(load_onnx(path, trainable=["x"]), Loss(kind="identity"), Sgd(lr=0.1))


def test_inference_drops_nothing(tmp_path):
    nodes = [("Dropout", "x", "y"), ("Mul", "y,factors", "z")]
    path = graph_file(
        tmp_path / "graph.onnx",
        nodes,
        {"factors": _SHAPE},
        {"z": _SHAPE},
        {"x": np.ones(_SHAPE, np.float32)},
    )
    model = for_training(
        load_onnx(path, trainable=["x"]),
        Loss(kind="identity", reduction="sum"),
        Sgd(lr=0.0),
        anchors=["x"],
    )
    with trained(model) as trainer:
        outputs = trainer.step([{"factors": _FACTORS}])
    near(outputs["Gradient___x"][0], _FACTORS)
