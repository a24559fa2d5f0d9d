"""What optimisers emit: their numbers, states and updates, in the operator graph."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tilescope.engine.ir import (
    Emitter,
    Expansion,
    Node,
    Operator,
    Parameter,
    State,
    Update,
    Value,
)
from tilescope.engine.ir.held import representable
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.elementwise import UNARY
from tilescope.engine.operators.elementwise.mapped import MAP, SCALED_ADD, Expression, call, operand
from tilescope.engine.operators.elementwise.rounding import STOCHASTIC_CAST
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.reduction import reduced
from tilescope.engine.training.optimisers.hyper import Number

__all__ = ["Numbers", "OfAll", "Shared", "Step", "Tools"]

#: Type of what is computed of numbers on the device.
_WIDE = "float32"


class Tools:
    """Emits operations in the name of an update.

    Parameters
    ----------
    builder
        Takes them.
    name
        Their name in reports.
    source
        Their type in reports: that of the optimiser.
    """

    def __init__(self, builder: Emitter, name: str, source: str) -> None:
        self.builder, self.name, self.source = builder, name, source

    def emit(self, operator: Operator, operands: Sequence[Value], **attributes: Any) -> Value:
        """Emit an operation."""
        return self.builder.emit(
            operator, operands, name=self.name, source=self.source, **attributes
        )

    def mapped(self, expression: Expression, *operands: Value) -> Value:
        """Emit an expression over operands of one type."""
        return self.emit(MAP, operands, expression=expression)

    def cast(self, value: Value, dtype: str) -> Value:
        """Return a value in a type."""
        return value if value.dtype == dtype else self.emit(CAST, [value], dtype=dtype)

    def constant(self, values: ArrayLike, name: str, dtype: str = _WIDE) -> Value:
        """Return a constant."""
        return self.builder.constant(np.asarray(values, dtype), name)

    def square_sum(self, value: Value) -> Value:
        """Emit the sum of the squares of a tensor: a scalar of float32."""
        return self._reduced("square_sum", self.cast(value, _WIDE))

    def sum(self, value: Value) -> Value:
        """Emit the sum of a tensor: a scalar of its type."""
        return self._reduced("sum", value)

    def total(self, scalars: Sequence[Value]) -> Value:
        """Emit the sum of scalars."""
        rest = [*scalars]
        while len(rest) > 1:
            chunk, rest = rest[:_AT_ONCE], rest[_AT_ONCE:]
            expression = operand(0)
            for i in range(1, len(chunk)):
                expression = expression + operand(i)
            rest.append(self.mapped(expression, *chunk))
        return rest[0]

    def _reduced(self, operation: str, value: Value) -> Value:
        node = Node(operator=UNARY, name=self.name, source=self.source, inputs=())
        expansion = Expansion(self.builder, node, self.name)
        if not value.shape:
            square = operation == "square_sum"
            return self.mapped(call("square", operand(0)), value) if square else value
        whole = reduced(expansion, operation, value, range(len(value.shape)))
        return reshape(expansion, whole, ())


#: Scalars that one operation adds up.
_AT_ONCE = 8


class Numbers:
    """The numbers of an optimiser on the device: constants, or states that the host may change.

    Parameters
    ----------
    is_constant
        Takes a number and returns whether the host leaves it as it is.
    """

    def __init__(self, is_constant: Callable[[Number], bool]) -> None:
        self._is_constant = is_constant
        self._states: dict[tuple[str, str], State] = {}
        self._made: dict[tuple[Emitter, str, str, Value | None], Value] = {}

    def value(
        self, tools: Tools, name: str, number: Number, dtype: str, scale: Value | None
    ) -> Value:
        """Return a number in a type.

        Parameters
        ----------
        tools
            Emits what is computed.
        name
            What it is called.
        scale
            What gradients are multiplied by on the device besides: a scalar of float32.

        Raises
        ------
        BadOption
            When the type does not hold it.
        """
        is_scaled = scale is not None and number.power > 0
        key = tools.builder, name, dtype, scale if is_scaled else None
        if key in self._made:
            return self._made[key]
        stated = _WIDE if is_scaled else dtype
        array = representable(name, number.value, stated)
        value: Value
        if self._is_constant(number):
            value = tools.builder.constant(array, name)
        else:
            value = self._states.setdefault(
                (name, stated), State(f"{name}___{stated}", (), stated, array, is_setting=True)
            )
        if is_scaled:
            assert scale is not None
            expression = operand(0)
            for _ in range(number.power):
                expression = expression * operand(1)
            value = tools.cast(tools.mapped(expression, value, scale), dtype)
        self._made[key] = value
        return value


#: Makes what parameters have in common: values, and updates of states.
Shared = Callable[[Tools], tuple[tuple[Value, ...], list[Update]]]


@dataclass(frozen=True)
class OfAll:
    """What the updates of parameters of one optimiser have in common.

    Parameters
    ----------
    source
        Their type in reports.
    dtype
        Type that they are computed in.
    state_dtype
        Type of states.
    seed
        What half is rounded by chance from; None to round to the nearest.
    number
        Returns a number by name, in a type.
    shared
        Returns what is computed once: takes a name, and what makes it with the updates of states.
    """

    source: str
    dtype: str
    state_dtype: str
    seed: State | None
    number: Callable[[Tools, str, str], Value]
    shared: Callable[[str, Shared], tuple[Value, ...]]


class Step(Tools):
    """Emits the update of one parameter.

    Parameters
    ----------
    builder
        Takes the operations.
    of_all
        What it has in common with others.
    parameter, gradient
        What is updated, and the sum of its gradients.
    suffix
        What follows the names of states that parameters have in common.

    Attributes
    ----------
    summed
        What gradients were added to, where the optimiser keeps that.
    share
        A replica's share of what gradients are added to.
    """

    summed: State
    share: float = 1.0

    def __init__(
        self,
        builder: Emitter,
        of_all: OfAll,
        parameter: Parameter,
        gradient: Value,
        suffix: str,
    ) -> None:
        super().__init__(builder, f"Update/{parameter.name}", of_all.source)
        self.parameter, self.dtype, self.suffix = parameter, of_all.dtype, suffix
        self.w = self.cast(parameter, self.dtype)
        self.gradient = self.cast(gradient, self.dtype)
        self._of_all, self.shared = of_all, of_all.shared

    def number(self, name: str) -> Value:
        """Return a number in the type of the update."""
        return self._of_all.number(self, name, self.dtype)

    def state(self, prefix: str, start: float = 0.0, *, is_of_squares: bool = False) -> State:
        """Return a state of the parameter's shape, which lies as the parameter does.

        Parameters
        ----------
        prefix
            Of its name.
        start
            What it holds before the first step.
        is_of_squares
            Whether it has squares of gradients, or what is subtracted from them squared: it is
            float then, since half would make those of gradients below 2.4e-4 zero, and the steps
            that are divided by their root too large.
        """
        w, dtype = self.parameter, "float32" if is_of_squares else self._of_all.state_dtype
        array = np.full(w.shape, start, dtype)
        return State(prefix + w.name, w.shape, dtype, array, like=w)

    def wide(self, state: State) -> Value:
        """Return a state in the type of the update."""
        return self.cast(state, self.dtype)

    def update(self, held: Parameter | State, value: Value) -> Update:
        """Return the update of a value, in its type."""
        seed = self._of_all.seed
        if seed is None or held.dtype != "float16" or value.dtype != "float32":
            return Update(held, self.cast(value, held.dtype))
        modifier = zlib.crc32(held.name.encode())
        return Update(held, self.emit(STOCHASTIC_CAST, [value, seed], modifier=modifier))

    def moved(self, step: Value, rate: Value) -> Update:
        """Emit w + rate · step."""
        return self.update(self.parameter, self.emit(SCALED_ADD, [self.w, step, rate]))
