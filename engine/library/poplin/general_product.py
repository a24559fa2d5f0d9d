"""Products of tensors of any rank."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popops.elementwise.operations import rearranged

__all__ = ["general_product"]


@checked
def general_product(
    builder: Builder,
    a: View,
    b: View,
    name: str = "matmul",
    *,
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
) -> Tensor:
    """Multiply tensors of any rank, as `numpy.matmul`.

    Parameters
    ----------
    builder
        Target of the program.
    a, b
        Shapes (…, rows, inner) and (…, inner, columns); leading dimensions broadcast. One
        dimension is a row of `a`, or a column of `b`, and is missing in the result.
    name
        Name of the product.
    available_memory_proportion, partials_type
        As for `tilescope.engine.library.poplin.convolution.matmul`.

    Raises
    ------
    BadGraph
        If shapes or types are incompatible, or no plan meets the request.
    BadOption
        If the share of memory or the type of partial sums is invalid.
    """
    for operand in (a, b):
        if not operand.shape:
            raise BadGraph(f"{name}: {operand.name!r} has no dimensions: expected one or more")
    left = a.reshape(1, *a.shape) if len(a.shape) == 1 else a
    right = b.reshape(*b.shape, 1) if len(b.shape) == 1 else b
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        batch = None
    if batch is None or left.shape[-1] != right.shape[-2]:
        raise BadGraph(
            f"{name}: cannot multiply {a.name!r} of shape {tuple(a.shape)} and {b.name!r} of shape"
            f" {tuple(b.shape)}: expected (…, rows, inner) and (…, inner, columns)"
        )
    options: dict[str, Any] = {
        "available_memory_proportion": available_memory_proportion,
        "partials_type": partials_type,
    }
    rows, columns = left.shape[-2], right.shape[-1]
    if prod(right.shape[:-2]) == 1:
        # One matrix for all of the batch: its rows are rows of one product.
        flat = rearranged(builder, left, (1, prod(batch) * rows, left.shape[-1]), "rows")
        matrix = rearranged(builder, right, (1, *right.shape[-2:]), "columns")
        out = matmul(builder, flat, matrix, name, **options)
    else:
        every = [
            rearranged(
                builder,
                x.broadcast_to((*batch, *operand_shape)),
                (prod(batch), *operand_shape),
                side,
            )
            for x, operand_shape, side in (
                (left, left.shape[-2:], "rows"),
                (right, right.shape[-2:], "columns"),
            )
        ]
        out = matmul(builder, every[0], every[1], name, **options)
    kept_sizes = [rows] * (len(a.shape) > 1) + [columns] * (len(b.shape) > 1)
    return rearranged(builder, out, (*batch, *kept_sizes), "result")
