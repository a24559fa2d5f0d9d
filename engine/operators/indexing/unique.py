"""Unique: the different entries of a tensor, found by comparing every pair."""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.indexing.indexing import SCATTER_ND
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]

#: Entries of which every pair is compared: so many bools fit into one IPU's memory.
_MOST_ENTRIES = 8192
#: Elements of an entry; each takes a comparison of all pairs.
_MOST_ELEMENTS = 64


def _axis(node: Node) -> int | None:
    axis = node.attributes.get("axis")
    return None if axis is None else node.axis(axis, len(node.operand(0).shape))


def _unique_axes(node: Node) -> tuple[int | None, ...]:
    if node.operand(0).known is not None:
        return ()
    return (_axis(node) or 0, 0, None, 0)


def _compared(expansion: Expansion, rows: Value) -> tuple[Value, Value]:
    """Emit which entries are equal, and which come before others in lexicographic order.

    Entry j is before entry i where the second result is true at (i, j).
    """
    n, width = rows.shape
    same: Value | None = None
    less: Value | None = None
    for i in range(width):
        column = along(expansion, rows, 1, i, i + 1)
        row = reshape(expansion, column, (1, n))
        equal = binary(expansion, "equal", column, row)
        below = binary(expansion, "greater", column, row)
        if same is not None and less is not None:
            below = binary(
                expansion, "logical_or", less, binary(expansion, "logical_and", same, below)
            )
            equal = binary(expansion, "logical_and", same, equal)
        same, less = equal, below
    assert same is not None
    assert less is not None
    return same, less


def _number_of(expansion: Expansion, bools: Value) -> Value:
    """Emit how many bools are true in every row: shape (n,)."""
    integers = expansion.emit(CAST, bools, dtype="int64")
    return reshape(expansion, reduced(expansion, "sum", integers, [1]), (bools.shape[0],))


def _before_in_order(expansion: Expansion, same: Value) -> Value:
    """Emit which entries come before the first one that equals another."""
    n = same.shape[0]
    positions = expansion.constant(np.arange(n, dtype=np.int32)[None], "places")
    first = reduced(
        expansion,
        "minimum",
        chosen(expansion, same, positions, scalar(expansion, n, positions)),
        [1],
    )
    return binary(expansion, "less", positions, first)


def _unique(node: Node, expansion: Expansion) -> tuple[Value, ...] | None:
    """Emit the different entries, where they first are, the place of each, and their counts.

    Raises
    ------
    BadModel
        When there are too many to compare all.
    """
    x, axis = node.operand(0), _axis(node)
    if x.known is not None:
        return None
    flat = reshape(expansion, x, (prod(x.shape),)) if axis is None else x
    axis = axis or 0
    order = (axis, *(d for d in range(len(flat.shape)) if d != axis))
    turned = expansion.emit(TRANSPOSE, flat, order=order)
    n, width = turned.shape[0], prod(turned.shape[1:])
    if n > _MOST_ENTRIES or width > _MOST_ELEMENTS:
        raise BadModel(
            f"{node}: {n:,} entries of {width:,} elements of {x.name!r}; at most"
            f" {_MOST_ENTRIES:,} of {_MOST_ELEMENTS} are compared with each other on the device"
        )
    same, less = _compared(expansion, reshape(expansion, turned, (n, width)))
    earlier = expansion.constant(np.tri(n, k=-1, dtype=np.bool_), "earlier")
    repeats = _number_of(expansion, binary(expansion, "logical_and", same, earlier))
    is_first = binary(expansion, "equal", repeats, scalar(expansion, 0, repeats))
    before = less if node.attributes.get("sorted", 1) else _before_in_order(expansion, same)
    counted = binary(expansion, "logical_and", before, reshape(expansion, is_first, (1, n)))
    inverse = _number_of(expansion, counted)
    # Of equal entries, the first one is written; the others go to one more row.
    positions = reshape(
        expansion, chosen(expansion, is_first, inverse, scalar(expansion, n, inverse)), (n, 1)
    )

    def written(rows: Value) -> Value:
        zeros = expansion.constant(np.zeros((n + 1, *rows.shape[1:]), rows.dtype), "zeros")
        return along(expansion, expansion.emit(SCATTER_ND, zeros, positions, rows), 0, 0, n)

    back = tuple(order.index(d) for d in range(len(order)))
    inverse_order = expansion.emit(TRANSPOSE, written(turned), order=back)
    indices = written(expansion.constant(np.arange(n, dtype=np.int64), "indices"))
    counts = written(_number_of(expansion, same))
    number = _number_of(expansion, reshape(expansion, is_first, (1, n)))
    return inverse_order, indices, inverse, counts, reshape(expansion, number, ())


RECORDS = (Operator(name="Unique", decompose=_unique, counted=_unique_axes),)
