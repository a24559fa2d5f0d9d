"""Takes operators apart into the primitives that the library computes in one call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tilescope.engine.ir import Expansion, IrBuilder, Model, Node, Operation, Operator, Value
from tilescope.engine.ir.builder import decomposed

__all__ = ["Decomposer", "decompose", "has_own_gradient"]


def decompose(model: Model, keep: Collection[str] = ()) -> Model:
    """Return the model with every operator that has a decomposition replaced by it.

    In a model that is trained, those with a form for training, or a gradient of the user's own,
    stay whole until it gets its backward pass.

    Parameters
    ----------
    model
        Operators and primitives.
    keep
        Keys of operators that stay whole; they need a lowering.
    """
    whole = set(keep)
    if model.training is not None:
        operators = _operators(model.operations)
        whole |= {
            x.key for x in operators if x.decompose_for_training is not None or has_own_gradient(x)
        }
    return Decomposer(model.name, frozenset(whole)).rebuilt(model)


def has_own_gradient(operator: Operator) -> bool:
    """Return whether a user states the gradient of an operator that is decomposed."""
    is_whole = operator.decompose is None or operator.gradient is None
    return operator.definition is not None and not is_whole


def _operators(operations: Sequence[Operation]) -> Iterator[Operator]:
    """Yield the operators of operations, and of those inside them."""
    for operation in operations:
        yield operation.operator
        for region in operation.regions.values():
            yield from _operators(region.operations)


class Decomposer(IrBuilder):
    """Adds, in place of a node, what it stands for.

    Parameters
    ----------
    name
        Of the model.
    keep
        Keys of operators that stay whole.
    """

    def __init__(self, name: str, keep: frozenset[str]) -> None:
        super().__init__(name)
        self.keep = keep
        #: The model's own operation that is copied now.
        self._origin: Operation | None = None

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        """Add operations on other values, each in the name of the model's own."""
        outside = self._origin
        for operation in operations:
            self._origin = operation.origin or operation
            super().copy([operation], values)
        self._origin = outside

    def inside(self, name: str) -> IrBuilder:
        """Return a builder of the same kind for a region."""
        return type(self)(name, self.keep)

    def decomposed(self, node: Node, expansion: Expansion) -> tuple[Value, ...]:
        """Emit what a node stands for and return its results; nothing where it stays whole."""
        return () if node.operator.key in self.keep else decomposed(node, expansion)

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add an operation, or what it stands for, and return the results."""
        label = next(filter(None, outputs), node.name)
        results = self.decomposed(node, Expansion(self, node, label))
        if results:
            return tuple(results[index] if name else None for index, name in enumerate(outputs))
        return super().add(replace(node, origin=node.origin or self._origin), outputs)
