"""Indices of elements that are those of whole rows: the same along all axes but one."""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.ir import Expansion, Operation, Value
from tilescope.engine.operators.movement.layout import BROADCAST, reshape

__all__ = ["row_indices"]

#: Operators that repeat their operand.
_REPEATING = ("Expand", BROADCAST.name)


def row_indices(expansion: Expansion, indices: Value, axis: int) -> Value | None:
    """Return the indices of rows along an axis, one-dimensional; None where elements have others.

    Frameworks write sums over the neighbours of a graph's nodes that way: an index for every
    element of a row, repeated.

    Parameters
    ----------
    expansion
        What indexes; the operations before it tell where the indices are from.
    indices
        Of elements.
    axis
        The axis that they are for.
    """
    rank = len(indices.shape)
    if rank < 2 or indices.shape[axis] == prod(indices.shape):
        return None
    if (known := indices.known) is not None:
        of_rows = np.moveaxis(known, axis, 0).reshape(known.shape[axis], -1)
        is_repeated = bool((of_rows == of_rows[:, :1]).all())
        return expansion.constant(of_rows[:, 0], "rows") if is_repeated else None
    producer = _producer(expansion, indices)
    if producer is None or producer.operator.name not in _REPEATING:
        return None
    given = producer.operand(0)
    sizes = (1,) * (rank - len(given.shape)) + tuple(given.shape)
    if sizes[axis] != indices.shape[axis] or any(n > 1 for d, n in enumerate(sizes) if d != axis):
        return None
    return reshape(expansion, given, (sizes[axis],))


def _producer(expansion: Expansion, value: Value) -> Operation | None:
    """Return the operation that computes a value, if it is among those before."""
    for operation in reversed(expansion.builder.operations):
        if value in operation.results:
            return operation
    return None
