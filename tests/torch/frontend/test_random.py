"""Random numbers of the device, and operators of a user's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.torch.frontend.machine import ran

from tilescope.engine import custom_operator, forget_operator, operator
from tilescope.engine.frontend.torch import load_torch, markers

_N = 1000

#: What draws, with mean, least and most of the numbers; None where there is no limit.
_DRAWS = {
    "rand": (lambda: torch.rand(_N), 0.5, 0, 1),
    "rand_like": (lambda: torch.rand_like(torch.zeros(_N)), 0.5, 0, 1),
    "randn": (lambda: torch.randn(_N), 0.0, None, None),
    "randint": (lambda: torch.randint(2, 7, (_N,)).float(), 4.0, 2, 6),
    "bernoulli": (lambda: torch.bernoulli(torch.full((_N,), 0.3)), 0.3, 0, 1),
    "exponential": (lambda: torch.empty(_N).exponential_(2.0), 0.5, 0, None),
    "uniform": (lambda: torch.empty(_N).uniform_(-1, 3), 1.0, -1, 3),
    "normal": (lambda: torch.normal(2.0, 0.5, (_N,)), 2.0, None, None),
}


class _Drawing(torch.nn.Module):
    """Draws all of them, and two samples without repetition."""

    def forward(self):
        draws = {name: draw() for name, (draw, *_) in _DRAWS.items()}
        return draws, torch.randperm(50), torch.multinomial(torch.ones(6), 6)


def test_distributions():
    program = load_torch(_Drawing())
    draws, order, sample = program.give(ran(program.model, {})[0])
    for name, (_, mean, least, most) in _DRAWS.items():
        numbers = draws[name].numpy()
        # Five standard errors, so that a right generator passes.
        assert abs(numbers.mean() - mean) < 5 * numbers.std() / np.sqrt(_N), name
        assert least is None or numbers.min() >= least, name
        assert most is None or numbers.max() <= most, name
    assert sorted(order.tolist()) == list(range(50))
    assert sorted(sample.tolist()) == list(range(6))


class _Own(torch.nn.Module):
    """Prints the result of an operator of a user's own."""

    def forward(self, x):
        (square,) = markers.custom_op([x], "Square", "tests.torch", 1, [x])
        return markers.print_tensor(square, "square")


@pytest.fixture
def square():
    """Register an operator that PyTorch does not know."""
    custom_operator(
        "Square",
        domain="tests.torch",
        decompose=lambda node, emit: emit.emit(operator("Mul"), node.operand(0), node.operand(0)),
    )
    yield
    forget_operator("tests.torch.Square")


@pytest.mark.usefixtures("square")
def test_operator_of_a_user(capsys):
    x = torch.arange(4.0)
    program = load_torch(_Own(), (x,))
    outputs, _ = ran(program.model, program.take((x,)))
    np.testing.assert_array_equal(outputs["output"], x.numpy() ** 2)
    assert "square" in capsys.readouterr().out
