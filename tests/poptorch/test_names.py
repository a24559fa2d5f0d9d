"""Names of operations: scopes stand before the paths of modules."""

from __future__ import annotations

import torch
from torch import nn

import poptorch


class _Scoped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with poptorch.NameScope("Outer"):
            x = x + 1
            with poptorch.NameScope("Inner"):
                x = self.layer(x)
        with poptorch.NameScope("Outer"):
            x = x.exp()
        return x * 2


def test_scopes_stand_before_the_paths_of_modules() -> None:
    options = poptorch.Options().showCompilationProgressBar(False)
    device = poptorch.inferenceModel(_Scoped(), options)
    device(torch.ones(1, 2))
    program = device._compiled()
    names = [operation.name for operation in program.graph.model.operations]
    assert names == ["Outer/add", "Outer/Inner/layer/linear", "Outer/exp", "mul"]
    steps = [node.name for node in program.compiled.executable.nodes]
    assert any("Outer/Inner/layer/linear" in name for name in steps)
