"""Every operator of the table: values as PyTorch's, and gradients as autograd's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from tests.torch.frontend import elementwise_cases, layer_cases, movement_cases
from tests.torch.frontend.cases import Case
from tests.torch.frontend.machine import near, ran, tensors_of

from tilescope.engine.frontend.torch import load_torch
from tilescope.engine.training import Loss, Sgd, for_training

_CASES = [*elementwise_cases.CASES, *layer_cases.CASES, *movement_cases.CASES]


class _Call(torch.nn.Module):
    """A call with floating-point arguments as parameters; returns its results and their loss."""

    def __init__(self, given: Case) -> None:
        super().__init__()
        self.given = given
        for index, item in enumerate(given.args):
            if isinstance(item, torch.Tensor):
                if item.is_floating_point() and given.has_gradient:
                    setattr(self, f"a{index}", torch.nn.Parameter(item.clone()))
                else:
                    self.register_buffer(f"b{index}", item.clone())

    def forward(self, *tensors):
        """Call the function."""
        if self.given.has_gradient:
            args = [getattr(self, f"a{i}", self._held(i)) for i in range(len(self.given.args))]
        else:
            args = self._args(tensors)
        results = tensors_of(self.given.function(*args))
        floats = [r for r in results if r.is_floating_point() and r.requires_grad]
        total = sum((r * factors(r)).sum() for r in floats)
        return (*results, *([total] if floats else []))

    def _held(self, index):
        return getattr(self, f"b{index}", self.given.args[index])

    def _args(self, tensors):
        rest = iter(tensors)
        return [next(rest) if isinstance(a, torch.Tensor) else a for a in self.given.args]


def factors(x: torch.Tensor) -> torch.Tensor:
    """Return what the elements of a result count in the loss."""
    return torch.linspace(0.5, 1.5, max(1, x.numel())).reshape(x.shape)


#: What PyTorch says of its own functions.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.mark.parametrize("given", _CASES, ids=[given.name for given in _CASES])
def test_values(given: Case):
    module = _Call(Case(given.name, given.function, given.args, has_gradient=False))
    args = [item.clone() for item in given.args if isinstance(item, torch.Tensor)]
    program = load_torch(module, args)
    outputs, _ = ran(program.model, program.take(args))
    actual, expected = program.give(outputs), module(*args)
    for index, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        near(ours, theirs, given.tolerance, f"output {index}")


def _is_differentiable(given: Case) -> bool:
    """Return whether a case is one of floats that makes floats."""
    takes = any(isinstance(a, torch.Tensor) and a.is_floating_point() for a in given.args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = tensors_of(given.function(*given.args))
    return given.has_gradient and takes and any(t.is_floating_point() for t in results)


_DIFFERENTIATED = [given for given in _CASES if _is_differentiable(given)]


@pytest.mark.parametrize("given", _DIFFERENTIATED, ids=[given.name for given in _DIFFERENTIATED])
def test_gradients(given: Case):
    module = _Call(given)
    expected = module()[-1]
    expected.backward()
    program = load_torch(module, is_training=True)
    named = {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}
    loss = Loss(kind="identity", output=program.model.outputs[-1][0], reduction="sum")
    model = for_training(program.model, loss, Sgd(lr=0.0), anchors=list(named))
    outputs, _ = ran(model, {})
    for name, gradient in named.items():
        scale = max(np.abs(gradient).max(initial=0), 0.1)
        near(
            outputs[f"Gradient___{name}"] / scale,
            gradient / scale,
            max(1e-4, given.tolerance),
            name,
        )
