"""Modules of several fields: results as PyTorch's, and gradients of a step as autograd's."""

from __future__ import annotations

import pytest
import torch
from tests.torch.frontend.machine import check_gradients, check_inference, tensors_of
from tests.torch.frontend.modules import MODULES

#: What transformers and PyTorch Geometric say of their own calls.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class _WithLoss(torch.nn.Module):
    """A module whose last result is the mean of the squares of all others."""

    def __init__(self, module, kwargs):
        super().__init__()
        self.module, self.kwargs = module, kwargs

    def forward(self, *args):
        results = self.module(*args, **self.kwargs)
        floats = [x for x in tensors_of(results) if x.is_floating_point()]
        return sum((x * x).mean() for x in floats)


def _made(name):
    make, args, kwargs = MODULES[name]
    torch.manual_seed(0)
    return make(), args, kwargs


@pytest.mark.parametrize("name", MODULES)
def test_inference(name):
    module, args, kwargs = _made(name)
    check_inference(module.eval(), args, kwargs)


#: The code of a step of ResNet-50 does not fit the memory of the few tiles that tests have.
_TRAINED = [name for name in MODULES if name != "resnet-50"]
#: Whose steps take longest to compile; of each kind of layer that they have, others are left.
_LONG = {"bottlenecks", "gpt-2 with cache", "llama", "resnet-18", "t5", "u-net", "vit"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in _LONG else []) for n in _TRAINED],
)
def test_gradients(name):
    module, args, kwargs = _made(name)
    check_gradients(_WithLoss(module.train(), kwargs), args)
