"""Whole networks: ten steps here and in PyTorch, from the same weights on the same data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.torch.networks import NETWORKS, PytorchStep

from tilescope.engine import Sgd, Trainer, load_machine

#: Largest difference of a loss.
_TOLERANCE = 1e-4


@pytest.mark.parametrize("name", NETWORKS)
def test_ten_steps_have_the_losses_of_pytorch(name: str, tmp_path: Path) -> None:
    network, sgd = NETWORKS[name], Sgd(lr=0.02, momentum=0.9, weight_decay=1e-4)
    step = PytorchStep(network, sgd)
    with Trainer(network.model(tmp_path / "model.onnx", sgd), load_machine("gc200")) as trainer:
        losses, batch = [], network.batch()
        for _ in range(10):
            ours = float(trainer.step(batch)["loss"])
            theirs = step(*map(torch.from_numpy, batch.values()))
            losses.append((ours, theirs))
    differences = np.abs(np.diff(losses, axis=1)).ravel()
    assert differences.max() < _TOLERANCE, losses
    assert losses[-1][0] < losses[0][0], "it learns"
