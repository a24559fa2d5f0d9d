"""Reductions over dimensions of a tensor, and of their partial results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets._extremes import maximum, minimum
from tilescope.engine.codelets._indices import unsigned
from tilescope.engine.codelets.reduce_law import ReduceKind, ReduceSizes, reduce_cycles
from tilescope.engine.graph.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.law import Batch, Law
from tilescope.engine.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["FLOPS_PER_PAIR", "REDUCE", "REDUCE_UPDATE", "SCALED_REDUCE", "UNSCALED"]

#: Useful operations to combine two elements.
#: Source: graphcore/poplibs sdk-release-3.4, include/poplibs_support/FlopEstimation.hpp. A squared
#: element counts one more.
FLOPS_PER_PAIR = {
    "sum": 1,
    "square_sum": 1,
    "maximum": 1,
    "minimum": 1,
    "product": 1,
    "log_add": 6,
    "logical_and": 0,
    "logical_or": 0,
}


@jit
def _sum(a: float, b: float) -> float:
    return a + b


@jit
def _product(a: float, b: float) -> float:
    return a * b


@jit
def _log_add(a, b):  # type: ignore[no-untyped-def]
    largest = maximum(a, b)
    if np.isinf(largest) or largest != largest:
        return largest
    return largest + np.log1p(np.exp(minimum(a, b) - largest))


@jit
def _logical_and(a: float, b: float) -> float:
    return 1 if a != 0 and b != 0 else 0


@jit
def _logical_or(a: float, b: float) -> float:
    return 1 if a != 0 or b != 0 else 0


@jit
def _same(a: float) -> float:
    return a


@jit
def _square(a: float) -> float:
    return a * a


@jit
def _is_nonzero(a: float) -> float:
    return 1 if a != 0 else 0


_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (_same, _sum),
    "square_sum": (_square, _sum),
    "maximum": (_same, maximum),
    "minimum": (_same, minimum),
    "product": (_same, _product),
    "log_add": (_same, _log_add),
    "logical_and": (_is_nonzero, _logical_and),
    "logical_or": (_is_nonzero, _logical_or),
}

#: Elements of a contiguous row that are combined side by side; shorter rows are combined in order.
_LANES = 64

#: Scale that leaves a result as it is: a logarithm is multiplied by adding.
UNSCALED = {name: 0.0 if name == "log_add" else 1.0 for name in _FUNCTIONS}


def _scaling(operation: str) -> Any:
    """Return how a result is scaled; logarithms are multiplied by adding."""
    return _sum if operation == "log_add" else _product


def _long_row(operation: str) -> Any:
    """Return the function that combines contiguous rows: in lanes, as it is vectorised."""
    prepare, combine = _FUNCTIONS[operation]

    @jit
    def of_long_row(x, start, x_stride, outer, inner, lanes):  # type: ignore[no-untyped-def]
        """Combine contiguous elements in lanes, then these in halves, then the elements left."""
        n = unsigned(lanes.size)
        whole = inner // lanes.size * lanes.size
        for j in range(outer):
            for k in range(0, whole, lanes.size):
                at = unsigned(start + j * x_stride[2] + k)
                if j + k == 0:
                    for i in range(n):
                        lanes[i] = prepare(x[at + i])
                else:
                    for i in range(n):
                        lanes[i] = combine(lanes[i], prepare(x[at + i]))
        half = lanes.size // 2
        while half > 0:
            for i in range(unsigned(half)):
                lanes[i] = combine(lanes[i], lanes[unsigned(half) + i])
            half //= 2
        total = lanes[0]
        for j in range(outer):
            at = unsigned(start + j * x_stride[2])
            for k in range(unsigned(whole), unsigned(inner)):
                total = combine(total, prepare(x[at + k]))
        return total

    return of_long_row


def _reduce_kernel(operation: str, *, is_update: bool) -> Any:
    """Return the kernel of an operation; the loops follow the contiguous dimension.

    There are no slices: each would count a reference.
    """
    prepare, combine = _FUNCTIONS[operation]
    scaled = _scaling(operation)
    unscaled = UNSCALED[operation]
    of_long_row = _long_row(operation)

    @jit
    def add_columns(x, first, x_stride, totals, outer, inner):  # type: ignore[no-untyped-def]
        for j in range(outer):
            for k in range(inner):
                row = unsigned(first + j * x_stride[2] + k * x_stride[3])
                is_begun = j + k > 0
                for i in range(unsigned(totals.size)):
                    value = prepare(x[row + i])
                    totals[i] = combine(totals[i], value) if is_begun else value

    @jit
    def of_row(x, start, x_stride, outer, inner):  # type: ignore[no-untyped-def]
        total = prepare(x[start])
        step = unsigned(x_stride[3])
        for j in range(outer):
            row = unsigned(start + j * x_stride[2])
            for k in range(unsigned(1 if j == 0 else 0), unsigned(inner)):
                total = combine(total, prepare(x[row + k * step]))
        return total

    @jit
    def kernel(  # type: ignore[no-untyped-def]
        x, x_start, x_size, x_stride, out, out_start, out_size, out_stride, scale
    ):
        n_planes, n = out_size[1], out_size[2]
        is_wide = x_stride[1] == 1 and n > 1
        # Planes that adjoin are one row.
        n_joined = n_planes if is_wide and x_stride[0] == n else 1
        totals = np.empty(n_joined * n, out.dtype)
        lanes = np.empty(_LANES, out.dtype)
        outer, inner = x_size[2], x_size[3]
        d = 2 if outer > 1 else 3
        end = 0
        for section in range(out_size[0]):
            first = x_start + end * x_stride[d]
            share = (section + 1) * x_size[d] // out_size[0] - end
            end += share
            if d == 2:
                outer = share
            else:
                inner = share
            for plane in range(n_planes):
                start = first + plane * x_stride[0]
                own = plane % n_joined * n
                if not is_wide and x_stride[3] == 1 and inner >= 2 * _LANES:
                    for i in range(n):
                        totals[i] = of_long_row(
                            x, start + i * x_stride[1], x_stride, outer, inner, lanes
                        )
                elif not is_wide:
                    for i in range(n):
                        totals[i] = of_row(x, start + i * x_stride[1], x_stride, outer, inner)
                elif own == 0:
                    add_columns(x, start, x_stride, totals, outer, inner)
                to = out_start + section * out_stride[0] + plane * out_stride[1]
                for i in range(n):  # columns are contiguous
                    held = out[to + i]
                    out[to + i] = totals[own + i]
                    if scale != unscaled:  # integers wrap around, as on the machine
                        out[to + i] = scaled(out[to + i], scale)
                    if is_update:
                        out[to + i] = combine(held, out[to + i])

    return kernel


def _scaled_kernel(operation: str, *, is_update: bool) -> Any:
    """Return the kernel of an operation whose scale is an operand."""
    reduce = _reduce_kernel(operation, is_update=is_update)

    @jit
    def kernel(  # type: ignore[no-untyped-def]
        x, x_start, x_size, x_stride, out, out_start, out_size, out_stride, scale
    ):
        reduce(x, x_start, x_size, x_stride, out, out_start, out_size, out_stride, scale[0])

    return kernel


def _reduce_law(operation: str, *, is_update: bool) -> Law:
    """Return the law of an operation, `reduce_cycles`."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        result, source = batch.dtype["out"], batch.dtype["x"]
        kind = ReduceKind(operation, source, result, batch.item_bytes["x"], is_update)
        planes, columns, outer, inner = batch.size["x"].T
        # A single column per plane: the planes are the columns.
        is_single = columns == 1
        column_stride = np.where(is_single, batch.stride["x"][:, 0], batch.stride["x"][:, 1])
        sizes = ReduceSizes(
            np.where(is_single, 1, planes),
            np.where(is_single, planes, columns),
            outer,
            inner,
            batch.size["out"][:, 0],
            column_stride,
            batch.stride["x"][:, 2],
            batch.stride["x"][:, 3],
        )
        return reduce_cycles(kind, sizes, machine)

    return law


def _reduce_flops(operation: str, *, is_update: bool) -> Callable[[Batch], NDArray[np.int64]]:
    """Return the count of operations: combined pairs, squares, scaled and updated results."""
    per_pair, is_square = FLOPS_PER_PAIR[operation], operation == "square_sum"
    unscaled = UNSCALED[operation]

    def flops(batch: Batch) -> NDArray[np.int64]:
        results, elements = batch.n_elements("out"), batch.n_elements("x")
        pairs = elements - results + results * is_update
        is_scaled = np.asarray(batch.scalars.get("scale", np.nan)) != unscaled
        scaled = np.where(is_scaled, results, 0)
        counted = pairs * per_pair + elements * is_square + scaled
        return np.asarray(counted * batch.is_float("x"))

    return flops


def _codelet(operation: str, *, is_update: bool, is_scaled: bool = False) -> Codelet:
    """Return the vertex of an operation, whose scale is a number or, if `is_scaled`, an operand.

    Fields: x [plane, column, outer, inner], out [section, plane, column]. A section combines its
    share of the outer groups; of the inner elements if there is one group.
    """
    kind = "ScaledReduce" if is_scaled else "Reduce"
    name = f"popops::{kind}<{operation}{',update' if is_update else ''}>"
    out = Field("out", "inout" if is_update else "out", 3, kind="block")
    scale = (Field("scale", "in", dtype="float32"),) if is_scaled else ()
    make = _scaled_kernel if is_scaled else _reduce_kernel
    return Codelet(
        name,
        (Field("x", "in", 4, kind="block"), out, *scale),
        make(operation, is_update=is_update),
        _reduce_law(operation, is_update=is_update),
        code_bytes=280,
        source="graphcore/poplibs sdk-release-3.4, lib/popops reduction estimators",
        scalars=() if is_scaled else (Scalar("scale", "float"),),
        flops=_reduce_flops(operation, is_update=is_update),
        independent=() if is_scaled else ((0, 1), (1, 2)),
    )


REDUCE = {name: _codelet(name, is_update=False) for name in _FUNCTIONS}
#: The same, combined with what the output holds.
REDUCE_UPDATE = {name: _codelet(name, is_update=True) for name in ("sum", "square_sum", "log_add")}
#: Both with a scale that another tensor holds, by operation and whether the output is updated.
SCALED_REDUCE = {
    (name, is_update): _codelet(name, is_update=is_update, is_scaled=True)
    for is_update, names in ((False, REDUCE), (True, REDUCE_UPDATE))
    for name in names
}
