"""Stochastic gradient descent, with momentum, dampening, Nesterov's form and weight decay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import Emitter, Parameter, State, Update, Value
from tilescope.engine.ir.held import representable
from tilescope.engine.operators.elementwise.mapped import (
    MAP,
    SCALED_ADD,
    Expression,
    operand,
)

__all__ = ["Sgd"]

#: Before the name of a parameter, in that of its velocity.
_VELOCITY = "Accl___"  # Source: graphcore/popart, willow/include/popart/names.hpp


#: Least and largest values of hyper-parameters.
_RANGES: Mapping[str, tuple[float, float]] = {
    "lr": (0, np.inf),
    "momentum": (0, 1),
    "dampening": (0, 1),
    "weight_decay": (0, np.inf),
}


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Stochastic gradient descent.

    With the gradient g of a weight w and its velocity v, zero at first: d = g + decay · w;
    v = momentum · v + (1 − dampening) · d; w = w − rate · v, or with Nesterov's form
    w − rate · (d + momentum · v). Without momentum, w = w − rate · (1 − dampening) · d.

    Parameters
    ----------
    lr
        The rate.
    momentum, dampening, weight_decay
        As above.
    nesterov
        Whether to use Nesterov's form; it needs momentum.
    loss_scaling
        What gradients are multiplied by until they change weights, so that those of halves do not
        vanish.
    is_constant
        Whether the host leaves the numbers as they are: they are constants of the program then.

    Raises
    ------
    BadOption
        When a value is out of range.

    Notes
    -----
    PyTorch's first step takes no dampening: with dampening, the first steps differ.
    Source: https://pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """

    lr: float
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    loss_scaling: float = 1.0
    is_constant: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not (np.isfinite(value) and low <= value <= high):
                limit = f"from {low:g} to {high:g}" if np.isfinite(high) else f"{low:g} or more"
                raise BadOption(f"sgd: {name} is {value:g}; it has to be {limit}")
        if not (np.isfinite(self.loss_scaling) and self.loss_scaling > 0):
            raise BadOption(f"sgd: loss_scaling is {self.loss_scaling:g}; it has to be above 0")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise BadOption("sgd: nesterov needs a momentum above 0 and no dampening")

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.lr

    @classmethod
    def parsed(cls, options: Mapping[str, str]) -> Sgd:
        """Return the optimiser of options as the command line has them.

        Raises
        ------
        BadOption
            When one is unknown, or its value is no number.
        """
        names = [field.name for field in fields(cls)]
        stated: dict[str, Any] = {}
        for name, text in options.items():
            if name not in names:
                raise BadOption(f"sgd has no option {name!r}: it has {', '.join(names)}")
            if name in ("nesterov", "is_constant"):
                if text.lower() not in ("true", "false"):
                    raise BadOption(f"sgd: {name} is {text!r}; it has to be true or false")
                stated[name] = text.lower() == "true"
                continue
            try:
                stated[name] = float(text)
            except ValueError:
                raise BadOption(f"sgd: {name} is {text!r}; it has to be a number") from None
        if "lr" not in stated:
            raise BadOption("sgd needs a rate: write sgd:lr=0.01")
        return cls(**stated)

    def settings(self, factor: float) -> dict[str, float]:
        """Return the numbers that the device computes with, by name.

        Parameters
        ----------
        factor
            What a sum of gradients is multiplied by.
        """
        rest = 1 - self.dampening
        if self.momentum == 0:
            return {
                "negativeScaledRate": -self.lr * rest * factor,
                "decayFactor": 1 - self.lr * rest * self.weight_decay,
            }
        return {
            "negativeRate": -self.lr,
            "momentum": self.momentum,
            "gradientFactor": rest * factor,
            "decayFactor": rest * self.weight_decay,
        }

    def updates(
        self, builder: Emitter, gradients: Mapping[Parameter, Value], factor: float
    ) -> list[Update]:
        """Emit what changes the parameters; see `tilescope.engine.ir.Optimiser`."""
        numbers = self.settings(factor)
        values: dict[tuple[str, str], Value] = {}

        def setting(name: str, dtype: str) -> Value:
            key = name, dtype
            if key not in values:
                array = representable(name, numbers[name], dtype)
                values[key] = (
                    builder.constant(array, name)
                    if self.is_constant
                    else State(f"{name}___{dtype}", (), dtype, array, is_setting=True)
                )
            return values[key]

        updates = []
        for parameter, gradient in gradients.items():
            step = _Step(builder, parameter, gradient, setting)
            updates += step.with_momentum(self) if self.momentum else step.plain(self)
        return updates


class _Step:
    """The update of one parameter."""

    def __init__(self, builder: Emitter, parameter: Parameter, gradient: Value, setting: Any):
        self.builder, self.parameter, self.gradient = builder, parameter, gradient
        self._setting = setting

    def plain(self, sgd: Sgd) -> list[Update]:
        """Return the update without momentum."""
        w: Value = self.parameter
        if sgd.weight_decay:
            w = self._mapped(operand(0) * operand(1), [w, self._number("decayFactor")])
        return [Update(self.parameter, self._moved(w, self.gradient, "negativeScaledRate"))]

    def with_momentum(self, sgd: Sgd) -> list[Update]:
        """Return the updates of the velocity and of the parameter."""
        w, gradient = self.parameter, self.gradient
        velocity = State(_VELOCITY + w.name, w.shape, w.dtype, np.zeros(w.shape, w.dtype), like=w)
        numbers = [self._number("momentum"), self._number("gradientFactor")]
        operands = [velocity, gradient, *numbers]
        expression = operand(0) * operand(2) + operand(1) * operand(3)
        if sgd.weight_decay:
            operands += [w, self._number("decayFactor")]
            expression = expression + operand(4) * operand(5)
        moved = self._mapped(expression, operands)
        step: Value = moved
        if sgd.nesterov:
            ahead = operand(1) * operand(3) + operand(0) * operand(2)
            if sgd.weight_decay:
                ahead = ahead + operand(4) * operand(5)
            step = self._mapped(ahead, [moved, *operands[1:]])
        return [Update(velocity, moved), Update(w, self._moved(w, step, "negativeRate"))]

    def _number(self, name: str) -> Value:
        number: Value = self._setting(name, self.parameter.dtype)
        return number

    def _mapped(self, expression: Expression, operands: Sequence[Value]) -> Value:
        return self._emit(MAP, operands, expression=expression)

    def _moved(self, w: Value, step: Value, rate: str) -> Value:
        return self._emit(SCALED_ADD, [w, step, self._number(rate)])

    def _emit(self, operator: Any, operands: Sequence[Value], **attributes: Any) -> Value:
        name = f"Update/{self.parameter.name}"
        return self.builder.emit(operator, operands, name=name, source="SGD", **attributes)
