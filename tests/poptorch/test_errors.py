"""Errors of a module's own code, as PyTorch words them outside of an export."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import poptorch


class _Scattering(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        how: Any = 1
        return x.scatter(0, index, x, reduce=how)


def test_wrong_arguments_are_of_tensors() -> None:
    data = torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.long)
    with pytest.raises(TypeError) as on_host:
        _Scattering()(*data)
    options = poptorch.Options().showCompilationProgressBar(False)
    with pytest.raises(TypeError) as on_device:
        poptorch.inferenceModel(_Scattering(), options)(*data)
    assert str(on_device.value) == str(on_host.value)


def test_too_many_ipus_are_refused() -> None:
    options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(128)
    with pytest.raises(poptorch.Error, match=r"Too many IPUs requested \(128\)\. .* than 64"):
        poptorch.inferenceModel(nn.ReLU(), options)(torch.ones(128))
