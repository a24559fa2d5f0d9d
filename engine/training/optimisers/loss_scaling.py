"""Automatic loss scaling: the device chooses the factor from the sizes of the gradients.

The rule is that of PopART's automatic loss scaling: gradients beyond a part of the range of half
are counted; where they are more than a share of all, the factor is halved, otherwise it is doubled.
Source: graphcore/popart, willow/src/transforms/automaticlossscaling.cpp. It has an addition: a step
whose gradients are infinite or no numbers changes no weight, halves the factor at once, and is
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import State, Update, Value
from tilescope.engine.operators.elementwise.choice import SELECT
from tilescope.engine.operators.elementwise.elementwise import BINARY
from tilescope.engine.operators.elementwise.mapped import call, operand
from tilescope.engine.training.optimisers.emission import Tools

__all__ = ["OVERFLOWS", "AutomaticScaling", "Scaler"]

#: Name of the state that counts the steps that were left out.
OVERFLOWS = "lossScalingOverflows"

_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, kw_only=True)
class AutomaticScaling:
    """How the device chooses the loss scaling.

    Parameters
    ----------
    initial
        The factor of the first step.
    period
        Steps from one change to the next.
    edge
        Part of the largest number of half from which a gradient counts as large.
    share
        Share of large gradients beyond which the factor is halved.
    is_of_last
        Whether the gradients of the step before a change decide alone, and the first step is
        followed by one: PopART's form. Otherwise all steps since the last change do.
    least, most
        What it stays between.

    Raises
    ------
    BadOption
        When a value is out of range.
    """

    initial: float = 2.0**10
    period: int = 8
    edge: float = 0.125
    share: float = 1e-7
    is_of_last: bool = False
    least: float = 1.0
    most: float = 2.0**15

    def __post_init__(self) -> None:
        """Check the values."""
        if not 0 < self.least <= self.initial <= self.most < np.inf:
            raise BadOption(
                f"automatic loss scaling starts at {self.initial:g}, which has to lie between its"
                f" least and most, {self.least:g} and {self.most:g}"
            )
        if self.period < 1:
            raise BadOption(
                f"automatic loss scaling: period is {self.period}; it has to be 1 or more"
            )
        if not 0 <= self.edge <= 1 or not 0 <= self.share <= 1:
            raise BadOption(
                f"automatic loss scaling: edge is {self.edge:g} and share {self.share:g}; they have"
                " to lie between 0 and 1"
            )


class Scaler:
    """The states of automatic loss scaling, and how they change."""

    def __init__(self, settings: AutomaticScaling) -> None:
        self.settings = settings
        self.factor = _scalar("lossScaling", settings.initial)
        self._large = _scalar("lossScalingLarge", 0.0)
        self._steps = _scalar(
            "lossScalingSteps", settings.period - 1 if settings.is_of_last else 0.0
        )
        self._overflows = _scalar(OVERFLOWS, 0.0)

    def inverse(self, tools: Tools) -> Value:
        """Emit what gradients are multiplied by to undo the factor."""
        return tools.mapped(call("inverse", operand(0)), self.factor)

    def changes(
        self,
        tools: Tools,
        gradients: Sequence[Value],
        n_elements: int,
        total: Callable[[Sequence[Value]], Value],
    ) -> tuple[list[Update], Value]:
        """Emit what becomes of the states; return it, and whether all gradients are numbers.

        Parameters
        ----------
        tools
            Emits it.
        gradients
            Before the factor is undone, or a shard of them.
        n_elements
            Of all gradients.
        total
            Emits the sum of a scalar of every gradient, of all shards.
        """
        x = operand(0)
        large: list[Value] = []
        lost: list[Value] = []
        for gradient in gradients:
            limit = float(np.finfo(gradient.dtype).max)
            size = call("absolute", x)
            # Comparisons with what is no number do not hold.
            for counts, bound in ((large, self.settings.edge * _HALF), (lost, limit)):
                mark = call("select", 0.0, 1.0, call("less_equal", size, bound))
                counts.append(tools.sum(tools.cast(tools.mapped(mark, gradient), "float32")))
        n_large, n_lost = total(large), total(lost)
        is_lost = call("greater", operand(1), 0.0)
        n_steps = 1 if self.settings.is_of_last else self.settings.period
        all_large = n_large
        if not self.settings.is_of_last:
            all_large = tools.mapped(operand(0) + operand(1), self._large, n_large)
        steps = tools.mapped(operand(0) + 1.0, self._steps)
        most_large = self.settings.share * n_elements * n_steps
        is_over = call("greater_equal", operand(2), float(self.settings.period))
        halved = call("maximum", operand(0) * 0.5, self.settings.least)
        doubled = call("minimum", operand(0) * 2.0, self.settings.most)
        chosen = call("select", halved, doubled, call("greater", operand(3), most_large))
        chosen = call("select", chosen, operand(0), is_over)
        factor = tools.mapped(
            call("select", halved, chosen, is_lost), self.factor, n_lost, steps, all_large
        )
        begins = call("logical_or", is_lost, is_over)
        again = call("select", 0.0, operand(0), begins)
        overflows = tools.mapped(
            operand(0) + call("select", 1.0, 0.0, is_lost), self._overflows, n_lost
        )
        zero = tools.constant(0.0, "zero")
        is_fine = tools.emit(BINARY, [n_lost, zero], function="equal")
        return [
            Update(self.factor, factor),
            Update(self._large, tools.mapped(again, all_large, n_lost, steps)),
            Update(self._steps, tools.mapped(again, steps, n_lost, steps)),
            Update(self._overflows, overflows),
        ], is_fine

    @staticmethod
    def guarded(tools: Tools, update: Update, is_fine: Value) -> Update:
        """Return an update that leaves its value as it is unless all gradients are numbers."""
        return Update(update.held, tools.emit(SELECT, [is_fine, update.value, update.held]))


def _scalar(name: str, value: float) -> State:
    return State(name, (), "float32", np.asarray(value, np.float32))
