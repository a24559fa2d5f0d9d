"""Small modules that tests put on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Classifier(nn.Module):
    """Scores of four classes, and their loss if labels are given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        scores = self.layer(x)
        return scores if labels is None else (scores, self.loss(scores, labels))


class Stages(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.loss = nn.MSELoss()

    def forward(self, x: torch.Tensor, wanted: torch.Tensor | None = None) -> Any:
        out = self.second(torch.relu(self.first(x)))
        return out if wanted is None else (out, self.loss(out, wanted))


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels of a `Classifier`."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(size, 6, generator=generator)
    return x, torch.randint(0, 4, (size,), generator=generator)


def steps_on_host(model: nn.Module, optimizer: Any, data: Any, n_steps: int, n_rounds: int) -> None:
    """Train a module as PyTorch does: in steps of micro-batches, whose gradients are averaged."""
    pieces = [tensor.chunk(n_steps * n_rounds) for tensor in data]
    for step in range(n_steps):
        optimizer.zero_grad()
        for number in range(step * n_rounds, (step + 1) * n_rounds):
            loss = model(*(piece[number] for piece in pieces))[1]
            (loss / n_rounds).backward()
        optimizer.step()


class Labels(torch.nn.Module):
    """Returns integers: which scores are largest, and the scores as integers, plus 1."""

    def forward(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both."""
        return scores.argmax(-1), scores.long() + 1
