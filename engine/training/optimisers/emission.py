"""What optimisers emit: their numbers, states and updates, in the operator graph."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tilescope.engine.ir import (
    Emitter,
    Expansion,
    Node,
    Operator,
    Parameter,
    ReplicaGroup,
    State,
    Update,
    Value,
)
from tilescope.engine.ir.held import representable
from tilescope.engine.operators.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.elementwise import UNARY
from tilescope.engine.operators.elementwise.mapped import MAP, SCALED_ADD, Expression, call, operand
from tilescope.engine.operators.elementwise.rounding import STOCHASTIC_CAST
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import part
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

    def over(self, group: ReplicaGroup, scalar: Value) -> Value:
        """Emit the sum of a scalar over the replicas of a group."""
        attributes = {"operation": "add", "size": group.size, "stride": group.stride}
        return self.emit(ALL_REDUCE, [scalar], **attributes)

    def shard(self, value: Value, group: ReplicaGroup, operation: str) -> Value:
        """Emit the replica's shard of a reduction over a group: one row of elements.

        Parameters
        ----------
        value
            Of any shape.
        group
            The replicas, of equal shards; the last one is filled up with zeros.
        operation
            ``add`` for the sum of all replicas, ``local`` for the replica's own value.
        """
        attributes = {"operation": operation, "size": group.size, "stride": group.stride}
        return self.emit(REDUCE_SCATTER, [value], **attributes)

    def whole(self, shard: Value, group: ReplicaGroup, shape: tuple[int, ...]) -> Value:
        """Emit a value of a shape from the shards of all replicas of a group."""
        shards = self.emit(ALL_GATHER, [shard], size=group.size, stride=group.stride)
        node = Node(operator=UNARY, name=self.name, source=self.source, inputs=())
        expansion = Expansion(self.builder, node, self.name)
        row = reshape(expansion, shards, (prod(shards.shape),))
        return reshape(expansion, part(expansion, row, (0,), (prod(shape),)), shape)

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
    sharded_by
        The replicas that update a shard each, of whose elements the gradient is; None if every
        replica updates all.

    Attributes
    ----------
    w
        What is updated, in the type of the update: the parameter, or the replica's shard of it.
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
        sharded_by: ReplicaGroup | None = None,
    ) -> None:
        super().__init__(builder, f"Update/{parameter.name}", of_all.source)
        self.parameter, self.dtype, self.suffix = parameter, of_all.dtype, suffix
        self._sharded_by = sharded_by
        own = parameter if sharded_by is None else self.shard(parameter, sharded_by, "local")
        self.w = self.cast(own, self.dtype)
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
        name, group = prefix + w.name, self._sharded_by
        array = np.full(self.w.shape, start, dtype)
        if group is None:
            return State(name, w.shape, dtype, array, like=w)
        return State(name, array.shape, dtype, array, sharded_by=group, whole_shape=w.shape)

    def square_sum(self, value: Value) -> Value:
        """Emit the sum of the squares of a tensor like `w`, of all shards: a float32 scalar."""
        total = super().square_sum(value)
        return total if self._sharded_by is None else self.over(self._sharded_by, total)

    def wide(self, state: State) -> Value:
        """Return a state in the type of the update."""
        return self.cast(state, self.dtype)

    def update(self, held: Parameter | State, value: Value) -> Update:
        """Return the update of a value, in its type; of a parameter in shards, from all of them."""
        seed = self._of_all.seed
        if seed is None or held.dtype != "float16" or value.dtype != "float32":
            following = self.cast(value, held.dtype)
        else:
            modifier = zlib.crc32(held.name.encode())
            following = self.emit(STOCHASTIC_CAST, [value, seed], modifier=modifier)
        if self._sharded_by is not None and held is self.parameter:
            following = self.whole(following, self._sharded_by, held.shape)
        return Update(held, following)

    def moved(self, step: Value, rate: Value) -> Update:
        """Emit w + rate · step."""
        return self.update(self.parameter, self.emit(SCALED_ADD, [self.w, step, rate]))
