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


class Mlp(nn.Module):
    """Three dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(map(nn.Linear, (784, 128, 64), (128, 64, 10)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        first, second, last = self.layers
        scores: torch.Tensor = last(functional.relu(second(functional.relu(first(x)))))
        return scores


class Clothes(nn.Module):
    """The network of Graphcore's first tutorial of PopTorch, without its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 5, 3), nn.Conv2d(5, 12, 5)
        self.norm = nn.GroupNorm(3, 12)
        self.f1, self.f2 = nn.Linear(972, 100), nn.Linear(100, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = functional.relu(functional.max_pool2d(self.c1(x), 2))
        x = functional.relu(self.norm(self.c2(x)))
        scores: torch.Tensor = self.f2(functional.relu(self.f1(torch.flatten(x, 1))))
        return scores


class LeNet(nn.Module):
    """LeCun et al., 1998, with rectifiers and the largest of windows."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.layers = nn.ModuleList(map(nn.Linear, (400, 120, 84), (120, 84, 10)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = functional.max_pool2d(functional.relu(self.c1(x)), 2)
        x = torch.flatten(functional.max_pool2d(functional.relu(self.c2(x)), 2), 1)
        first, second, last = self.layers
        scores: torch.Tensor = last(functional.relu(second(functional.relu(first(x)))))
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


class _CausalLayer(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.inner, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_attention, self.norm_dense = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = batch, length, self.n_heads, width // self.n_heads
        parts = self.inner(self.norm_attention(x)).split(width, 2)
        query, key, value = (part.reshape(shape).transpose(1, 2) for part in parts)
        scores = query @ key.transpose(-1, -2) / shape[-1] ** 0.5
        shares = torch.softmax(scores.masked_fill(hidden, -1e9), -1)
        x = x + self.out((shares @ value).transpose(1, 2).reshape(x.shape))
        inner = functional.gelu(self.wide(self.norm_dense(x)))
        return torch.as_tensor(x + self.narrow(inner))


class Gpt(nn.Module):
    """Two layers of GPT-2 with 128 units and four heads (Radford et al., 2019), 64 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(1000, 128), nn.Parameter(torch.zeros(64, 128))
        self.layers = nn.ModuleList(_CausalLayer(128, 4) for _ in range(2))
        self.norm, self.dense = nn.LayerNorm(128), nn.Linear(128, 1000, bias=False)
        self.register_buffer("hidden", torch.ones(64, 64).triu(1) > 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next words: (batch, words, length)."""
        out = self.words(x) + self.places
        for layer in self.layers:
            out = layer(out, self.hidden)
        scores: torch.Tensor = self.dense(self.norm(out)).transpose(1, 2)
        return scores


class Lstm(nn.Module):
    """Two layers of 256 units, as in Graphcore's benchmark of LSTM training."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.dense = nn.LSTM(16, 256, 2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        scores: torch.Tensor = self.dense(self.layers(x)[0][:, -1])
        return scores


class Speech(nn.Module):
    """A convolution over time, a GRU in both directions, and a dense layer: 12 commands."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(40, 32, 5, 2)
        self.layers = nn.GRU(32, 48, batch_first=True, bidirectional=True)
        self.dense = nn.Linear(96, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of sequences (batch, frequencies, steps)."""
        steps = functional.relu(self.conv(x)).transpose(1, 2)
        scores: torch.Tensor = self.dense(self.layers(steps)[0].mean(1))
        return scores


class UNet(nn.Module):
    """Ronneberger et al., 2015, in small: two steps down, two up, with what was before beside."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((1, 8), (8, 16), (16, 32), (32, 16), (16, 8))
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in sizes)
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in ((32, 16), (16, 8)))
        self.last = nn.Conv2d(8, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of every pixel."""
        first = functional.relu(self.convs[0](x))
        second = functional.relu(self.convs[1](functional.max_pool2d(first, 2)))
        third = functional.relu(self.convs[2](functional.max_pool2d(second, 2)))
        joined = torch.cat([self.up[0](third), second], 1)
        joined = torch.cat([self.up[1](functional.relu(self.convs[3](joined))), first], 1)
        scores: torch.Tensor = self.last(functional.relu(self.convs[4](joined)))
        return scores


class GraphNetwork(nn.Module):
    """Two layers that add up messages along the edges of a graph of 40 nodes."""

    def __init__(self) -> None:
        super().__init__()
        edges = torch.randint(0, 40, (2, 160), generator=torch.Generator().manual_seed(1))
        self.register_buffer("source", edges[0])
        self.register_buffer("target", edges[1])
        self.message = nn.ModuleList(nn.Linear(a, 24) for a in (12, 24))
        self.own = nn.ModuleList(nn.Linear(a, 24) for a in (12, 24))
        self.dense = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the nodes."""
        for message, own in zip(self.message, self.own, strict=True):
            sent = functional.relu(message(x))[self.source]
            zeros = torch.zeros(x.shape[0], sent.shape[1])
            taken = zeros.scatter_add(0, self.target[:, None].expand_as(sent), sent)
            x = torch.tanh(own(x) + taken)
        scores: torch.Tensor = self.dense(x)
        return scores


class Gcn(nn.Module):
    """Two convolutions over a graph of 300 nodes (Kipf and Welling, 2017)."""

    def __init__(self) -> None:
        super().__init__()
        drawn = torch.randint(0, 300, (2, 1200), generator=torch.Generator().manual_seed(1))
        source, target = torch.cat([drawn, torch.arange(300).expand(2, 300)], 1)
        degree = torch.bincount(target, minlength=300).float()
        self.register_buffer("source", source)
        self.register_buffer("target", target)
        self.register_buffer("share", (degree[source] * degree[target]).rsqrt()[:, None])
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in ((128, 16), (16, 7)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the nodes."""
        first, second = self.dense
        scores: torch.Tensor = self._spread(second(functional.relu(self._spread(first(x)))))
        return scores

    def _spread(self, x: torch.Tensor) -> torch.Tensor:
        sent = x[self.source] * self.share
        return torch.zeros_like(x).scatter_add(0, self.target[:, None].expand_as(sent), sent)


class Vae(nn.Module):
    """A variational autoencoder (Kingma and Welling, 2014), whose result is its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.mean, self.log = nn.Linear(64, 48), nn.Linear(48, 8), nn.Linear(48, 8)
        self.wide, self.out = nn.Linear(8, 48), nn.Linear(48, 64)
        noise = torch.randn(16, 8, generator=torch.Generator().manual_seed(2))
        self.register_buffer("noise", noise)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the loss: that of the images, and the distance from the normal distribution."""
        inner = torch.tanh(self.inner(x))
        mean, log = self.mean(inner), self.log(inner)
        drawn = mean + torch.exp(log / 2) * self.noise
        images = torch.sigmoid(self.out(functional.relu(self.wide(drawn))))
        of_images = -(x * torch.log(images) + (1 - x) * torch.log(1 - images)).sum(1)
        distance = -0.5 * (1 + log - mean * mean - torch.exp(log)).sum(1)
        loss: torch.Tensor = (of_images + distance).mean() / 64
        return loss


class Policy(nn.Module):
    """A policy whose illegal actions are masked; the steps after an end do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(20, 32), nn.Linear(32, 6)
        drawn = torch.Generator().manual_seed(3)
        self.register_buffer("legal", torch.rand(24, 6, generator=drawn) > 0.3)
        self.register_buffer("counts", (torch.rand(24, generator=drawn) > 0.25).float())
        self.register_buffer("gain", torch.randn(24, generator=drawn))
        scores = torch.rand(24, 6, generator=drawn).masked_fill(~self.legal, -1)
        self.register_buffer("action", scores.argmax(1, keepdim=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the loss: minus the logarithms of actions times what they gained."""
        scores = self.out(torch.tanh(self.inner(x)))
        masked = scores.masked_fill(~self.legal, -1e9)
        logs = functional.log_softmax(masked, 1).gather(1, self.action)[:, 0]
        loss: torch.Tensor = -(logs * self.gain * self.counts).sum() / self.counts.sum()
        return loss


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
        Classes; 0 if labels are the input itself, and None if the result is the loss.
    pixels
        Sizes of what has a label of its own beside the batch.
    is_words
        Whether the input is numbers of words.
    seed
        Of the batch. With the one of ResNet-18, no activation is within rounding of 0: there, its
        gradient would be all or nothing, here and in PyTorch.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    labels: int | None
    pixels: tuple[int, ...] = ()
    is_words: bool = False
    seed: int = 0

    @property
    def loss(self) -> Loss:
        """What is minimised."""
        if self.labels is None:
            return Loss(kind="identity")
        return Loss(kind="cross-entropy" if self.labels else "mse")

    def module(self) -> nn.Module:
        """Return the module with the same weights every time, in training mode."""
        torch.manual_seed(0)
        return self.make().train()

    def batch(self) -> dict[str, NDArray[Any]]:
        """Return the batch: ``x``, and ``labels`` if there are any."""
        rng = np.random.default_rng(self.seed)
        if self.is_words:
            x: NDArray[Any] = rng.integers(0, 1000, self.shape)
        else:
            x = rng.random(self.shape).astype(np.float32)
        if self.labels is None:
            return {"x": x}
        shape = self.shape[0], *self.pixels
        return {"x": x, "labels": rng.integers(0, self.labels, shape) if self.labels else x}

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
        own = ("running_mean", "running_var", "num_batches_tracked")  # of batch normalisations
        buffers = [n for n, _ in self.module().named_buffers() if not n.endswith(own)]
        return for_training(load_onnx(path, trainable="*", frozen=buffers), self.loss, sgd)


class PytorchStep:
    """The step of a network in PyTorch, from the same weights as those of `Network.model`."""

    def __init__(self, network: Network, sgd: Sgd) -> None:
        self.module = network.module()
        self.loss: Any = functional.cross_entropy if network.labels else functional.mse_loss
        if network.labels is None:
            self.loss = lambda result: result
        self.optimiser = torch.optim.SGD(
            self.module.parameters(),
            lr=sgd.lr,
            momentum=sgd.momentum,
            weight_decay=sgd.weight_decay,
            dampening=sgd.dampening,
            nesterov=sgd.nesterov,
        )

    def __call__(self, x: torch.Tensor, *labels: torch.Tensor) -> float:
        """Do a step and return the loss."""
        self.optimiser.zero_grad()
        loss = self.loss(self.module(x), *labels)
        loss.backward()
        self.optimiser.step()
        return float(loss.item())


NETWORKS = {
    "mlp": Network(make=Mlp, shape=(16, 784), labels=10),
    "clothes": Network(make=Clothes, shape=(16, 1, 28, 28), labels=10),
    "lenet": Network(make=LeNet, shape=(16, 1, 28, 28), labels=10),
    "digits": Network(make=Digits, shape=(8, 1, 28, 28), labels=10),
    "resnet18": Network(make=ResNet18, shape=(4, 3, 32, 32), labels=10, seed=3),
    "autoencoder": Network(make=Autoencoder, shape=(16, 784), labels=0),
    "bert": Network(make=Bert, shape=(4, 32), labels=2, is_words=True),
    "gpt": Network(make=Gpt, shape=(2, 64), labels=1000, pixels=(64,), is_words=True),
    "lstm": Network(make=Lstm, shape=(4, 200, 16), labels=10),
    "speech": Network(make=Speech, shape=(4, 40, 61), labels=12),
    "unet": Network(make=UNet, shape=(2, 1, 32, 32), labels=3, pixels=(32, 32)),
    "graph": Network(make=GraphNetwork, shape=(40, 12), labels=5),
    "gcn": Network(make=Gcn, shape=(300, 128), labels=7),
    "vae": Network(make=Vae, shape=(16, 64), labels=None),
    "policy": Network(make=Policy, shape=(24, 20), labels=None),
}
