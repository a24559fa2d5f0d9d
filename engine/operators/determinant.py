"""Det: elimination with partial pivoting, a column after the other, of all matrices at once."""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.indexing.indexing import ARG_MAX
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]

#: Rows of a matrix: every one takes about fifteen steps of the program.
_MOST_ROWS = 128


def _eliminated(into: Expansion, x: Value) -> tuple[Value, Value]:
    """Emit what is left of matrices (batch, n, n) without a row and a column, and the signed pivot.

    The row of the largest element in the first column is exchanged with the first row.
    """
    n_batch, n, _ = x.shape
    column = along(into, x, 2, 0, 1)
    place = into.emit(ARG_MAX, unary(into, "absolute", column), axis=1)
    rows = into.constant(np.arange(n, dtype=np.int64).reshape(1, n, 1), "rows")
    is_pivot = binary(into, "equal", rows, place)
    mask = into.emit(CAST, is_pivot, dtype=x.dtype)
    pivot_row = reduced(into, "sum", binary(into, "multiply", x, mask), [1])
    exchanged = chosen(into, is_pivot, along(into, x, 1, 0, 1), x)
    pivot = along(into, pivot_row, 2, 0, 1)
    # A column of zeros eliminates nothing; the pivot makes the product zero.
    is_zero = binary(into, "equal", pivot, scalar(into, 0, pivot))
    divisor = chosen(into, is_zero, scalar(into, 1, pivot), pivot)
    below = along(into, exchanged, 1, 1, n)
    factor = binary(into, "divide", along(into, below, 2, 0, 1), divisor)
    taken = binary(into, "multiply", factor, along(into, pivot_row, 2, 1, n))
    rest = binary(into, "subtract", along(into, below, 2, 1, n), taken)
    is_first = binary(into, "equal", place, scalar(into, 0, place))
    signed = chosen(into, is_first, pivot, unary(into, "negate", pivot))
    return rest, reshape(into, signed, (n_batch,))


def _determinant(node: Node, into: Expansion) -> Value:
    """Emit the products of the pivots of square matrices.

    Raises
    ------
    BadModel
        When they are not square, or too large to unroll.
    """
    x = node.operand(0)
    n = x.shape[-1] if x.shape else 0
    if len(x.shape) < 2 or x.shape[-2] != n or not 1 <= n <= _MOST_ROWS:
        raise BadModel(
            f"{node}: {x.name!r} has shape {x.shape}: expected square matrices of 1 to {_MOST_ROWS}"
            " rows"
        )
    batch = x.shape[:-2]
    rest = reshape(into, x, (prod(batch), n, n))
    product: Value | None = None
    while rest.shape[1] > 1:
        rest, pivot = _eliminated(into, rest)
        product = pivot if product is None else binary(into, "multiply", product, pivot)
    last = reshape(into, rest, (prod(batch),))
    product = last if product is None else binary(into, "multiply", product, last)
    return reshape(into, product, batch)


RECORDS = (Operator(name="Det", decompose=_determinant),)
