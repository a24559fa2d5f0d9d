"""Cumulative sums of rows, and the sum of all rows before added to each.

Assumption: no public library has such a vertex (PopART multiplies by a triangular matrix). An
element takes a load, an addition and a store, 3 cycles, as in the binary operations of
graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp, without vectors, because
every sum depends on the one before. The frame of a vertex and of a row is also that of binary
operations. Rows are divided among the workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["ADD_CARRY", "CUMULATIVE_SUM"]

Counts = NDArray[np.int64]

_SOURCE = "Assumption: a scalar binary operation of graphcore/poplibs sdk-release-3.4"
_PER_ELEMENT = 3
_PER_ROW = 10
_START = 26


@jit
def _cumulative_sum(  # type: ignore[no-untyped-def]
    x, x_start, size, x_stride, out, out_start, out_size, out_stride,
    total, total_start, total_size, total_stride, is_exclusive,
):  # fmt: skip
    for p in range(size[0]):
        for r in range(size[1]):
            offset = x_start + p * x_stride[0] + r * x_stride[1]
            to = out_start + p * out_stride[0] + r * out_stride[1]
            carry = x[offset]
            if is_exclusive:
                out[to] = x[offset] - x[offset]
            else:
                out[to] = carry
            for c in range(1, size[2]):
                value = x[offset + c * x_stride[2]]
                if is_exclusive:
                    out[to + c * out_stride[2]] = carry
                carry += value
                if not is_exclusive:
                    out[to + c * out_stride[2]] = carry
            total[total_start + p * total_stride[0] + r * total_stride[1]] = carry


@jit
def _add_carry(  # type: ignore[no-untyped-def]
    out, start, size, stride, carry, carry_start, carry_size, carry_stride
):
    for p in range(size[0]):
        for r in range(size[1]):
            value = carry[carry_start + p * carry_stride[0] + r * carry_stride[1]]
            row = start + p * stride[0] + r * stride[1]
            for c in range(size[2]):
                out[row + c * stride[2]] += value


def _law(batch: Batch, machine: Machine) -> Counts:
    planes, rows, columns = batch.size["out"].T
    share = worker_share(planes * rows, machine)
    worker = _START + share * (_PER_ROW + _PER_ELEMENT * columns)
    return np.asarray(11 + machine.n_worker_contexts * worker)


def _add_carry_law(batch: Batch, machine: Machine) -> Counts:
    """Return the law of a broadcast operation in place: 2 cycles per vector, as popops counts."""
    planes, rows, columns = batch.size["out"].T
    share = worker_share(planes * rows, machine)
    worker = 20 + share * (_PER_ROW + 2 * batch.n_vectors(columns, "out", machine))
    return np.asarray(11 + machine.n_worker_contexts * worker)


def _flops(batch: Batch) -> Counts:
    return np.asarray(batch.n_elements("out") * batch.is_float("out"))


CUMULATIVE_SUM = Codelet(
    "tilescope::CumulativeSum",
    (
        Field("x", "in", 3, kind="block"),
        Field("out", "out", 3, kind="block", dtype_of="x", size_of="x"),
        Field("total", "out", 2, kind="block", dtype_of="x"),
    ),
    _cumulative_sum,
    _law,
    code_bytes=160,
    source=_SOURCE,
    scalars=(Scalar("is_exclusive"),),
    flops=_flops,
)
# No operations of its own: an element of a cumulative sum counts once, however it is split.
ADD_CARRY = Codelet(
    "popops::BroadcastVectorOuterInPlace<add>",
    (
        Field("out", "inout", 3, kind="block"),
        Field("carry", "in", 2, kind="block", dtype_of="out"),
    ),
    _add_carry,
    _add_carry_law,
    code_bytes=160,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp",
)
