"""Accuracy after training here and in PyTorch, from the same weights: ``make torch-accuracy``.

Networks are trained on digits in the same order. For every seed, one network is trained here and
one in PyTorch; both are tested on ten thousand other digits. Writes the table of the page of
PyTorch's operators.
"""

# mypy: disallow-subclassing-any=False

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
import torch
from tests.models.digits import idx_folder
from tests.torch.networks import Clothes
from torch import nn
from torch.nn import functional

from tilescope.engine import (
    Loss,
    Sgd,
    Trainer,
    for_training,
    load_machine,
    load_torch,
    resolve_options,
)

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("accuracy.json")
_N_SEEDS, _BATCH, _RATE = 5, 16, 0.05
#: Bytes before images and labels.
_HEADERS = (16, 8)


class Workshop(nn.Module):
    """The network of PopTorch's MNIST example: the largest of windows before the rectifier."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 64, 5)
        self.f1, self.f2 = nn.Linear(1024, 128), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = functional.relu(functional.max_pool2d(self.c1(x), 2))
        x = functional.relu(functional.max_pool2d(self.c2(x), 2))
        scores: torch.Tensor = self.f2(functional.relu(self.f1(torch.flatten(x, 1))))
        return scores


class _WithLoss(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.network(x), labels)


#: Network, digits and epochs.
CASES = {
    "workshop, 4,000 digits, 2 epochs": (Workshop, 4_000, 2),
    "clothes, 60,000 digits, 1 epoch": (Clothes, 60_000, 1),
}


def _digits(folder: Path, start: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images of shape (n, 1, 28, 28), from -1 to 1, and labels."""
    images, labels = (
        np.fromfile(folder / f"{start}-{name}-ubyte", np.uint8, offset=header)
        for name, header in zip(("images-idx3", "labels-idx1"), _HEADERS, strict=True)
    )
    scaled = torch.from_numpy(images.reshape(-1, 1, 28, 28)).float() / 127.5 - 1
    return scaled, torch.from_numpy(labels.astype(np.int64))


def _batches(
    images: torch.Tensor, labels: torch.Tensor, n_epochs: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the batches of all epochs, in the order of a seed."""
    order = torch.Generator().manual_seed(seed)
    for _ in range(n_epochs):
        for rows in torch.randperm(len(labels), generator=order).split(_BATCH):
            if len(rows) == _BATCH:
                yield images[rows], labels[rows]


def _accuracy(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the percentage of right labels."""
    with torch.no_grad():
        found = torch.cat([network(part).argmax(1) for part in images.split(1000)])
    return 100 * float((found == labels).float().mean())


def measured(
    kind: type[nn.Module], n_digits: int, n_epochs: int, folder: Path
) -> list[list[float]]:
    """Return the accuracies of every seed: trained here, and in PyTorch; percent."""
    images, labels = (part[:n_digits] for part in _digits(folder, "train"))
    test = _digits(folder, "t10k")
    rows = []
    torch.manual_seed(0)
    whole = _WithLoss(kind())
    program = load_torch(whole, (images[:_BATCH], labels[:_BATCH]), is_training=True)
    loss = Loss(kind="identity", output="output", reduction="sum")
    model = for_training(program.model, loss, Sgd(lr=_RATE))
    with Trainer(model, load_machine("gc200"), resolve_options(environ={})) as trainer:
        for seed in range(_N_SEEDS):
            torch.manual_seed(seed)
            whole = _WithLoss(kind())
            start = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
            trainer.set_weights({program.parameters[k]: v.numpy() for k, v in start.items()})
            for batch in _batches(images, labels, n_epochs, seed):
                trainer.step(program.take(batch))
            held = trainer.weights()
            whole.load_state_dict(
                {k: torch.from_numpy(held[program.parameters[k]].copy()) for k in start}
            )
            ours = _accuracy(whole.network, *test)
            whole.load_state_dict(start)
            optimiser = torch.optim.SGD(whole.parameters(), lr=_RATE)
            for batch in _batches(images, labels, n_epochs, seed):
                optimiser.zero_grad()
                whole(*batch).backward()
                optimiser.step()
            rows.append([ours, _accuracy(whole.network, *test)])
    return rows


def main() -> None:
    """Measure all cases, print, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.torch.accuracy", description=__doc__)
    parser.add_argument("--digits", type=Path, help="folder with MNIST; fetched without it")
    parser.add_argument("-k", dest="words", default="", help="cases whose names have this")
    given = parser.parse_args()
    folder = given.digits or idx_folder(ROOT / "build" / "mnist")
    torch.set_num_threads(1)
    table = json.loads(TABLE.read_text()) if given.words else {}
    for name, (kind, n_digits, n_epochs) in CASES.items():
        if given.words not in name:
            continue
        table[name] = measured(kind, n_digits, n_epochs, folder)
        ours, theirs = zip(*table[name], strict=True)
        sys.stdout.write(
            f"{name}: here {mean(ours):.2f} ± {stdev(ours):.2f} %, PyTorch {mean(theirs):.2f} ±"
            f" {stdev(theirs):.2f} %; {table[name]}\n"
        )
        sys.stdout.flush()
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
