"""Arguments that a module writes into: the tensors of the call have it afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import poptorch


class _Writing(nn.Module):
    def forward(self, x: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
        x[..., :1].mul_(3)
        others[1] += x.sum(-1)
        return x + others[0]


def _arguments(n_batches: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    x = torch.arange(2.0 * n_batches).reshape(n_batches, 2)
    return x, [torch.ones(n_batches, 1), torch.zeros(n_batches)]


@pytest.mark.parametrize("n_iterations", [1, 3])
@pytest.mark.parametrize("n_replicas", [1, 2])
def test_what_a_module_writes_into_its_arguments_is_on_the_host(
    n_iterations: int, n_replicas: int
) -> None:
    options = poptorch.Options().showCompilationProgressBar(False)
    options.deviceIterations(n_iterations).replicationFactor(n_replicas)
    device = poptorch.inferenceModel(_Writing(), options)
    mine, theirs = _arguments(n_iterations * n_replicas), _arguments(n_iterations * n_replicas)
    for _ in range(2):
        torch.testing.assert_close(device(*mine), _Writing()(*theirs))
        torch.testing.assert_close(mine, theirs)


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> Any:
        loss = self.layer(x).square().mean()
        count += 1
        return loss


@pytest.mark.parametrize("group", [1, 2])
def test_training_writes_too_and_takes_no_argument_for_its_loss(group: int) -> None:
    options = poptorch.Options().showCompilationProgressBar(False)
    options.replicationFactor(2).Training.gradientAccumulation(2)
    if group > 1:
        options.replicationFactor(4)
        options.inputReplicaGrouping(group, poptorch.CommGroupType.Consecutive)
    device = poptorch.trainingModel(_Counting(), options)
    count = torch.arange(4.0)
    device(torch.randn(4, 2), count)
    assert count.tolist() == [1, 2, 3, 4]
