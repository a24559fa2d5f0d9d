"""Reductions over dimensions of a tensor, and of their partial results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.reduce_law import (
    ReduceKind,
    ReduceSizes,
    ReduceWork,
    reduce_work,
)
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, SharedWork
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._extremes import maximum, minimum
from tilescope.engine.host.kernels._indices import unsigned
from tilescope.engine.host.kernels._reduce_lanes import (
    COLUMNS,
    LANES,
    column_reduction,
    row_reduction,
)
from tilescope.engine.host.kernels._work_arrays import stack_array_of

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

#: The exponential of less is 0 as float64.
_LEAST = -746.0


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
    # Below, the exponential is 0; parts often hold the logarithm of nothing.
    if minimum(a, b) - largest < _LEAST:
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

#: Scale that leaves a result as it is: a logarithm is multiplied by adding.
UNSCALED = {name: 0.0 if name == "log_add" else 1.0 for name in _FUNCTIONS}


def _scaling(operation: str) -> Any:
    """Return how a result is scaled; logarithms are multiplied by adding."""
    return _sum if operation == "log_add" else _product


def _loops(operation: str) -> tuple[Any, Any, Any]:
    """Return the loops over the elements of a result, over contiguous ones, and over columns."""
    prepare, combine = _FUNCTIONS[operation]

    @jit
    def in_order(x, start, steps):  # type: ignore[no-untyped-def]
        outer, outer_step, inner, inner_step = steps
        total = prepare(x[start])
        step = unsigned(inner_step)
        for j in range(outer):
            row = unsigned(start + j * outer_step)
            for k in range(unsigned(1 if j == 0 else 0), unsigned(inner)):
                total = combine(total, prepare(x[row + k * step]))
        return total

    @jit
    def contiguous(x, start, outer, outer_step, inner):  # type: ignore[no-untyped-def]
        return in_order(x, start, (outer, outer_step, inner, 1))

    @jit
    def add_columns(x, offset, steps, totals, n):  # type: ignore[no-untyped-def]
        outer, outer_step, inner, inner_step = steps
        for j in range(outer):
            for k in range(inner):
                row = unsigned(offset + j * outer_step + k * inner_step)
                if j + k == 0:
                    for i in range(unsigned(n)):
                        totals[i] = prepare(x[row + i])
                else:
                    for i in range(unsigned(n)):
                        totals[i] = combine(totals[i], prepare(x[row + i]))

    return in_order, contiguous, add_columns


def _reduce_kernel(operation: str, *, is_update: bool) -> Any:
    """Return the kernel of an operation; the loops follow the contiguous dimension.

    There are no slices: each would count a reference.
    """
    combine = _FUNCTIONS[operation][1]
    in_order, contiguous, add_columns = _loops(operation)
    scaled = _scaling(operation)
    unscaled = UNSCALED[operation]
    of_row = row_reduction(operation, contiguous)
    of_columns = column_reduction(operation, add_columns)
    columns = stack_array_of(COLUMNS + LANES)

    @jit
    def store(out, to, total, scale):  # type: ignore[no-untyped-def]
        held = out[to]
        out[to] = total
        if scale != unscaled:  # integers wrap around, as on the machine
            out[to] = scaled(out[to], scale)
        if is_update:
            out[to] = combine(held, out[to])

    @jit
    def wide(x, start, x_stride, steps, out, to, out_size, out_stride, scale):  # type: ignore[no-untyped-def]
        """Combine contiguous columns; planes that adjoin are one row."""
        n_planes, n = out_size[1], out_size[2]
        n_joined = n_planes if x_stride[0] == n else 1
        totals = columns(out)
        for first in range(0, n_planes, n_joined):
            plane, i = first, 0
            for finished in range(0, n_joined * n, COLUMNS):
                count = min(COLUMNS, n_joined * n - finished)
                of_columns(x, start + first * x_stride[0] + finished, steps, totals, count)
                for column in range(count):  # columns are contiguous
                    store(out, to + plane * out_stride[1] + i, totals[column], scale)
                    i += 1
                    if i == n:
                        plane, i = plane + 1, 0

    @jit
    def kernel(  # type: ignore[no-untyped-def]
        x, x_start, x_size, x_stride, out, out_start, out_size, out_stride, scale
    ):
        n_planes, n = out_size[1], out_size[2]
        outer, inner = x_size[2], x_size[3]
        d = 2 if outer > 1 else 3
        end = 0
        for section in range(out_size[0]):
            start = x_start + end * x_stride[d]
            to = out_start + section * out_stride[0]
            share = (section + 1) * x_size[d] // out_size[0] - end
            end += share
            if d == 2:
                outer = share
            else:
                inner = share
            steps = (outer, x_stride[2], inner, x_stride[3])
            if x_stride[1] == 1 and n > 1:
                wide(x, start, x_stride, steps, out, to, out_size, out_stride, scale)
                continue
            for plane in range(n_planes):
                for i in range(n):  # columns are contiguous
                    offset = start + plane * x_stride[0] + i * x_stride[1]
                    if x_stride[3] == 1:
                        total = of_row(x, offset, outer, x_stride[2], inner)
                    else:
                        total = in_order(x, offset, steps)
                    store(out, to + plane * out_stride[1] + i, total, scale)

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


def _reduce_work(operation: str, *, is_update: bool) -> SharedWork:
    """Return the cost of an operation's vertices, by `reduce_work`."""

    def work(batch: Batch, machine: Machine) -> ReduceWork:
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
        return reduce_work(kind, sizes, machine)

    return SharedWork(
        0,
        0,
        lambda batch, machine: work(batch, machine).total,
        lambda batch, machine: work(batch, machine).longest,
    )


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
    work = _reduce_work(operation, is_update=is_update)
    return Codelet(
        name,
        (Field("x", "in", 4, kind="block"), out, *scale),
        make(operation, is_update=is_update),
        work.total,
        code_bytes=280,
        source="graphcore/poplibs sdk-release-3.4, lib/popops reduction estimators",
        scalars=() if is_scaled else (Scalar("scale", "float"),),
        flops=_reduce_flops(operation, is_update=is_update),
        is_supervisor=False,
        pieces=work,
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
