"""Operators of PopART that look up, add up, sort and count."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.graphcore.domain import as_type, decomposed, signed
from tilescope.engine.operators.indexing.indexing import (
    GATHER,
    SCATTER_ELEMENTS,
    SCATTER_ND,
    TOP_K,
)
from tilescope.engine.operators.movement.layout import BROADCAST, TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along, part
from tilescope.engine.operators.reduction import reduced

__all__ = ["RECORDS"]

#: Reductions of a scatter by PopART's names: that of ONNX, and what it starts from.
_SCATTERS = {
    "max": ("max", "lowest"),
    "min": ("min", "largest"),
    "mul": ("mul", "one"),
    "none": ("none", "zero"),
    "sum": ("add", "zero"),
}


def _first_of(dtype: str, kind: str) -> np.ndarray:
    """Return what a reduction starts from."""
    if kind in ("zero", "one"):
        return np.asarray(int(kind == "one"), dtype)
    sign = -1 if kind == "lowest" else 1
    if np.dtype(dtype).kind == "f":
        return np.asarray(sign * np.inf, dtype)
    limits = np.iinfo(dtype)
    return np.asarray(limits.min if sign < 0 else limits.max, dtype)


def _axis_first(rank: int, axis: int) -> tuple[int, ...]:
    return (axis, *(d for d in range(rank) if d != axis))


def _moved(expansion: Expansion, x: Value, order: Sequence[int]) -> Value:
    if tuple(order) == tuple(range(len(x.shape))):
        return x
    return expansion.emit(TRANSPOSE, x, order=tuple(order))


class _Scatter:
    """A ScatterReduce: where it writes, in its own shape.

    Raises
    ------
    BadModel
        When attributes and operands do not fit.
    """

    def __init__(self, node: Node, expansion: Expansion) -> None:
        self.node, self.expansion = node, expansion
        self.data, self.indices = node.operand(0), signed(expansion, node.operand(1))
        self.axis = node.axis(node.attributes.get("axis", -1), len(self.data.shape))
        self.n_groups = node.attributes.get("group_size", 1)
        reduction = str(node.attributes.get("reduction", "sum")).lower()
        size = node.attributes.get("axis_size", 0)
        if reduction not in _SCATTERS or size < 1 or self.n_groups < 1:
            raise BadModel(
                f"{node}: reduction {reduction!r} to {size} elements in {self.n_groups} groups:"
                f" expected one of {', '.join(_SCATTERS)}, and numbers above 0"
            )
        self.kind, self.first = _SCATTERS[reduction]
        if not node.attributes.get("enable_index_broadcast", 1):
            stops = [*self._spread().shape]
            self.data = part(expansion, self.data, [0] * len(stops), stops)
        data = self.data.shape
        self.shape = (*data[: self.axis], size, *data[self.axis + 1 :])

    def _spread(self) -> Value:
        """Return the indices with the rank of the data.

        Raises
        ------
        BadModel
            When they are neither of its rank nor a list along the axis.
        """
        rank, n_before = len(self.data.shape), 1 if self.n_groups > 1 else 0
        if len(self.indices.shape) == rank:
            return self.indices
        if len(self.indices.shape) != 1 + n_before or (n_before and self.axis == 0):
            raise BadModel(
                f"{self.node}: indices of shape {self.indices.shape} do not fit data of shape"
                f" {self.data.shape} along axis {self.axis}"
            )
        shape = [1] * rank
        shape[:n_before] = self.indices.shape[:n_before]
        shape[self.axis] = self.indices.shape[-1]
        return reshape(self.expansion, self.indices, tuple(shape))

    def into(self, x: Value, updates: Value, kind: str) -> Value:
        """Emit a tensor with updates at the places: rows where every row has one index.

        Raises
        ------
        BadModel
            When the indices do not broadcast to the data.
        """
        indices, rank = self._spread(), len(self.data.shape)
        by_row = prod(indices.shape) == self.data.shape[self.axis] != prod(self.data.shape)
        # Rows of the target may be longer: then only their first elements are written.
        by_row = by_row and all(
            d == self.axis or n == size
            for d, (n, size) in enumerate(zip(updates.shape, x.shape, strict=True))
        )
        if by_row and indices.shape[self.axis] == self.data.shape[self.axis]:
            order = _axis_first(rank, self.axis)
            rows = reshape(self.expansion, indices, (indices.shape[self.axis], 1))
            rows = as_type(self.expansion, rows, "int64")
            operands = (
                _moved(self.expansion, x, order),
                rows,
                _moved(self.expansion, updates, order),
            )
            out = self.expansion.emit(SCATTER_ND, *operands, reduction=kind)
            return _moved(self.expansion, out, np.argsort(order).tolist())
        if indices.shape != self.data.shape:
            try:
                np.broadcast_to(np.empty(indices.shape, bool), self.data.shape)
            except ValueError:
                raise BadModel(
                    f"{self.node}: indices of shape {indices.shape} do not broadcast to"
                    f" {self.data.shape}"
                ) from None
            indices = self.expansion.emit(BROADCAST, indices, shape=self.data.shape)
        return self.expansion.emit(
            SCATTER_ELEMENTS, x, indices, updates, axis=self.axis, reduction=kind
        )


def _scatter_reduce(node: Node, expansion: Expansion) -> Value:
    """Emit the scatter into the initial values; without them, what no index names is 0.

    That of a product is 1. Source: willow/src/popx/op/scatterreduceutilx.cpp.
    """
    scatter, initial = _Scatter(node, expansion), node.optional(2)
    if initial is not None:
        return scatter.into(initial, scatter.data, scatter.kind)
    dtype, shape = scatter.data.dtype, scatter.shape
    start = expansion.constant(np.full(shape, _first_of(dtype, scatter.first)), "start")
    out = scatter.into(start, scatter.data, scatter.kind)
    if scatter.first in ("zero", "one"):
        return out
    marks = expansion.constant(np.ones(scatter.data.shape, "int32"), "marks")
    none = expansion.constant(np.zeros(shape, "int32"), "none")
    is_named = as_type(expansion, scatter.into(none, marks, "none"), "bool")
    return chosen(expansion, is_named, out, expansion.constant(np.zeros((), dtype), "zero"))


def _gather(node: Node, expansion: Expansion) -> Value:
    """Emit a look-up; one in groups, which come first, is one of the tables below each other."""
    x, indices = node.operand(0), signed(expansion, node.operand(1))
    rank, n_groups = len(x.shape), node.attributes.get("group_size", 1)
    axis = node.axis(node.attributes.get("axis", 0), rank)
    if n_groups == 1:
        return expansion.emit(GATHER, x, indices, axis=axis)
    if not axis or x.shape[0] != n_groups or indices.shape[:1] != (n_groups,):
        raise BadModel(
            f"{node}: {n_groups} groups along axis {axis} do not fit {x.name!r} of shape {x.shape}"
            f" and indices of shape {indices.shape}"
        )
    size, inner = x.shape[axis], indices.shape[1:]
    order = (0, axis, *(d for d in range(1, rank) if d != axis))
    tables = _moved(expansion, x, order)
    flat = reshape(expansion, tables, (n_groups * size, *tables.shape[2:]))
    starts = np.arange(n_groups).reshape(n_groups, *(1,) * len(inner)) * size
    positions = expansion.constant(starts.astype(indices.dtype), "starts")
    rows = expansion.emit(GATHER, flat, binary(expansion, "add", indices, positions), axis=0)
    n_inner = len(inner)  # the axes before the axis go back in front of the indices'
    before = range(1 + n_inner, 1 + n_inner + axis - 1)
    after = range(1 + n_inner + axis - 1, len(rows.shape))
    return _moved(expansion, rows, (0, *before, *range(1, 1 + n_inner), *after))


def _sorted(
    expansion: Expansion, x: Value, axis: int, n: int, *, is_descending: bool
) -> tuple[Value, Value]:
    """Emit the first values in order, and their positions."""
    count = expansion.constant(np.array([n], np.int64), "count")
    values, positions = expansion.emit_all(
        TOP_K, 2, x, count, axis=axis, largest=int(is_descending), sorted=1
    )
    return values, as_type(expansion, positions, "int32")


def _sort(node: Node, expansion: Expansion) -> tuple[Value, Value]:
    x = node.operand(0)
    axis = node.axis(node.attributes.get("axis", -1), len(x.shape))
    is_descending = bool(node.attributes.get("descending", 0))
    return _sorted(expansion, x, axis, x.shape[axis], is_descending=is_descending)


def _median(node: Node, expansion: Expansion) -> tuple[Value, Value]:
    """Emit the lower one of the middle elements, and its place among those that are reduced."""
    x = node.operand(0)
    rank = len(x.shape)
    stated = node.attributes.get("axes")
    axes = sorted(node.axis(a, rank) for a in (range(rank) if stated is None else stated))
    kept = [d for d in range(rank) if d not in axes]
    shape = [1 if d in axes else size for d, size in enumerate(x.shape)]
    if not node.attributes.get("keepdims", 1):
        shape = [x.shape[d] for d in kept]
    rows = _moved(expansion, x, [*kept, *axes])
    count = prod(x.shape[d] for d in axes)
    rows = reshape(expansion, rows, (*(x.shape[d] for d in kept), count))
    middle = (count + 1) // 2
    results = []
    for value in _sorted(expansion, rows, len(kept), middle, is_descending=False):
        last = along(expansion, value, len(kept), middle - 1, middle)
        results.append(reshape(expansion, last, tuple(shape)))
    return results[0], results[1]


def _bucketize(node: Node, expansion: Expansion) -> Value:
    """Emit the first boundary that is not below a number, or above it; their number for none."""
    x, boundaries = node.operand(0), node.operand(1)
    if len(boundaries.shape) != 1 or boundaries.dtype != x.dtype:
        raise BadModel(
            f"{node}: boundaries {boundaries.name!r} are {boundaries.dtype} of shape"
            f" {boundaries.shape}: expected {x.dtype} of one dimension"
        )
    wide = reshape(expansion, x, (*x.shape, 1))
    function = "less" if node.attributes.get("right", 0) else "less_equal"
    is_above = binary(expansion, function, wide, boundaries)
    (n,) = boundaries.shape
    n_left = expansion.constant(np.arange(n, 0, -1, dtype=np.int32), "left")
    none = expansion.constant(np.zeros((), np.int32), "none")
    largest = reduced(
        expansion, "maximum", chosen(expansion, is_above, n_left, none), [len(x.shape)]
    )
    first = binary(expansion, "subtract", scalar(expansion, n, largest), largest)
    return reshape(expansion, first, x.shape)


RECORDS = (
    decomposed("Bucketize", _bucketize),
    decomposed("GroupedGather", _gather),
    decomposed("PopartTiedGather", _gather),
    decomposed("ReduceMedian", _median),
    decomposed("ScatterReduce", _scatter_reduce),
    decomposed("Sort", _sort),
)
