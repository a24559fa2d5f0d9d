"""Convolutions of graphs with kernels that are B-splines.

Source: M. Fey and others, SplineCNN: Fast Geometric Deep Learning with Continuous B-Spline Kernels,
CVPR 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.elementwise.mapped import Expression, mapped, operand
from tilescope.engine.operators.graphcore.domain import as_type, decomposed
from tilescope.engine.operators.indexing.indexing import SCATTER_ELEMENTS
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.movement.take import taken
from tilescope.engine.operators.product.product import MATMUL

__all__ = ["RECORDS"]

_V = operand(0)
#: The parts of a basis function by degree: of the place within its interval.
_BASES: Mapping[int, tuple[Expression, ...]] = {
    1: (1.0 - _V, _V),
    2: (0.5 * _V * _V - _V + 0.5, _V - _V * _V + 0.5, 0.5 * _V * _V),
    3: (
        (1.0 - _V) * (1.0 - _V) * (1.0 - _V) * (1 / 6),
        (3.0 * _V * _V * _V - 6.0 * _V * _V + 4.0) * (1 / 6),
        (-3.0 * _V * _V * _V + 3.0 * _V * _V + 3.0 * _V + 1.0) * (1 / 6),
        _V * _V * _V * (1 / 6),
    ),
}


def _basis(node: Node, expansion: Expansion) -> tuple[Value, Value]:
    """Emit weights of kernel entries, and the positions of these, shape (edges, entries).

    Raises
    ------
    BadModel
        When the degree is above 3, or the operands do not fit.
    """
    pseudo, sizes, is_open = (node.operand(i) for i in range(3))
    degree = node.attributes.get("degree", 1)
    if degree not in (0, *_BASES) or len(pseudo.shape) != 2:
        raise BadModel(
            f"{node}: degree {degree} and coordinates of shape {pseudo.shape}: expected 0 to 3, and"
            " (edges, dimensions)"
        )
    n_dims = pseudo.shape[1]
    if sizes.shape != (n_dims,) or is_open.shape != (n_dims,):
        raise BadModel(
            f"{node}: {n_dims} dimensions, kernel sizes of shape {sizes.shape} and marks of open"
            f" splines of shape {is_open.shape} do not fit"
        )
    dtype = pseudo.dtype
    by_dim = [
        [np.arange((degree + 1) ** n_dims) // (degree + 1) ** d % (degree + 1)]
        for d in range(n_dims)
    ]
    kernel, opened = as_type(expansion, sizes, "int32"), as_type(expansion, is_open, "int32")
    lost = binary(expansion, "multiply", opened, scalar(expansion, degree, opened))
    spans = as_type(expansion, binary(expansion, "subtract", kernel, lost), dtype)
    places = binary(expansion, "multiply", pseudo, spans)
    below = unary(expansion, "floor", places)
    inside = binary(expansion, "subtract", places, below)
    first = as_type(expansion, below, "int32")
    parts, position, stride = [], None, None
    for d, (steps,) in enumerate(by_dim):
        size = along(expansion, kernel, 0, d, d + 1)
        parts.append(_parts(expansion, along(expansion, inside, 1, d, d + 1), degree, steps))
        step = expansion.constant(steps.astype("int32")[None], f"steps{d}")
        entry = binary(expansion, "add", along(expansion, first, 1, d, d + 1), step)
        entry = binary(expansion, "remainder", entry, size)
        if stride is not None and position is not None:
            entry = binary(expansion, "multiply", entry, stride)
            position = binary(expansion, "add", position, entry)
            stride = binary(expansion, "multiply", stride, size)
        else:
            position, stride = entry, size
    assert position is not None
    return reduce(_product_of(expansion), parts), position


def _product_of(expansion: Expansion) -> Callable[[Value, Value], Value]:
    return lambda a, b: binary(expansion, "multiply", a, b)


def _parts(expansion: Expansion, inside: Value, degree: int, steps: np.ndarray) -> Value:
    """Emit the factors of one dimension, shape (edges, entries)."""
    if not degree:
        shape = (inside.shape[0], len(steps))
        return expansion.constant(np.ones(shape, inside.dtype), "ones")
    factors = [
        inside if formula.is_operand else mapped(expansion, formula, inside)
        for formula in _BASES[degree]
    ]
    columns = joined(expansion, factors, 1)
    (out,) = taken(expansion, columns, 1, steps.tolist())
    return out


def _weighting(node: Node, expansion: Expansion) -> Value:
    """Emit the sums of products with the entries of a kernel, as one product of matrices.

    Raises
    ------
    BadModel
        When the operands do not fit.
    """
    x, weight, basis, index = (node.operand(i) for i in range(4))
    if (
        len(x.shape) != 2
        or len(weight.shape) != 3
        or weight.shape[1] != x.shape[1]
        or basis.shape != index.shape
        or basis.shape[:1] != x.shape[:1]
    ):
        raise BadModel(
            f"{node}: inputs of shape {x.shape}, weights {weight.shape}, a basis {basis.shape} and"
            f" positions {index.shape} do not fit"
        )
    n_edges, n_inputs = x.shape
    n_entries = weight.shape[0]
    none = expansion.constant(np.zeros((n_edges, n_entries), basis.dtype), "none")
    shares = expansion.emit(SCATTER_ELEMENTS, none, index, basis, axis=1, reduction="add")
    shares = reshape(expansion, shares, (n_edges, n_entries, 1))
    spread = binary(expansion, "multiply", shares, reshape(expansion, x, (n_edges, 1, n_inputs)))
    rows = reshape(expansion, spread, (n_edges, n_entries * n_inputs))
    kernel = reshape(expansion, weight, (prod(weight.shape[:2]), weight.shape[2]))
    return expansion.emit(MATMUL, rows, kernel, **node.hints.stated())


RECORDS = (decomposed("SplineBasis", _basis), decomposed("SplineWeighting", _weighting))
