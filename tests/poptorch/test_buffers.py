"""Buffers of modules: what `forward` may do to them, and what replicas share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import poptorch


def quiet(n_replicas: int = 1) -> poptorch.Options:
    options = poptorch.Options().showCompilationProgressBar(False)
    return options.replicationFactor(n_replicas)


class _Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))


class _Removing(_Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        del self._buffers["count"]
        return x + 1


class _Reassigning(_Holder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = x + 1
        return self.count * 1


class _Adding(_Holder):
    def forward(self, x: torch.Tensor) -> Any:
        self.count.add_(1)
        return x + self.count


@pytest.mark.parametrize(
    ("model", "words"),
    [(_Removing(), "Buffer count is removed"), (_Reassigning(), r"self\.count\.copy_\(src\)")],
    ids=["removed", "reassigned"],
)
def test_forward_keeps_the_buffers_of_a_module(model: nn.Module, words: str) -> None:
    with pytest.raises(poptorch.Error, match=words):
        poptorch.inferenceModel(model, quiet())(torch.ones(1))


def test_buffers_that_replicas_change_apart_are_refused_unless_the_program_allows_it() -> None:
    with pytest.raises(poptorch.Error, match=r"broadcastBuffers\(False\)"):
        poptorch.inferenceModel(_Adding(), quiet(2))(torch.ones(2))
    device = poptorch.inferenceModel(_Adding(), quiet(2).broadcastBuffers(False))
    assert device(torch.ones(2)).tolist() == [2, 2]


def test_replicas_keep_running_statistics_for_themselves() -> None:
    model = nn.BatchNorm1d(3).train()
    poptorch.inferenceModel(model, quiet(2))(torch.ones(4, 3))


def test_buffers_that_can_be_copied_are_of_the_model() -> None:
    options = quiet().updatableNamedBuffers(["none"])
    with pytest.raises(poptorch.Error, match="its buffers are count"):
        poptorch.inferenceModel(_Adding(), options)(torch.ones(1))
