"""A small network of convolutions through the front end of PyTorch."""

from __future__ import annotations

import numpy as np
import torch
from tests.torch.frontend.machine import check_gradients, check_inference
from torch.nn import functional

from tilescope.engine.frontend.torch import load_torch


class Network(torch.nn.Module):
    """Two convolutions and a layer, with the loss as the last result."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 4, 5)
        self.bn = torch.nn.BatchNorm2d(4)
        self.pool = torch.nn.MaxPool2d(2)
        self.fc = torch.nn.Linear(64, 10)

    def forward(self, x, labels=None):
        x = self.pool(functional.relu(self.bn(self.conv1(x))))
        y = functional.log_softmax(self.fc(x.flatten(1)), 1)
        return y if labels is None else (y, functional.nll_loss(y, labels))


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 1, 12, 12), torch.randint(0, 10, (4,))


def test_inference():
    program = check_inference(Network().eval(), _batch())
    assert [value.name for value in program.model.inputs] == ["x", "labels"]
    assert [name for name, _ in program.model.outputs] == ["output.0", "output.1"]


def test_training():
    network = Network()
    program = check_gradients(network, _batch())
    assert set(program.parameters) == {name for name, _ in network.named_parameters()}
    assert {op.name for op in program.model.operations} >= {"conv1/conv2d", "bn/batch_norm"}


def test_module_stays_as_it_is():
    network = Network()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    program = load_torch(network, _batch(), is_training=True)
    assert network.training
    assert all(parameter.grad is None for parameter in network.parameters())
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])
    with torch.no_grad():
        network.fc.weight.zero_()
    (weight,) = (p for p in program.model.parameters if p.name == "fc.weight")
    assert np.any(weight.array)
