"""Stochastic gradient descent, with momentum, dampening, Nesterov's form and weight decay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import Parameter, State, Update, Value
from tilescope.engine.operators.elementwise.mapped import SCALED_ADD, operand
from tilescope.engine.training.optimisers.descent import Descent
from tilescope.engine.training.optimisers.emission import Step
from tilescope.engine.training.optimisers.hyper import Number, Ranges

__all__ = ["Sgd"]

#: Before the name of a parameter, in that of its velocity.
_VELOCITY = "Accl___"  # Source: graphcore/popart, willow/include/popart/names.hpp


@dataclass(frozen=True, kw_only=True)
class Sgd(Descent):
    """Stochastic gradient descent.

    With the gradient g of a weight w and its velocity v, zero at first: d = g + decay · w;
    v = momentum · v + (1 − dampening) · d; w = w − rate · v, or with Nesterov's form
    w − rate · (d + momentum · v). Without momentum, w = w − rate · (1 − dampening) · d.

    Parameters
    ----------
    lr, weight_decay
        As above; what follows is in `Descent`.
    momentum, dampening
        As above.
    nesterov
        Whether to use Nesterov's form; it needs momentum.
    is_combined
        Whether gradients of micro-batches are added to the velocity itself, which saves the memory
        of their sum; it needs momentum.

    Raises
    ------
    BadOption
        When a value is out of range.

    Notes
    -----
    PyTorch's first step takes no dampening: with dampening, the first steps differ.
    Source: https://pytorch.org/docs/stable/generated/torch.optim.SGD.html; the combined form:
    graphcore/popart, willow/include/popart/sgd.hpp
    """

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    is_combined: bool = False

    kind: ClassVar[str] = "sgd"
    source: ClassVar[str] = "SGD"
    ranges: ClassVar[Ranges] = {"momentum": (0, 1, False), "dampening": (0, 1, False)}

    def check(self) -> None:
        """Refuse what does not go together.

        Raises
        ------
        BadOption
            Says what is allowed.
        """
        if self.nesterov and (not self.computes("momentum") or self.dampening != 0):
            raise BadOption("sgd: nesterov needs a momentum above 0 and no dampening")
        if self.is_combined and (not self.computes("momentum") or self.nesterov):
            raise BadOption("sgd: is_combined needs a momentum above 0, and no nesterov")
        has_clipping = self.clip_norm or self.clip_groups or self.clip_value
        if self.is_combined and (has_clipping or self.scaling is not None):
            raise BadOption(
                "sgd: is_combined leaves no sum of gradients that could be clipped, or tell the"
                " loss scaling: leave it out"
            )

    def computed_in(self, dtype: str) -> str:
        """Return the type of the weight, or float32 where states or sums have it."""
        return "float32" if "float32" in (self.state_dtype, self.sum_dtype) else dtype

    @property
    def keeps_states(self) -> bool:
        """Whether it has momentum."""
        return self.computes("momentum")

    def numbers(self, factor: float) -> dict[str, Number]:
        """Return the numbers that the device computes with, by name."""
        rest = 1 - self.dampening
        of_gradient = ("dampening", "loss_scaling")
        if not self.computes("momentum"):
            rate = Number(-self.lr * rest * factor, ("lr", *of_gradient), 1)
            numbers = {"negativeScaledRate": rate}
            decay = 1 - self.lr * rest * self.weight_decay
            made_of: tuple[str, ...] = ("lr", "dampening", "weight_decay")
        else:
            numbers = {
                "negativeRate": Number(-self.lr, ("lr",)),
                "momentum": Number(self.momentum, ("momentum",)),
                "gradientFactor": Number(rest * factor, of_gradient, 1),
            }
            decay = rest * self.weight_decay
            made_of = ("dampening", "weight_decay")
        if self.computes("weight_decay"):
            numbers["decayFactor"] = Number(decay, made_of)
        return numbers

    def step(self, step: Step) -> list[Update]:
        """Emit the update of a parameter."""
        if not self.computes("momentum"):
            return [self._plain(step)]
        return self._combined(step) if self.is_combined else self._with_momentum(step)

    def sum_of(self, parameter: Parameter) -> State:
        """Return the velocity in the combined form, and a state of its own otherwise."""
        if not self.is_combined:
            return super().sum_of(parameter)
        return self._velocity(parameter, self.state_dtype or self.computed_in(parameter.dtype))

    @property
    def added_by(self) -> str:
        """Name of the number that gradients are multiplied by when they are added to the sum."""
        return "gradientFactor" if self.is_combined else ""

    def _plain(self, step: Step) -> Update:
        w = step.w
        if self.computes("weight_decay"):
            w = step.mapped(operand(0) * operand(1), w, step.number("decayFactor"))
        rate = step.number("negativeScaledRate")
        return step.update(step.parameter, step.emit(SCALED_ADD, [w, step.gradient, rate]))

    def _with_momentum(self, step: Step) -> list[Update]:
        velocity = step.state(_VELOCITY)
        operands: list[Value] = [step.wide(velocity), step.gradient]
        operands += [step.number("momentum"), step.number("gradientFactor")]
        expression = operand(0) * operand(2) + operand(1) * operand(3)
        if self.computes("weight_decay"):
            operands += [step.w, step.number("decayFactor")]
            expression = expression + operand(4) * operand(5)
        moved = step.mapped(expression, *operands)
        change = moved
        if self.nesterov:
            ahead = operand(1) * operand(3) + operand(0) * operand(2)
            if self.computes("weight_decay"):
                ahead = ahead + operand(4) * operand(5)
            change = step.mapped(ahead, moved, *operands[1:])
        return [step.update(velocity, moved), step.moved(change, step.number("negativeRate"))]

    def _combined(self, step: Step) -> list[Update]:
        """Emit w − rate · v, and what v is before the next gradients: momentum · v + decay · w."""
        velocity = step.summed
        moved = step.moved(step.gradient, step.number("negativeRate"))
        operands: list[Value] = [step.gradient, step.number("momentum")]
        expression = operand(0) * operand(1)
        if self.computes("weight_decay"):
            operands += [step.cast(moved.value, step.dtype), step.number("decayFactor")]
            expression = expression + operand(2) * operand(3)
        if step.share != 1:
            expression = expression * step.share
        return [moved, step.update(velocity, step.mapped(expression, *operands))]

    def _velocity(self, parameter: Parameter, dtype: str) -> State:
        """Return the velocity of the combined form, which has the decay of the next step in it."""
        decay = (1 - self.dampening) * self.weight_decay
        start = (decay * parameter.array.astype(np.float64)).astype(dtype)
        return State(_VELOCITY + parameter.name, parameter.shape, dtype, start, like=parameter)
