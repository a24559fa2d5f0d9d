"""What a rule has of the node that it imports: its name, its result types, and where it emits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tilescope.engine.errors import UnsupportedOperators
from tilescope.engine.ir import Constant, IrBuilder, Node, Region, ResultType, Value
from tilescope.engine.ir.standard import attributes_of, version_of
from tilescope.engine.operators import operator

__all__ = ["Emission", "Graphs", "Rule", "Rules"]

#: Takes the emission and the operands as the schema of the operator has them.
Rule = Callable[..., Any]
#: Rules by the name of their operator, with or without the overload.
Rules = dict[str, Rule]


class Graphs(Protocol):
    """Imports graphs inside a program into a builder."""

    def inlined(self, builder: IrBuilder, module: Any, operands: Sequence[Any]) -> Sequence[Any]:
        """Add the nodes of a graph and return its results."""

    def inside(self, builder: IrBuilder) -> Graphs:
        """Return what imports into another builder."""


@dataclass(frozen=True)
class Emission:
    """Emits operations in the name of one node of an exported program.

    Parameters
    ----------
    builder
        Where they go.
    name
        Of the node: the path of its module and its operator.
    source
        Its operator, such as ``aten.conv2d``.
    place
        Module, file and line, for messages.
    types
        Shapes and types of its results, as PyTorch has them.
    line
        File and line that the node is from; None where PyTorch does not say.
    facts
        What rules note of the model as a whole, by subject.
    graphs
        Imports the graphs inside the program.
    """

    builder: IrBuilder
    name: str
    source: str
    place: str
    types: tuple[ResultType, ...] = ()
    line: tuple[str, int] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    graphs: Graphs | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first result.

        Raises
        ------
        UnsupportedOperators
            When data decide it.
        """
        shape = self.types[0][0]
        if None in shape:
            self.refuse("has a shape that data decide")
        return shape

    @property
    def dtype(self) -> str:
        """Numpy name of the type of the first result."""
        return self.types[0][1]

    def __call__(self, key: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Add an operation and return its first result.

        Parameters
        ----------
        key
            Name of the operator; see `tilescope.engine.operators.operator`.
        *inputs
            Operands.
        **attributes
            As the operator takes them.

        Raises
        ------
        BadModel
            When the operands do not agree.
        """
        return self.results(1, key, *inputs, **attributes)[0]

    def results(
        self, n_results: int, key: str, *inputs: Value | None, **attributes: Any
    ) -> tuple[Value, ...]:
        """Add an operation and return its first results.

        Parameters
        ----------
        n_results
            Number of results.
        key, *inputs, **attributes
            As for a call; an attribute may be a region.

        Raises
        ------
        BadModel
            When the operands do not agree.
        """
        record = operator(key)
        version = version_of(record)
        regions = {name: item for name, item in attributes.items() if isinstance(item, Region)}
        stated = {name: item for name, item in attributes.items() if name not in regions}
        node = Node(
            operator=record,
            name=self.name,
            source=self.source,
            inputs=tuple(inputs),
            attributes=attributes_of(record, version, self.place, stated),
            version=version,
            n_outputs=n_results,
            regions=regions,
            line=self.line,
        )
        values = self.builder.add(node, (self.name,) * n_results)
        return tuple(value for value in values if value is not None)

    def constant(self, values: ArrayLike, dtype: str | None = None) -> Constant:
        """Return a value whose content is known."""
        return self.builder.constant(np.asarray(values, dtype), f"{self.name}/constant")

    def integers(self, numbers: ArrayLike) -> Constant:
        """Return a constant of int64, as ONNX takes shapes and axes."""
        return self.constant(np.asarray(numbers, np.int64))

    def value(self, given: Any, dtype: str) -> Value:
        """Return a tensor or a number as a value of a type."""
        if isinstance(given, Value):
            return self.cast(given, dtype)
        return self.constant(np.asarray(given).astype(dtype))

    def cast(self, x: Value, dtype: str) -> Value:
        """Return a value in another type; itself where it has it.

        A float that becomes bool is true unless it is 0.
        """
        if x.dtype == dtype:
            return x
        if x.known is not None:
            return self.constant(np.asarray(x.known).astype(dtype))
        if dtype == "bool":
            return self("Not", self("Equal", x, self.constant(0, x.dtype)))
        return self("cast", x, dtype=dtype)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Return the elements of a value in another shape; itself where it has it."""
        shape = tuple(int(size) for size in shape)
        return x if x.shape == shape else self("reshape", x, shape=shape)

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Return a value with its dimensions in another order."""
        order = tuple(axis % len(x.shape) for axis in order)
        return x if order == tuple(range(len(order))) else self("Transpose", x, perm=list(order))

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """Return a value repeated to a shape."""
        shape = tuple(int(size) for size in shape)
        return x if x.shape == shape else self("Expand", x, self.integers(shape))

    def slice(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Return a part of a value along an axis."""
        if start == 0 and stop >= x.shape[axis] and step == 1:
            return x
        parts = [self.integers([number]) for number in (start, stop, axis, step)]
        return self("Slice", x, *parts)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Return values one after the other along an axis."""
        return values[0] if len(values) == 1 else self("Concat", *values, axis=axis)

    def reduced(self, key: str, x: Value, axes: Sequence[int], *, keeps: bool) -> Value:
        """Return a reduction of ONNX over axes; the operand itself where there are none."""
        if not axes:
            return x
        return self(key, x, self.integers(list(axes)), keepdims=int(keeps))

    def scaled(self, x: Value, factor: float) -> Value:
        """Return a value times a number."""
        return x if factor == 1 else self("Mul", x, self.constant(factor, x.dtype))

    def inlined(self, module: Any, operands: Sequence[Any]) -> Sequence[Any]:
        """Add the nodes of a graph inside the program and return its results."""
        assert self.graphs is not None, "graphs are in programs"
        return self.graphs.inlined(self.builder, module, operands)

    def region(  # a graph and what surrounds it
        self,
        name: str,
        module: Any,
        types: Sequence[ResultType],
        operands: Sequence[Any],
        *,
        skipped: int = 0,
        wrap: Callable[[Emission, Sequence[Any]], Sequence[Value]] | None = None,
    ) -> Region:
        """Return a graph inside the program as a region.

        Parameters
        ----------
        name
            Of the region.
        module
            The graph.
        types
            Of the inputs of the region, which the graph takes first.
        operands
            Values from outside that it takes after them.
        skipped
            Number of inputs of the region that the graph does not take.
        wrap
            Makes the results of the region from those of the graph.
        """
        inside = self.builder.inside(f"{self.name}/{name}")
        inside.placement = self.builder.placement
        graphs = None if self.graphs is None else self.graphs.inside(inside)
        emit = replace(self, builder=inside, graphs=graphs)
        inputs = [Value(f"{self.name}/{name}/{i}", *item) for i, item in enumerate(types)]
        results = emit.inlined(module, [*inputs[skipped:], *operands])
        outputs = results if wrap is None else wrap(emit, results)
        return inside.region(inputs, list(outputs))

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the node.

        Raises
        ------
        UnsupportedOperators
            With the reason, what follows the operator, and the place of the node.
        """
        raise UnsupportedOperators(f"{self.source} {reason} ({self.place})")
