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


def _eliminated(expansion: Expansion, x: Value) -> tuple[Value, Value]:
    """Emit what is left of matrices (batch, n, n) without a row and a column, and the signed pivot.

    The row of the largest element in the first column is exchanged with the first row.
    """
    n_batch, n, _ = x.shape
    column = along(expansion, x, 2, 0, 1)
    pivot_row_index = expansion.emit(ARG_MAX, unary(expansion, "absolute", column), axis=1)
    rows = expansion.constant(np.arange(n, dtype=np.int64).reshape(1, n, 1), "rows")
    is_pivot = binary(expansion, "equal", rows, pivot_row_index)
    mask = expansion.emit(CAST, is_pivot, dtype=x.dtype)
    pivot_row = reduced(expansion, "sum", binary(expansion, "multiply", x, mask), [1])
    exchanged = chosen(expansion, is_pivot, along(expansion, x, 1, 0, 1), x)
    pivot = along(expansion, pivot_row, 2, 0, 1)
    # A column of zeros eliminates nothing; the pivot makes the product zero.
    is_zero = binary(expansion, "equal", pivot, scalar(expansion, 0, pivot))
    divisor = chosen(expansion, is_zero, scalar(expansion, 1, pivot), pivot)
    below = along(expansion, exchanged, 1, 1, n)
    factor = binary(expansion, "divide", along(expansion, below, 2, 0, 1), divisor)
    eliminated = binary(expansion, "multiply", factor, along(expansion, pivot_row, 2, 1, n))
    rest = binary(expansion, "subtract", along(expansion, below, 2, 1, n), eliminated)
    is_first = binary(expansion, "equal", pivot_row_index, scalar(expansion, 0, pivot_row_index))
    signed = chosen(expansion, is_first, pivot, unary(expansion, "negate", pivot))
    return rest, reshape(expansion, signed, (n_batch,))


def _determinant(node: Node, expansion: Expansion) -> Value:
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
    rest = reshape(expansion, x, (prod(batch), n, n))
    product: Value | None = None
    while rest.shape[1] > 1:
        rest, pivot = _eliminated(expansion, rest)
        product = pivot if product is None else binary(expansion, "multiply", product, pivot)
    last = reshape(expansion, rest, (prod(batch),))
    product = last if product is None else binary(expansion, "multiply", product, last)
    return reshape(expansion, product, batch)


RECORDS = (Operator(name="Det", decompose=_determinant),)
