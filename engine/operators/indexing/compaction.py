"""Operators that keep some entries of a tensor: data decide how many.

The entries are counted from the first on, and each is written to the row of its number.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.indexing.indexing import SCATTER_ND
from tilescope.engine.operators.movement.extension import CUMULATIVE_SUM
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along
from tilescope.engine.operators.movement.take import taken

__all__ = ["RECORDS", "compacted"]


def compacted(expansion: Expansion, rows: Value, keep: Value) -> tuple[Value, Value]:
    """Emit the rows that are kept, in their order and then zeros, and their number.

    Parameters
    ----------
    expansion
        Where operations go.
    rows
        Shape (n, …).
    keep
        Bools, shape (n,).
    """
    n = rows.shape[0]
    flags = expansion.emit(CAST, keep, dtype="int64")
    until = expansion.emit(CUMULATIVE_SUM, flags, expansion.constant(np.array(0), "axis"))
    last = reshape(expansion, along(expansion, until, 0, n - 1, n), ())
    before = binary(expansion, "subtract", until, scalar(expansion, 1, until))
    # What is dropped goes to one more row.
    positions = chosen(expansion, keep, before, scalar(expansion, n, before))
    zeros = expansion.constant(np.zeros((n + 1, *rows.shape[1:]), rows.dtype), "zeros")
    written = expansion.emit(SCATTER_ND, zeros, reshape(expansion, positions, (n, 1)), rows)
    return along(expansion, written, 0, 0, n), last


def _is_true(expansion: Expansion, x: Value) -> Value:
    """Emit whether elements differ from zero."""
    if x.dtype == "bool":
        return x
    return binary(expansion, "not_equal", x, scalar(expansion, 0, x))


def _nonzero_axes(node: Node) -> tuple[int | None, ...]:
    return () if node.operand(0).known is not None else (1,)


def _nonzero(node: Node, expansion: Expansion) -> Value | tuple[Value, Value]:
    """Emit the positions of the elements that differ from zero: shape (rank, number)."""
    x = node.operand(0)
    if x.known is not None:
        return expansion.constant(np.array(np.nonzero(x.known), np.int64).reshape(len(x.shape), -1))
    n = prod(x.shape)
    positions = np.indices(x.shape).reshape(len(x.shape), n).T if x.shape else np.zeros((1, 0))
    table = expansion.constant(np.ascontiguousarray(positions, np.int64), "places")
    indices, number = compacted(expansion, table, reshape(expansion, _is_true(expansion, x), (n,)))
    return expansion.emit(TRANSPOSE, indices, order=(1, 0)), number


def _compress_axes(node: Node) -> tuple[int | None, ...]:
    if node.operand(1).known is not None:
        return ()
    return (_compress_axis(node) or 0,)


def _compress_axis(node: Node) -> int | None:
    """Return the axis along which entries are kept; None for elements of the flat tensor."""
    axis = node.attributes.get("axis")
    return None if axis is None else node.axis(axis, len(node.operand(0).shape))


def _compress(node: Node, expansion: Expansion) -> Value | tuple[Value, Value]:
    """Emit the slices along an axis whose condition holds; those without a condition are dropped.

    Raises
    ------
    BadModel
        When there are more conditions than slices, or they are not bools.
    """
    x, condition = node.operand(0), node.operand(1)
    axis = _compress_axis(node)
    if axis is None:
        x, axis = reshape(expansion, x, (prod(x.shape),)), 0
    n = x.shape[axis]
    if condition.dtype != "bool" or len(condition.shape) != 1 or condition.shape[0] > n:
        raise BadModel(
            f"{node}: its condition {condition.name!r} is {condition.dtype} of shape"
            f" {condition.shape}: expected bools of shape (n,), with n at most {n}"
        )
    order = (axis, *(d for d in range(len(x.shape)) if d != axis))
    rows = along(expansion, expansion.emit(TRANSPOSE, x, order=order), 0, 0, condition.shape[0])
    back = tuple(order.index(d) for d in range(len(order)))
    if condition.known is not None:
        indices = np.flatnonzero(condition.known)
        (matches,) = taken(expansion, rows, 0, indices.tolist())
        return expansion.emit(TRANSPOSE, matches, order=back)
    selected, number = compacted(expansion, rows, condition)
    return expansion.emit(TRANSPOSE, selected, order=back), number


RECORDS = (
    Operator(name="Compress", decompose=_compress, counted=_compress_axes),
    Operator(name="NonZero", decompose=_nonzero, counted=_nonzero_axes),
)
