"""Who computes and who reads the values of a model, and the rewrites of parts of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tilescope.engine.ir import Expansion, IrBuilder, Model, Operation, Value
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.elementwise import BINARY, UNARY

__all__ = ["ARITHMETIC", "Mapped", "Match", "Uses", "function_of", "rewritten"]

#: Functions that a polynomial of other values is made of.
ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "negate", "square", "inverse"})

#: Operations around another one that a match may have: more than any exporter writes.
_MOST_AROUND = 24

#: Returns the new value of one of the model before a rewrite.
Mapped = Callable[[Value], Value]


def function_of(operation: Operation | None) -> str:
    """Return the elementwise function of an operation, ``cast`` for casts; empty for others."""
    if operation is None:
        return ""
    if operation.operator in (UNARY, BINARY):
        return str(operation.attributes["function"])
    return "cast" if operation.operator is CAST else ""


class Uses:
    """The operations of a model by what they compute and read.

    Most passes find nothing to rewrite: what takes a look at every value is made on first use.

    Parameters
    ----------
    model
        The model.

    Attributes
    ----------
    operations
        All, those of regions included.
    """

    def __init__(self, model: Model) -> None:
        self._outputs = [value for _, value in model.outputs]
        self._outputs += [update.value for update in model.updates]
        self._blocks: list[Sequence[Operation]] = [model.operations]
        for operations in self._blocks:  # grows while it is walked
            for operation in operations:
                self._blocks += [region.operations for region in operation.regions.values()]
        self.operations = [operation for block in self._blocks for operation in block]

    @cached_property
    def producer(self) -> dict[Value, Operation]:
        """The operation that computes a value."""
        return {value: operation for operation in self.operations for value in operation.results}

    @cached_property
    def readers(self) -> dict[Value, list[Operation]]:
        """The operations that read a value, in their order."""
        readers_: dict[Value, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            for value in operation.operands:
                readers_[value].append(operation)
        return readers_

    @cached_property
    def kept(self) -> set[Value]:
        """Values that the model or a region returns."""
        regions = (region for op in self.operations for region in op.regions.values())
        return {*self._outputs, *(value for region in regions for value in region.outputs)}

    @cached_property
    def block(self) -> dict[Operation, int]:
        """Number of the list of operations that an operation is in."""
        return {op: number for number, block in enumerate(self._blocks) for op in block}

    def of_function(self, *functions: str) -> list[Operation]:
        """Return the operations of an elementwise function."""
        return [op for op in self.operations if function_of(op) in functions]

    def bare(self, value: Value) -> Value:
        """Return a value before its casts between floats."""
        while function_of(operation := self.producer.get(value)) == "cast":
            assert operation is not None
            source = operation.operand(0)
            if not source.dtype.startswith("float"):
                break
            value = source
        return value

    def above(self, value: Value) -> list[Value]:
        """Return a value and those that it is computed from by arithmetic, nearest first."""
        ancestors = {value: None}
        queue = [value]
        for value_ in queue:
            operation = self.producer.get(value_)
            if operation is None or function_of(operation) not in ARITHMETIC | {"cast"}:
                continue
            for operand in operation.operands:
                if (
                    operand.known is None
                    and operand not in ancestors
                    and len(ancestors) < _MOST_AROUND
                ):
                    ancestors[operand] = None
                    queue.append(operand)
        return list(ancestors)

    def below(self, value: Value) -> list[Operation]:
        """Return operations of arithmetic that a value goes into, nearest first."""
        descendants: dict[Operation, None] = {}
        queue = [value]
        for operation_ in queue:
            for operation in self.readers.get(operation_, ()):
                is_arithmetic = function_of(operation) in ARITHMETIC | {"cast"}
                if (
                    is_arithmetic
                    and operation not in descendants
                    and len(descendants) < _MOST_AROUND
                ):
                    descendants[operation] = None
                    queue += operation.results
        return list(descendants)

    def is_closed(self, root: Operation, inner: Iterable[Operation]) -> bool:
        """Return whether nothing but operations of a set reads what they compute.

        The result of the root may be read by any other operation.
        """
        members = {root, *inner}
        for operation in members:
            if self.block[operation] != self.block[root]:
                return False
            if operation is root:
                continue
            for value in operation.results:
                if value in self.kept or not members.issuperset(self.readers.get(value, ())):
                    return False
        return True


@dataclass(frozen=True, eq=False)
class Match:
    """Operations that stand for one operator.

    Parameters
    ----------
    root
        The last of them, whose result stays.
    inner
        All of them.
    source
        Name of the operator that they stand for.
    emit
        Emits it, and returns its result.
    """

    root: Operation
    inner: frozenset[Operation]
    source: str
    emit: Callable[[Expansion, Mapped], Value]


def rewritten(model: Model, matches: Iterable[Match]) -> Model:
    """Return the model with operators in place of the operations that stand for them.

    Parameters
    ----------
    model
        Primitives and operators that are lowered whole.
    matches
        Of two that share operations, the first is rewritten.
    """
    roots: dict[Operation, Match] = {}
    gone: set[Operation] = set()
    for match in matches:
        if gone.isdisjoint(match.inner):
            roots[match.root] = match
            gone |= match.inner
    if not roots:
        return model
    builder = _Rewriter(model.name, roots, gone)
    return builder.rebuilt(model)


class _Rewriter(IrBuilder):
    """Copies operations, matches as the operators that they stand for."""

    def __init__(self, name: str, roots: dict[Operation, Match], gone: set[Operation]) -> None:
        super().__init__(name)
        self._roots, self._gone = roots, gone

    def inside(self, name: str) -> IrBuilder:
        return _Rewriter(name, self._roots, self._gone)

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        for operation in _pending(operations, self._gone - self._roots.keys()):
            match = self._roots.get(operation)
            if match is None:
                super().copy([operation], values)
                continue
            (result,) = operation.results
            expansion = Expansion(self, _named(operation, match.source), result.name)
            outside, self.placement = self.placement, operation.placement
            values[result] = match.emit(expansion, lambda value: values.get(value, value))
            self.placement = outside


def _pending(operations: Sequence[Operation], gone: set[Operation]) -> Iterator[Operation]:
    return (operation for operation in operations if operation not in gone)


def _named(operation: Operation, source: str) -> Operation:
    """Return an operation under its name, as one of another type."""
    return replace(operation, source=source)
