"""Last uses of variables: where the result of an operation may replace an operand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

from tilescope.engine.graph import Tensor, Variable
from tilescope.engine.ir import Operation, Region, Update, Value

__all__ = ["LastUses"]


@dataclass
class LastUses:
    """When the values of a list of operations are read for the last time.

    Several values may be views of one variable: it is free once none of them is read any more.

    Parameters
    ----------
    of_value
        Last operation that reads each value, by number; past the end for results.
    of_variable
        The same for variables that hold results of the operations lowered so far.
    outside
        Variables that hold other values; they are never free, since a region may run again.
    replaced
        By variable of a held value: the value that replaces it after the operations. What computes
        that may write over the variable once nothing else reads it.
    now
        Number of the operation that is being lowered.
    results
        What it computes.
    """

    of_value: dict[Value, int] = field(default_factory=dict)
    of_variable: dict[Variable, int] = field(default_factory=dict)
    outside: frozenset[Variable] = frozenset()
    replaced: Mapping[Variable, Value] = field(default_factory=dict)
    now: int = -1
    results: tuple[Value, ...] = ()

    @classmethod
    def of(
        cls,
        operations: Items[Operation],
        results: Items[Value],
        known: Mapping[Value, Tensor],
        updates: Items[Update] = (),
        arrivals: Set[Value] = frozenset(),
    ) -> LastUses:
        """Return the last uses of the values of operations.

        Parameters
        ----------
        operations
            In the order in which they are lowered.
        results
            Values that are read after them.
        known
            Tensors of values from before them.
        updates
            Of held values after them.
        arrivals
            Values from before that nothing else reads: they are made again before the operations
            run again.
        """
        of_value: dict[Value, int] = {}
        for number, operation in enumerate(operations):
            of_value |= dict.fromkeys(operation.operands, number)
            for region in operation.regions.values():
                of_value |= dict.fromkeys((*region.captured, *region.outputs), number)
                of_value |= dict.fromkeys(_held_inside(region), number)
        of_value |= dict.fromkeys(results, len(operations))
        outside = frozenset(
            variable
            for value, tensor in known.items()
            if value not in arrivals
            for variable in tensor.variables
        )
        replaced = {}
        of_variable = {
            variable: of_value.get(value, -1)
            for value in arrivals
            for variable in known[value].variables
        }
        for update in updates:
            (variable,) = known[update.held].variables
            replaced[variable] = update.value
            of_variable[variable] = of_value.get(update.held, -1)
            of_value[update.value] = max(of_value.get(update.value, -1), len(operations))
        return cls(of_value, of_variable, outside, replaced)

    def begin(self, operation: Operation) -> None:
        """Go on to the next operation."""
        self.now += 1
        self.results = operation.results

    def keep(self, value: Value, tensor: Tensor) -> None:
        """Record the tensor of a value that the present operation computes."""
        until = self.of_value.get(value, self.now)
        for variable in tensor.variables:
            self.of_variable[variable] = max(until, self.of_variable.get(variable, 0))

    def is_free(self, tensor: Tensor) -> bool:
        """Return whether nothing reads a tensor's variable after the present operation.

        Constants and variables with initial contents are never free, held values to what replaces
        them only.
        """
        return all(
            (
                self.replaced[variable] in self.results
                if variable in self.replaced
                else variable not in self.outside
                and variable.category != "constant"
                and variable.values is None
            )
            and self.of_variable.get(variable, self.now + 1) <= self.now
            for variable in tensor.variables
        )


def _held_inside(region: Region) -> Iterator[Value]:
    """Yield the values that the device holds and a region reads; it does not capture them."""
    for operation in region.operations:
        yield from (value for value in operation.operands if value.is_held)
        for within in operation.regions.values():
            yield from _held_inside(within)
