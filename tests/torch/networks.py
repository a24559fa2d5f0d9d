"""Networks trained here and by PyTorch: an ONNX file, data, and the same step in PyTorch."""

# mypy: disallow-subclassing-any=False

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from tilescope.engine import Loss, Sgd, for_training, load_onnx
from tilescope.engine.ir import Model

__all__ = ["NETWORKS", "Network", "PytorchStep"]


class Digits(nn.Module):
    """Two convolutions and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.f1, self.f2 = nn.Linear(1568, 100), nn.Linear(100, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = functional.max_pool2d(functional.relu(self.c1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.c2(x)), 2)
        scores: torch.Tensor = self.f2(functional.relu(self.f1(torch.flatten(x, 1))))
        return scores


class _Block(nn.Module):
    def __init__(self, n_inputs: int, n_outputs: int, stride: int) -> None:
        super().__init__()
        self.a = nn.Conv2d(n_inputs, n_outputs, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(n_outputs, n_outputs, 3, 1, 1, bias=False)
        self.norm_a, self.norm_b = nn.BatchNorm2d(n_outputs), nn.BatchNorm2d(n_outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_inputs != n_outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_inputs, n_outputs, 1, stride, bias=False), nn.BatchNorm2d(n_outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norm_a(self.a(x)))
        return functional.relu(self.norm_b(self.b(inner)) + self.shortcut(x))


class ResNet18(nn.Module):
    """He et al., 2015, for images of 32 x 32 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        blocks, width = [], 64
        for n_outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [_Block(width, n_outputs, stride), _Block(n_outputs, n_outputs, 1)]
            width = n_outputs
        self.blocks, self.dense = nn.Sequential(*blocks), nn.Linear(512, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = self.blocks(functional.relu(self.norm(self.stem(x))))
        scores: torch.Tensor = self.dense(x.mean((2, 3)))
        return scores


class Autoencoder(nn.Module):
    """Six dense layers."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (784, 512, 256, 64, 256, 512, 784)
        self.layers = nn.ModuleList(map(nn.Linear, sizes, sizes[1:]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the images again."""
        *inner, last = self.layers
        for layer in inner:
            x = functional.relu(layer(x))
        return torch.sigmoid(last(x))


class _Layer(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_attention, self.norm_dense = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = batch, length, self.n_heads, width // self.n_heads
        query, key, value = (
            part(x).reshape(shape).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / shape[-1] ** 0.5
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(x.shape)
        x = self.norm_attention(x + self.out(mixed))
        inner = functional.gelu(self.wide(x))
        return torch.as_tensor(self.norm_dense(x + self.narrow(inner)))


class Bert(nn.Module):
    """Two layers of BERT with 128 units and two heads (Devlin et al., 2018), 32 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(1000, 128), nn.Parameter(torch.zeros(32, 128))
        self.norm = nn.LayerNorm(128)
        self.layers = nn.Sequential(_Layer(128, 2), _Layer(128, 2))
        self.dense = nn.Linear(128, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of two classes."""
        out = self.layers(self.norm(self.words(x) + self.places))
        scores: torch.Tensor = self.dense(out[:, 0])
        return scores


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network with its loss and a batch.

    Parameters
    ----------
    make
        Returns the module.
    shape
        Of the input: images, or numbers of words.
    labels
        Classes; 0 if labels are the input itself.
    is_words
        Whether the input is numbers of words.
    seed
        Of the batch. With the one of ResNet-18, no activation is within rounding of 0: there, its
        gradient would be all or nothing, here and in PyTorch.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    labels: int
    is_words: bool = False
    seed: int = 0

    @property
    def loss(self) -> Loss:
        """What is minimised."""
        return Loss(kind="cross-entropy" if self.labels else "mse")

    def module(self) -> nn.Module:
        """Return the module with the same weights every time, in training mode."""
        torch.manual_seed(0)
        return self.make().train()

    def batch(self) -> dict[str, NDArray[Any]]:
        """Return the batch: ``x`` and ``labels``."""
        rng = np.random.default_rng(self.seed)
        if self.is_words:
            x: NDArray[Any] = rng.integers(0, 1000, self.shape)
        else:
            x = rng.random(self.shape).astype(np.float32)
        labels = rng.integers(0, self.labels, self.shape[0]) if self.labels else x
        return {"x": x, "labels": labels}

    def model(self, path: Path, sgd: Sgd) -> Model:
        """Export the module as for training, and return the model that trains it."""
        x = torch.from_numpy(self.batch()["x"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter is the older of two
            torch.onnx.export(
                self.module(),
                (x,),
                path,
                dynamo=False,
                input_names=["x"],
                output_names=["y"],
                opset_version=17,
                do_constant_folding=False,
                training=torch.onnx.TrainingMode.TRAINING,
            )
        return for_training(load_onnx(path, trainable="*"), self.loss, sgd)


class PytorchStep:
    """The step of a network in PyTorch, from the same weights as those of `Network.model`."""

    def __init__(self, network: Network, sgd: Sgd) -> None:
        self.module = network.module()
        self.loss = functional.cross_entropy if network.labels else functional.mse_loss
        self.optimiser = torch.optim.SGD(
            self.module.parameters(),
            lr=sgd.lr,
            momentum=sgd.momentum,
            weight_decay=sgd.weight_decay,
            dampening=sgd.dampening,
            nesterov=sgd.nesterov,
        )

    def __call__(self, x: torch.Tensor, labels: torch.Tensor) -> float:
        """Do a step and return the loss."""
        self.optimiser.zero_grad()
        loss = self.loss(self.module(x), labels)
        loss.backward()
        self.optimiser.step()
        return float(loss.item())


NETWORKS = {
    "digits": Network(make=Digits, shape=(8, 1, 28, 28), labels=10),
    "resnet18": Network(make=ResNet18, shape=(4, 3, 32, 32), labels=10, seed=3),
    "autoencoder": Network(make=Autoencoder, shape=(16, 784), labels=0),
    "bert": Network(make=Bert, shape=(4, 32), labels=2, is_words=True),
}
