"""Every operator of the table: values as PyTorch's, and gradients as autograd's.

Calls are tried several at a time, since most of the time is that of an export and a compilation.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.torch.frontend import elementwise_cases, layer_cases, movement_cases
from tests.torch.frontend.cases import Case
from tests.torch.frontend.machine import near, ran, tensors_of

from tilescope.engine.frontend.torch import load_torch
from tilescope.engine.frontend.torch.refused import LEFT
from tilescope.engine.training import Loss, Sgd, for_training

_CASES = [*elementwise_cases.CASES, *layer_cases.CASES, *movement_cases.CASES]

#: Calls of one module.
_N_TOGETHER = 12

#: What PyTorch says of its own functions.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


class _Calls(torch.nn.Module):
    """Calls whose tensors are arguments; returns a list of results by call."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *tensors):
        """Call the functions."""
        rest = iter(tensors)
        return [
            tensors_of(
                given.function(
                    *(next(rest) if isinstance(a, torch.Tensor) else a for a in given.args)
                )
            )
            for given in self.cases
        ]

    def tensors(self):
        """Return the tensors of all calls."""
        return [a.clone() for c in self.cases for a in c.args if isinstance(a, torch.Tensor)]


class _Differentiated(torch.nn.Module):
    """Calls whose floating-point tensors are parameters; returns the sum of their losses."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases
        for number, given in enumerate(cases):
            for index, item in enumerate(given.args):
                if _is_float(item):
                    setattr(self, f"p{number}_{index}", torch.nn.Parameter(item.clone()))
                elif isinstance(item, torch.Tensor):
                    self.register_buffer(f"p{number}_{index}", item.clone())

    def forward(self):
        """Call the functions."""
        total = torch.zeros(())
        for number, given in enumerate(self.cases):
            args = [getattr(self, f"p{number}_{i}", a) for i, a in enumerate(given.args)]
            for result in tensors_of(given.function(*args)):
                if result.is_floating_point() and result.requires_grad:
                    total = total + (result * _factors(result)).sum()
        return total


def _is_float(item: object) -> bool:
    return isinstance(item, torch.Tensor) and item.is_floating_point()


def _factors(x: torch.Tensor) -> torch.Tensor:
    """Return what the elements of a result count in the loss."""
    return torch.linspace(0.5, 1.5, max(1, x.numel())).reshape(x.shape)


def _batches(cases: Sequence[Case]) -> list[Sequence[Case]]:
    return [cases[i : i + _N_TOGETHER] for i in range(0, len(cases), _N_TOGETHER)]


def _is_differentiable(given: Case) -> bool:
    """Return whether a case is one of floats that makes floats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = tensors_of(given.function(*given.args))
    return given.has_gradient and any(map(_is_float, given.args)) and any(map(_is_float, results))


def _name(cases: Sequence[Case]) -> str:
    return f"{cases[0].name} to {cases[-1].name}"


@pytest.mark.parametrize("cases", _batches(_CASES), ids=_name)
def test_values(cases: Sequence[Case]):
    module = _Calls(cases)
    args = module.tensors()
    program = load_torch(module, args)
    outputs, _ = ran(program.model, program.take(args))
    for given, ours, theirs in zip(cases, program.give(outputs), module(*args), strict=True):
        for index, (actual, expected) in enumerate(zip(ours, theirs, strict=True)):
            near(actual, expected, given.tolerance, f"{given.name}, output {index}")


@pytest.mark.parametrize(
    "cases", _batches([given for given in _CASES if _is_differentiable(given)]), ids=_name
)
def test_gradients(cases: Sequence[Case]):
    module = _Differentiated(cases)
    module().backward()
    program = load_torch(module, is_training=True)
    named = {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}
    loss = Loss(kind="identity", output="output", reduction="sum")
    model = for_training(program.model, loss, Sgd(lr=0.0), anchors=list(named))
    outputs, _ = ran(model, {})
    for name, gradient in named.items():
        given = cases[int(name[1:].partition("_")[0])]
        scale = max(np.abs(gradient).max(initial=0), 0.1)
        actual = outputs[f"Gradient___{name}"] / scale
        near(actual, gradient / scale, max(1e-4, given.tolerance), f"{given.name}, {name}")


def test_operators_that_pytorch_takes_apart_are_tried():
    tried = {given.operator for given in _CASES}
    assert set(LEFT) <= tried | {"aten.embedding_bag"}
