"""Adam and its kin: AdamW, AdaMax, LAMB."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import State, Update, Value
from tilescope.engine.operators.elementwise.mapped import Expression, call, operand
from tilescope.engine.training.optimisers.descent import Descent
from tilescope.engine.training.optimisers.emission import Step, Tools
from tilescope.engine.training.optimisers.hyper import Number, Ranges, check_decay

__all__ = ["AdaMax", "Adam", "AdamW", "Lamb"]

# Before the name of a parameter, in those of its moments; and of the number of steps.
_FIRST, _SECOND, _STEPS = "Accl1___", "Accl2___", "Step___"  # Source: as for SGD

#: Logarithm of a moment's rate of 0: a power of it is 0 from the first step on.
_LOG_OF_NONE = -1e4


@dataclass(frozen=True, kw_only=True)
class _Moments(Descent):
    """What keeps a mean of gradients, m, and one of their sizes, v.

    Parameters
    ----------
    beta1, beta2
        Share of the means that stays from step to step.
    eps
        Keeps divisors away from 0.
    decay
        ``decoupled``: weights shrink apart from the gradient; ``l2``: the decay is part of it.
    bias_correction
        Whether means are corrected for their start at 0.
    """

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    decay: str = "l2"
    bias_correction: bool = True

    #: Whether v is a mean of squares.
    has_squares: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {
        "beta1": (0, 1, True),
        "beta2": (0, 1, True),
        "eps": (0, np.inf, False),
    }

    def check(self) -> None:
        """Refuse an unknown decay.

        Raises
        ------
        BadOption
            Says what is allowed.
        """
        check_decay(self.kind, self.decay)

    @property
    def _is_l2(self) -> bool:
        return self.computes("weight_decay") and self.decay == "l2"

    def numbers(self, factor: float) -> dict[str, Number]:
        """Return the numbers that the device computes with, by name."""
        numbers = {
            "beta1": Number(self.beta1, ("beta1",)),
            "firstFactor": Number(
                (1 - self.beta1) * (1 if self._is_l2 else factor),
                ("beta1",) if self._is_l2 else ("beta1", "loss_scaling"),
                0 if self._is_l2 else 1,
            ),
            "beta2": Number(self.beta2, ("beta2",)),
            "eps": Number(self.eps, ("eps",)),
            "rate": Number(self.lr, ("lr",)),
        }
        if self._is_l2:
            numbers["gradientFactor"] = Number(factor, ("loss_scaling",), 1)
            numbers["decayFactor"] = Number(self.weight_decay, ("weight_decay",))
        if self.bias_correction:
            numbers["logBeta1"] = Number(_log(self.beta1), ("beta1",))
        return numbers | self.own_numbers(factor)

    def own_numbers(self, factor: float) -> dict[str, Number]:
        """Return the numbers that others of the kind do not have."""
        del factor
        return {}

    def step(self, step: Step) -> list[Update]:
        """Emit the update of a parameter."""
        first = step.state(_FIRST)
        second = step.state(_SECOND, is_of_squares=self.has_squares)
        gradient = self._gradient(step)
        m = step.mapped(
            operand(0) * operand(2) + operand(1) * operand(3),
            step.wide(first),
            gradient,
            step.number("beta1"),
            step.number("firstFactor"),
        )
        v = self.sizes(step, second, gradient)
        updates = [step.update(first, m), step.update(second, v)]
        return [*updates, *self.moved(step, m, v)]

    def sizes(self, step: Step, second: State, gradient: Value) -> Value:
        """Emit v."""
        raise NotImplementedError

    def moved(self, step: Step, m: Value, v: Value) -> list[Update]:
        """Emit the update of the weight from both means."""
        raise NotImplementedError

    def _gradient(self, step: Step) -> Value:
        """Return the gradient; with l2, times its factor and with the decay in it."""
        if not self._is_l2:
            return step.gradient
        return step.mapped(
            operand(0) * operand(2) + operand(1) * operand(3),
            step.gradient,
            step.w,
            step.number("gradientFactor"),
            step.number("decayFactor"),
        )

    def steps(self, step: Step) -> Value:
        """Return the number of the step, from 1: one state for all weights of the same numbers."""

        def make(tools: Tools) -> tuple[tuple[Value, ...], list[Update]]:
            name = f"{_STEPS}{self.kind}{step.suffix}"
            counter = State(name, (), step.dtype, np.zeros((), step.dtype))
            following = tools.mapped(operand(0) + 1.0, counter)
            return (following,), [Update(counter, following)]

        return step.shared("steps", make)[0]

    def negative_rate(self, step: Step) -> Value:
        """Return the rate, negative and with the correction of m: −rate / (1 − beta1^t)."""

        def make(tools: Tools) -> tuple[tuple[Value, ...], list[Update]]:
            rate = step.number("rate")
            if not self.bias_correction:
                return (tools.mapped(-operand(0), rate),), []
            # expm1 keeps what 1 − beta1^t would lose.
            correction = call("expm1", operand(1) * operand(2))
            operands = rate, self.steps(step), step.number("logBeta1")
            return (tools.mapped(operand(0) / correction, *operands),), []

        return step.shared("rate", make)[0]


@dataclass(frozen=True, kw_only=True)
class Adam(_Moments):
    """Adam.

    With the gradient g of a weight w: m = beta1 · m + (1 − beta1) · g;
    v = beta2 · v + (1 − beta2) · g²; w = w − rate · m̂ / (√v̂ + eps), with m̂ = m / (1 − beta1^t) and
    v̂ = v / (1 − beta2^t) in step t. With ``decay=l2``, g has weight_decay · w in it; otherwise w
    shrinks by rate · weight_decay · w beside.

    Parameters
    ----------
    lr, beta1, beta2, eps, decay, bias_correction
        As above; what follows is in `Descent`.
    eps_is_corrected
        Whether eps is added to √v before the correction of both: the divisor is
        (√v + eps) / √(1 − beta2^t), the paper's epsilon hat.

    Notes
    -----
    Sources: https://arxiv.org/abs/1412.6980, https://arxiv.org/abs/1711.05101,
    https://pytorch.org/docs/stable/generated/torch.optim.Adam.html; epsilon hat:
    https://keras.io/api/optimizers/adam/
    """

    eps_is_corrected: bool = False

    kind: ClassVar[str] = "adam"
    source: ClassVar[str] = "Adam"

    def own_numbers(self, factor: float) -> dict[str, Number]:
        """Return the numbers of v and of the decay."""
        numbers = {
            "secondFactor": Number(
                (1 - self.beta2) * (1 if self._is_l2 else factor**2),
                ("beta2",) if self._is_l2 else ("beta2", "loss_scaling"),
                0 if self._is_l2 else 2,
            )
        }
        if self.bias_correction:
            numbers["logBeta2"] = Number(_log(self.beta2), ("beta2",))
        return numbers | self.decay_numbers()

    def decay_numbers(self) -> dict[str, Number]:
        """Return what a weight is multiplied by before its step."""
        if not self.computes("weight_decay") or self._is_l2:
            return {}
        kept = 1 - self.lr * self.weight_decay
        return {"keptFactor": Number(kept, ("lr", "weight_decay"))}

    def sizes(self, step: Step, second: State, gradient: Value) -> Value:
        """Emit v."""
        return step.mapped(
            operand(0) * operand(2) + call("square", operand(1)) * operand(3),
            step.wide(second),
            gradient,
            step.number("beta2"),
            step.number("secondFactor"),
        )

    def moved(self, step: Step, m: Value, v: Value) -> list[Update]:
        """Emit the update of the weight."""
        operands = [step.w, m, *self.divisor_operands(step, v), self.negative_rate(step)]
        w: Expression = operand(0)
        if "keptFactor" in self.decay_numbers():
            w = w * operand(len(operands))
            operands.append(step.number("keptFactor"))
        change = operand(1) * operand(5) / self.divisor()
        return [step.update(step.parameter, step.mapped(w + change, *operands))]

    def divisor(self) -> Expression:
        """Return √v̂ + eps of the operands from the third on, or (√v + eps) corrected."""
        if self.eps_is_corrected:
            return (call("sqrt", operand(2)) + operand(4)) * operand(3)
        return call("sqrt", operand(2)) * operand(3) + operand(4)

    def divisor_operands(self, step: Step, v: Value) -> list[Value]:
        """Return the operands of `divisor`: v, 1 / √(1 − beta2^t), and eps."""

        def make(tools: Tools) -> tuple[tuple[Value, ...], list[Update]]:
            if not self.bias_correction:
                return (tools.constant(1.0, "one", step.dtype),), []
            correction = -call("expm1", operand(0) * operand(1))
            operands = self.steps(step), step.number("logBeta2")
            return (tools.mapped(call("inverse", call("sqrt", correction)), *operands),), []

        return [v, step.shared("sizes", make)[0], step.number("eps")]


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """Adam whose weights shrink apart from the gradient; see `Adam`.

    Notes
    -----
    Source: https://pytorch.org/docs/stable/generated/torch.optim.AdamW.html
    """

    weight_decay: float = 1e-2
    decay: str = "decoupled"

    kind: ClassVar[str] = "adamw"
    source: ClassVar[str] = "AdamW"


@dataclass(frozen=True, kw_only=True)
class Lamb(Adam):
    """LAMB: Adam whose step has the size of the weight.

    With u = m̂ / (√v̂ + eps) + weight_decay · w, as in `Adam`: w = w − rate · min(‖w‖, most_norm) /
    ‖u‖ · u; where one of the norms is 0, w = w − rate · u.

    Parameters
    ----------
    most_norm
        What the norm of a weight counts as at most.

    Notes
    -----
    Sources: https://arxiv.org/abs/1904.00962; graphcore/popart, willow/include/popart/adam.hpp
    """

    eps: float = 1e-6
    decay: str = "decoupled"
    most_norm: float = np.inf

    kind: ClassVar[str] = "lamb"
    source: ClassVar[str] = "Lamb"

    def check(self) -> None:
        """Refuse what does not go together.

        Raises
        ------
        BadOption
            Says what is allowed.
        """
        super().check()
        if not self.most_norm > 0:
            raise BadOption(f"lamb: most_norm is {self.most_norm:g}; it has to be above 0")

    def decay_numbers(self) -> dict[str, Number]:
        """Return the decay, which is part of the step, and the largest norm."""
        numbers = {}
        if self.computes("weight_decay") and not self._is_l2:
            numbers["decayFactor"] = Number(self.weight_decay, ("weight_decay",))
        if np.isfinite(self.most_norm):
            numbers["mostNorm"] = Number(self.most_norm, ("most_norm",))
        return numbers

    def negative_rate(self, step: Step) -> Value:
        """Return the rate, negative; m is corrected in the step."""

        def make(tools: Tools) -> tuple[tuple[Value, ...], list[Update]]:
            return (tools.mapped(-operand(0), step.number("rate")),), []

        return step.shared("rate", make)[0]

    def moved(self, step: Step, m: Value, v: Value) -> list[Update]:
        """Emit the update of the weight."""
        operands = [step.w, m, *self.divisor_operands(step, v), self._first_correction(step)]
        u = operand(1) * operand(5) / self.divisor()
        if "decayFactor" in self.decay_numbers():
            u = u + operand(0) * operand(6)
            operands.append(step.number("decayFactor"))
        change = step.mapped(u, *operands)
        of_w, of_u = call("sqrt", operand(0)), call("sqrt", operand(1))
        rates = [step.square_sum(step.w), step.square_sum(change), self.negative_rate(step)]
        if "mostNorm" in self.decay_numbers():
            of_w = call("minimum", of_w, operand(3))
            rates.append(step.number("mostNorm"))
        # Neither norm is 0 where their product is not; that of squares would underflow sooner.
        is_none = call("logical_or", call("equal", operand(0), 0.0), call("equal", operand(1), 0.0))
        ratio = call("select", 1.0, of_w / of_u, is_none)
        return [step.moved(change, step.mapped(ratio * operand(2), *rates))]

    def _first_correction(self, step: Step) -> Value:
        """Return 1 / (1 − beta1^t)."""

        def make(tools: Tools) -> tuple[tuple[Value, ...], list[Update]]:
            if not self.bias_correction:
                return (tools.constant(1.0, "one", step.dtype),), []
            correction = -call("expm1", operand(0) * operand(1))
            operands = self.steps(step), step.number("logBeta1")
            return (tools.mapped(call("inverse", correction), *operands),), []

        return step.shared("first", make)[0]


@dataclass(frozen=True, kw_only=True)
class AdaMax(_Moments):
    """AdaMax: Adam by the largest gradient instead of the mean of squares.

    As `Adam`, with v = max(beta2 · v, |g| + eps) and w = w − rate · m̂ / v.

    Parameters
    ----------
    has_late_eps
        Whether eps is added to v where it divides, instead of to |g|: PopART's form.

    Notes
    -----
    Sources: https://arxiv.org/abs/1412.6980,
    https://pytorch.org/docs/stable/generated/torch.optim.Adamax.html; the other form:
    graphcore/popart, willow/include/popart/adam.hpp
    """

    lr: float = 2e-3
    has_late_eps: bool = False

    kind: ClassVar[str] = "adamax"
    source: ClassVar[str] = "AdaMax"
    has_squares: ClassVar[bool] = False

    def own_numbers(self, factor: float) -> dict[str, Number]:
        """Return the factor of the gradient's size, and of the weight."""
        numbers = {}
        if not self._is_l2:
            numbers["sizeFactor"] = Number(factor, ("loss_scaling",), 1)
        if self.computes("weight_decay") and not self._is_l2:
            kept = 1 - self.lr * self.weight_decay
            numbers["keptFactor"] = Number(kept, ("lr", "weight_decay"))
        return numbers

    def sizes(self, step: Step, second: State, gradient: Value) -> Value:
        """Emit v."""
        size = call("absolute", operand(1))
        operands = [step.wide(second), gradient, step.number("beta2")]
        if not self._is_l2:
            size = size * operand(len(operands))
            operands.append(step.number("sizeFactor"))
        if not self.has_late_eps:
            size = size + operand(len(operands))
            operands.append(step.number("eps"))
        return step.mapped(call("maximum", operand(0) * operand(2), size), *operands)

    def moved(self, step: Step, m: Value, v: Value) -> list[Update]:
        """Emit the update of the weight."""
        operands = [step.w, m, v, self.negative_rate(step)]
        w, divisor = operand(0), operand(2)
        if self.has_late_eps:
            divisor = divisor + operand(len(operands))
            operands.append(step.number("eps"))
        if self.computes("weight_decay") and not self._is_l2:
            w = w * operand(len(operands))
            operands.append(step.number("keptFactor"))
        moved = step.mapped(w + operand(1) * operand(3) / divisor, *operands)
        return [step.update(step.parameter, moved)]


def _log(beta: float) -> float:
    return math.log(beta) if beta > 0 else _LOG_OF_NONE
