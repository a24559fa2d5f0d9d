"""Rates by weight, from the sizes of past gradients: Adagrad, RMSProp, AdaDelta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilescope.engine.ir import State, Update, Value
from tilescope.engine.operators.elementwise.mapped import Expression, call, operand
from tilescope.engine.training.optimisers.descent import Descent
from tilescope.engine.training.optimisers.emission import Step, Tools
from tilescope.engine.training.optimisers.hyper import Number, Ranges, check_decay

__all__ = ["AdaDelta", "Adagrad", "RmsProp"]

# Before the name of a parameter, in those of its states; and of the number of steps.
_FIRST, _SECOND, _THIRD = "Accl1___", "Accl2___", "Accl3___"  # Source: as for SGD
_STEPS = "Step___"


@dataclass(frozen=True, kw_only=True)
class _Adaptive(Descent):
    """What divides gradients by the root of a mean of their squares, v.

    Parameters
    ----------
    eps
        Keeps divisors away from 0.
    momentum
        Share of the last step that is added to the next; 0 for none.
    decay
        ``decoupled``: weights shrink apart from the gradient; ``l2``: the decay is part of it.
    """

    eps: float = 1e-8
    momentum: float = 0.0
    decay: str = "l2"

    ranges: ClassVar[Ranges] = {"eps": (0, np.inf, False), "momentum": (0, 1, False)}

    def check(self) -> None:
        """Refuse an unknown decay.

        Raises
        ------
        BadOption
            Says what is allowed.
        """
        check_decay(self.kind, self.decay)

    def numbers(self, factor: float) -> dict[str, Number]:
        """Return the numbers that the device computes with, by name."""
        numbers = {
            "gradientFactor": Number(factor, ("loss_scaling",), 1),
            "eps": Number(self.eps, ("eps",)),
            "negativeRate": Number(-self.lr, ("lr",)),
        }
        if self.computes("momentum"):
            numbers["momentum"] = Number(self.momentum, ("momentum",))
        if self.computes("weight_decay") and self.decay == "l2":
            numbers["decayFactor"] = Number(self.weight_decay, ("weight_decay",))
        elif self.computes("weight_decay"):
            has_rate = not (self.has_rate_inside and self.computes("momentum"))
            kept = 1 - (self.lr if has_rate else 1.0) * self.weight_decay
            made_of = ("lr", "weight_decay") if has_rate else ("weight_decay",)
            numbers["keptFactor"] = Number(kept, made_of)
        return numbers | self.own_numbers()

    def own_numbers(self) -> dict[str, Number]:
        """Return the numbers that others of the kind do not have."""
        return {}

    def step(self, step: Step) -> list[Update]:
        """Emit the update of a parameter."""
        gradient = self._gradient(step)
        change, updates = self.change(step, gradient)
        rate = self.negative_rate(step)
        if self.computes("momentum"):
            third = step.state(_THIRD)
            operands = [step.wide(third), change, step.number("momentum")]
            moving: Expression = operand(1)
            if self.has_rate_inside:
                moving = moving * operand(3)
                operands.append(rate)
            change = step.mapped(operand(0) * operand(2) + moving, *operands)
            updates.append(step.update(third, change))
            if self.has_rate_inside:
                rate = step.constant(1.0, "one", step.dtype)
        if not self.computes("weight_decay") or self.decay == "l2":
            return [*updates, step.moved(change, rate)]
        expression = operand(0) * operand(3) + operand(1) * operand(2)
        moved = step.mapped(expression, step.w, change, rate, step.number("keptFactor"))
        return [*updates, step.update(step.parameter, moved)]

    @property
    def has_rate_inside(self) -> bool:
        """Whether the momentum is of steps that have the rate in them."""
        return False

    def change(self, step: Step, gradient: Value) -> tuple[Value, list[Update]]:
        """Emit what a weight changes by, without the rate, and the updates of states."""
        raise NotImplementedError

    def negative_rate(self, step: Step) -> Value:
        """Return the rate, negative."""
        return step.number("negativeRate")

    def _gradient(self, step: Step) -> Value:
        """Emit the gradient times its factor, with the decay in it where that is l2."""
        operands = [step.gradient, step.number("gradientFactor")]
        expression = operand(0) * operand(1)
        if self.computes("weight_decay") and self.decay == "l2":
            operands += [step.w, step.number("decayFactor")]
            expression = expression + operand(2) * operand(3)
        return step.mapped(expression, *operands)


def _mean(
    step: Step, state: State, gradient: Value, *, is_of_squares: bool, share: str, rest: str
) -> Value:
    """Emit a running mean of a gradient or of its squares."""
    new = call("square", operand(1)) if is_of_squares else operand(1)
    expression = operand(0) * operand(2) + new * operand(3)
    return step.mapped(
        expression, step.wide(state), gradient, step.number(share), step.number(rest)
    )


@dataclass(frozen=True, kw_only=True)
class Adagrad(_Adaptive):
    """Adagrad.

    With the gradient g of a weight w: v = v + g²; w = w − rate / (1 + (t − 1) · lr_decay) · g /
    (√v + eps) in step t.

    Parameters
    ----------
    lr_decay
        How the rate falls.
    initial
        What v starts as.

    Notes
    -----
    Sources: https://pytorch.org/docs/stable/generated/torch.optim.Adagrad.html;
    graphcore/popart, willow/include/popart/adaptive.hpp
    """

    lr: float = 1e-2
    eps: float = 1e-10
    lr_decay: float = 0.0
    initial: float = 0.0

    kind: ClassVar[str] = "adagrad"
    source: ClassVar[str] = "Adagrad"
    ranges: ClassVar[Ranges] = {
        **_Adaptive.ranges,
        "lr_decay": (0, np.inf, False),
        "initial": (0, np.inf, False),
    }

    def own_numbers(self) -> dict[str, Number]:
        """Return the decay of the rate."""
        return {"rateDecay": Number(self.lr_decay, ("lr_decay",))} if self.lr_decay else {}

    def change(self, step: Step, gradient: Value) -> tuple[Value, list[Update]]:
        """Emit g / (√v + eps)."""
        state = step.state(_FIRST, self.initial, is_of_squares=True)
        v = step.mapped(operand(0) + call("square", operand(1)), step.wide(state), gradient)
        divisor = call("sqrt", operand(1)) + operand(2)
        change = step.mapped(operand(0) / divisor, gradient, v, step.number("eps"))
        return change, [step.update(state, v)]

    def negative_rate(self, step: Step) -> Value:
        """Return the rate of the step, negative."""
        if not self.lr_decay:
            return super().negative_rate(step)

        def make(tools: Tools) -> tuple[tuple[Value, ...], list[Update]]:
            name = f"{_STEPS}{self.kind}{step.suffix}"
            counter = State(name, (), step.dtype, np.zeros((), step.dtype))
            rate = tools.mapped(
                operand(0) / (operand(1) * operand(2) + 1.0),
                step.number("negativeRate"),
                counter,
                step.number("rateDecay"),
            )
            return (rate,), [Update(counter, tools.mapped(operand(0) + 1.0, counter))]

        return step.shared("rate", make)[0]


@dataclass(frozen=True, kw_only=True)
class RmsProp(_Adaptive):
    """RMSProp.

    With the gradient g of a weight w: v = alpha · v + (1 − alpha) · g²; x = g / (√v + eps), where
    `is_centered` takes the square of the mean gradient off v; with momentum,
    b = momentum · b + x and w = w − rate · b, otherwise w = w − rate · x.

    Parameters
    ----------
    alpha
        Share of v that stays from step to step.
    is_centered
        As above.
    is_tensorflow
        Whether v starts at 1, eps is added to it before the root is taken, and b has the rate in
        it: the form of TensorFlow. With momentum, decoupled decay shrinks weights without the rate.
    initial
        What v starts at in place of that; None for the start of the form.

    Notes
    -----
    Sources: https://pytorch.org/docs/stable/generated/torch.optim.RMSprop.html;
    graphcore/popart, willow/include/popart/adaptive.hpp
    """

    lr: float = 1e-2
    alpha: float = 0.99
    is_centered: bool = False
    is_tensorflow: bool = False
    initial: float | None = None

    kind: ClassVar[str] = "rmsprop"
    source: ClassVar[str] = "RMSProp"
    ranges: ClassVar[Ranges] = {**_Adaptive.ranges, "alpha": (0, 1, False)}

    def own_numbers(self) -> dict[str, Number]:
        """Return the shares of old and new gradients."""
        return {
            "alpha": Number(self.alpha, ("alpha",)),
            "restOfAlpha": Number(1 - self.alpha, ("alpha",)),
        }

    @property
    def has_rate_inside(self) -> bool:
        """Whether the momentum is of steps that have the rate in them."""
        return self.is_tensorflow

    def change(self, step: Step, gradient: Value) -> tuple[Value, list[Update]]:
        """Emit x."""
        shares = {"share": "alpha", "rest": "restOfAlpha"}
        start = float(self.is_tensorflow) if self.initial is None else self.initial
        state = step.state(_FIRST, start, is_of_squares=True)
        v = _mean(step, state, gradient, is_of_squares=True, **shares)
        updates, operands = [step.update(state, v)], [gradient, v, step.number("eps")]
        size: Expression = operand(1)
        if self.is_centered:
            centre = step.state(_SECOND, is_of_squares=True)
            mean = _mean(step, centre, gradient, is_of_squares=False, **shares)
            updates.append(step.update(centre, mean))
            size = size - call("square", operand(3))
            operands.append(mean)
        if self.is_tensorflow:
            divisor = call("sqrt", size + operand(2))
        else:
            divisor = call("sqrt", size) + operand(2)
        return step.mapped(operand(0) / divisor, *operands), updates


@dataclass(frozen=True, kw_only=True)
class AdaDelta(_Adaptive):
    """AdaDelta.

    With the gradient g of a weight w: v = rho · v + (1 − rho) · g²;
    x = g · √(d + eps) / √(v + eps); d = rho · d + (1 − rho) · x²; w = w − rate · x.

    Parameters
    ----------
    rho
        Share of v and d that stays from step to step.

    Notes
    -----
    Sources: https://pytorch.org/docs/stable/generated/torch.optim.Adadelta.html;
    graphcore/popart, willow/include/popart/adaptive.hpp
    """

    lr: float = 1.0
    eps: float = 1e-6
    rho: float = 0.9

    kind: ClassVar[str] = "adadelta"
    source: ClassVar[str] = "AdaDelta"
    ranges: ClassVar[Ranges] = {**_Adaptive.ranges, "rho": (0, 1, False)}

    def own_numbers(self) -> dict[str, Number]:
        """Return the shares of old and new gradients."""
        return {
            "rho": Number(self.rho, ("rho",)),
            "restOfRho": Number(1 - self.rho, ("rho",)),
        }

    def change(self, step: Step, gradient: Value) -> tuple[Value, list[Update]]:
        """Emit x."""
        shares = {"share": "rho", "rest": "restOfRho"}
        of_gradients = step.state(_FIRST, is_of_squares=True)
        of_changes = step.state(_SECOND, is_of_squares=True)
        v = _mean(step, of_gradients, gradient, is_of_squares=True, **shares)
        x = step.mapped(
            operand(0)
            * call("sqrt", operand(2) + operand(3))
            / call("sqrt", operand(1) + operand(3)),
            gradient,
            v,
            step.wide(of_changes),
            step.number("eps"),
        )
        d = _mean(step, of_changes, x, is_of_squares=True, **shares)
        return x, [step.update(of_gradients, v), step.update(of_changes, d)]
