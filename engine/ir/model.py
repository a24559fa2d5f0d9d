"""The model: operations in an order in which they can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilescope.engine.ir.operation import Operation
from tilescope.engine.ir.value import Parameter, Value

__all__ = ["Model", "walk"]


@dataclass(frozen=True)
class Model:
    """An operator graph.

    Parameters
    ----------
    inputs
        What a run takes.
    outputs
        What a run returns, by name.
    operations
        In an order in which they can run.
    assumed_ones
        Names of inputs whose first dimension has no size in the model and was taken as 1.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[tuple[str, Value], ...]
    operations: tuple[Operation, ...]
    assumed_ones: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that operations or outputs use, in the order of their first use."""
        used: list[Value] = []
        for operation in walk(self.operations):
            used += operation.operands
            used += [value for region in operation.regions.values() for value in region.outputs]
        used += [value for _, value in self.outputs]
        return tuple(dict.fromkeys(value for value in used if isinstance(value, Parameter)))


def walk(operations: tuple[Operation, ...]) -> Iterator[Operation]:
    """Return operations and, after each, those in its regions."""
    for operation in operations:
        yield operation
        for region in operation.regions.values():
            yield from walk(region.operations)
