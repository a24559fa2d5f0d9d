"""Learning rates from step to step, compared with PyTorch's schedulers."""

from __future__ import annotations

import pytest
import torch

from tilescope.engine.errors import BadOption
from tilescope.engine.training import Schedule

_N = 12
_lr = torch.optim.lr_scheduler
_PAIRS = {
    "constant": (Schedule(), lambda o: _lr.ConstantLR(o, factor=1.0)),
    "step": (Schedule(kind="step", every=4, gamma=0.3), lambda o: _lr.StepLR(o, 4, 0.3)),
    "exponential": (
        Schedule(kind="exponential", gamma=0.8),
        lambda o: _lr.ExponentialLR(o, 0.8),
    ),
    "linear": (
        Schedule(kind="linear", steps=8, end=0.25),
        lambda o: _lr.LinearLR(o, 1.0, 0.25, 8),
    ),
    "polynomial": (
        Schedule(kind="polynomial", steps=8, power=2.0),
        lambda o: _lr.PolynomialLR(o, 8, 2.0),
    ),
    "cosine": (Schedule(kind="cosine"), lambda o: _lr.CosineAnnealingLR(o, _N)),
    "cosine-end": (
        Schedule(kind="cosine", end=0.1),
        lambda o: _lr.CosineAnnealingLR(o, _N, eta_min=0.05),
    ),
}


@pytest.mark.parametrize("pair", _PAIRS.values(), ids=_PAIRS)
def test_rates_are_those_of_pytorch(pair):
    schedule, scheduler_of = pair
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    scheduler = scheduler_of(optimiser)
    for step in range(_N):
        rate = optimiser.param_groups[0]["lr"]
        assert 0.5 * schedule.factor(step, _N) == pytest.approx(rate, abs=1e-12)
        optimiser.step()
        scheduler.step()


def test_a_rate_may_grow_and_stays_at_its_end():
    schedule = Schedule(kind="linear", steps=5, end=2.0)
    factors = [schedule.factor(step, _N) for step in range(8)]
    assert factors == pytest.approx([1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.0, 2.0])


def test_a_warm_up_comes_before_the_rest():
    schedule = Schedule(kind="cosine", warmup=3)
    factors = [schedule.factor(step, _N) for step in range(_N)]
    assert factors[:3] == [0.25, 0.5, 0.75]
    assert factors[3:] == [Schedule(kind="cosine").factor(i, _N - 3) for i in range(_N - 3)]


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        ("sine", {}, "There is no schedule 'sine': choose constant, cosine"),
        ("cosine", {"length": "3"}, "has no option 'length': it has warmup, steps, end"),
        ("cosine", {"steps": "3.5"}, "steps is '3.5'; it has to be a whole number"),
        ("step", {"every": "0"}, "every is 0; it has to be 1 or more"),
        ("linear", {"end": "-1"}, "end is -1; it has to be 0 or more"),
        ("linear", {"end": "nan"}, "end is nan; it has to be 0 or more"),
    ],
)
def test_bad_options_are_told(kind, options, sentence):
    with pytest.raises(BadOption, match=sentence):
        Schedule.parsed(kind, options)
