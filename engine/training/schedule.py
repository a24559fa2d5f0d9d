"""Schedules: how the host changes the learning rate from step to step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tilescope.engine.errors import BadOption
from tilescope.engine.training.stated import stated

__all__ = ["SCHEDULES", "Schedule"]

#: Schedules by name, with what the rate does after the warm-up.
SCHEDULES = {
    "constant": "stays",
    "cosine": "falls to `end` times itself in `steps` steps, along a cosine",
    "exponential": "is multiplied by `gamma` after every step",
    "linear": "goes to `end` times itself in `steps` steps, along a line",
    "polynomial": "falls to `end` times itself in `steps` steps, as the `power` of what is left",
    "step": "is multiplied by `gamma` every `every` steps",
}

#: Those that need a number of steps.
_WITH_STEPS = ("cosine", "linear", "polynomial")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What the rate of an optimiser is multiplied by in a step.

    Parameters
    ----------
    kind
        One of `SCHEDULES`.
    warmup
        Steps in which the rate first grows from 0, along a line: it is the whole rate in the step
        after them.
    steps
        Steps after the warm-up until the rate is at its end, where it stays; 0 stands for all steps
        of the training.
    end
        What it is multiplied by at the end.
    gamma, every, power
        As in `SCHEDULES`.

    Raises
    ------
    BadOption
        When the kind does not exist, or a value is out of range.

    Notes
    -----
    Without a warm-up, the same as LinearLR (from 1), CosineAnnealingLR, ExponentialLR, StepLR and
    PolynomialLR of PyTorch, stepped after every step.
    Source: https://pytorch.org/docs/stable/optim.html
    """

    kind: str = "constant"
    warmup: int = 0
    steps: int = 0
    end: float = 0.0
    gamma: float = 0.1
    every: int = 1
    power: float = 1.0

    def __post_init__(self) -> None:
        """Check the values."""
        if self.kind not in SCHEDULES:
            raise BadOption(f"There is no schedule {self.kind!r}: choose {', '.join(SCHEDULES)}")
        limits = {"warmup": (self.warmup, 0), "steps": (self.steps, 0), "every": (self.every, 1)}
        for name, (value, least) in limits.items():
            if value < least:
                raise BadOption(
                    f"schedule {self.kind}: {name} is {value}; it has to be {least} or more"
                )
        for name in ("end", "gamma", "power"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise BadOption(
                    f"schedule {self.kind}: {name} is {value:g}; it has to be 0 or more"
                )

    @classmethod
    def parsed(cls, kind: str, options: Mapping[str, str]) -> Schedule:
        """Return the schedule of options as the command line has them.

        Raises
        ------
        BadOption
            When one is unknown, or its value is no number.
        """
        known = {f.name: f.default for f in fields(cls) if f.name != "kind"}
        stated: dict[str, float] = {}
        for name, text in options.items():
            if name not in known:
                raise BadOption(f"A schedule has no option {name!r}: it has {', '.join(known)}")
            number = int if isinstance(known[name], int) else float
            try:
                stated[name] = number(text)
            except ValueError:
                what = "a whole number" if number is int else "a number"
                raise BadOption(f"schedule: {name} is {text!r}; it has to be {what}") from None
        return cls(kind=kind, **stated)  # type: ignore[arg-type]  # checked by name

    @property
    def text(self) -> str:
        """It as the command line states it."""
        return stated(self.kind, self)

    def factor(self, step: int, n_steps: int) -> float:
        """Return what the rate is multiplied by.

        Parameters
        ----------
        step
            Number of the step, from 0.
        n_steps
            Steps of the whole training.
        """
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        after = step - self.warmup
        if self.kind == "exponential":
            return self.gamma**after
        if self.kind == "step":
            return self.gamma ** (after // self.every)
        if self.kind not in _WITH_STEPS:
            return 1.0
        length = self.steps or max(1, n_steps - self.warmup)
        done = min(1.0, after / length)
        if self.kind == "cosine":
            left = (1 + math.cos(math.pi * done)) / 2
        else:
            left = (1 - done) ** (self.power if self.kind == "polynomial" else 1)
        return self.end + (1 - self.end) * left
