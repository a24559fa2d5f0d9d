"""Cycles of a reduction vertex, by operation, types and layout of its operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.law import worker_share

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["ReduceKind", "ReduceSizes", "reduce_cycles"]

Counts = NDArray[np.int64]

#: Cycles after a vector of halves, by result and operation: without an update, and with it.
_AFTER_HALVES = {
    ("float16", "add"): (7, 9),
    ("float16", "other"): (7, 10),
    ("float16", "log_add"): (7, 22),
    ("float32", "add"): (6, 11),
    ("float32", "other"): (7, 10),
    ("float32", "log_add"): (7, 56),
}
#: The same after a vector of floats.
_AFTER_FLOATS = {
    ("float16", "add"): (2, 4),
    ("float16", "other"): (2, 4),
    ("float16", "log_add"): (2, 13),
    ("float32", "add"): (2, 5),
    ("float32", "other"): (2, 5),
    ("float32", "log_add"): (2, 27),
}


@dataclass(frozen=True)
class ReduceKind:
    """The operation and types of a reduction vertex.

    Parameters
    ----------
    operation
        A name of `tilescope.engine.codelets.popops.reduction.reduce.REDUCE`.
    source, result
        Names of the types of operand and result.
    item_bytes
        Bytes of an element of the operand.
    is_update
        Whether the result is added to what the output holds.
    """

    operation: str
    source: str
    result: str
    item_bytes: int
    is_update: bool = False

    @property
    def is_logical(self) -> bool:
        """Whether the loops are in C++."""
        return self.operation.startswith("logical")

    def vector(self, machine: Machine) -> int:
        """Return the elements that are combined at once: one, except of half and float."""
        return machine.data_path_bytes // self.item_bytes if self.source.startswith("float") else 1

    @property
    def family(self) -> str:
        """Key of the cycles after a vector."""
        if self.operation in ("sum", "square_sum"):
            return "add"
        return "log_add" if self.operation == "log_add" else "other"


@dataclass(frozen=True)
class ReduceSizes:
    """Extents and strides of the vertices' operands.

    Parameters
    ----------
    planes, columns, outer, inner : ndarray of int64, shape (n,)
        Outputs in planes of columns; reduced elements in outer groups of inner ones.
    sections : ndarray of int64, shape (n,)
        Shares of the reduced elements; every share gives a result of its own.
    column_stride, outer_stride, inner_stride : ndarray of int64, shape (n,)
        Distance between the elements of the operand.
    """

    planes: Counts
    columns: Counts
    outer: Counts
    inner: Counts
    sections: Counts
    column_stride: Counts
    outer_stride: Counts
    inner_stride: Counts


def reduce_cycles(kind: ReduceKind, sizes: ReduceSizes, machine: Machine) -> Counts:
    """Return the cycles of vertices by layout: ndarray of int64, shape (n,).

    Reduced elements side by side are combined in data-path vectors, outputs side by side in vectors
    of outputs, everything else element by element. Outputs, and the sections of an output, are
    divided among the workers.

    Parameters
    ----------
    kind
        Operation and types.
    sizes
        Extents and strides.
    machine
        Supplies workers and the width of the data path.

    Notes
    -----
    Logical operations, and log-add of what is not side by side, are C++ code.
    Square-add takes as long as add, all others of the vector unit as long as the maximum.
    Assumption: several contiguous regions of an output cost 3 each; a worker starts one vertex per
    row of its outputs. Workers share outputs by the grain of findGrainSizeForOp in
    ReductionStages.cpp.
    Source: graphcore/poplibs sdk-release-3.4, lib/popops/reduction/CycleEstimationFunctions.cpp:
    getCycleEstimateReduceAllRegionsContinuous, getCyclesEstimateForStridedReduce,
    getCyclesEstimateForReduce.
    """
    outer = np.where(sizes.outer > 1, -(-sizes.outer // sizes.sections), 1)
    inner = np.where(sizes.outer > 1, sizes.inner, -(-sizes.inner // sizes.sections))
    rows = sizes.planes * sizes.sections
    share = worker_share(rows * sizes.columns, machine)
    n_reduced = outer * inner
    workers = machine.n_worker_contexts
    if kind.is_logical:
        return np.asarray(workers * (31 + share * (8 + (22 + 25) * n_reduced)))
    is_log = kind.operation == "log_add"
    per_vector = kind.vector(machine)
    is_half = kind.item_bytes == 2

    width, per_step = (1, 20) if is_log else (per_vector, 1)
    per_output = 12 + (outer - 1) * 3 + outer * per_step * (inner // width) + 2 * (inner & 1)
    contiguous = workers * (17 + share * per_output + kind.is_update)

    in_row = -(-sizes.columns // per_vector)
    # Workers take two vectors of a sum at a time.
    grain = np.minimum(2 if kind.family == "add" else 1, in_row)
    vectors = worker_share(rows * -(-in_row // grain), machine) * grain
    starts = -(-vectors // in_row)
    after = (_AFTER_HALVES if is_half else _AFTER_FLOATS)[
        kind.result if kind.result == "float16" else "float32", kind.family
    ]
    per_step = (13 if is_half else 23) if is_log else 1
    post = after[kind.is_update] + (1 if is_half else 3 if kind.family == "add" else 2)
    strided = workers * (16 * starts + vectors * (3 + post + outer * (3 + per_step * (inner - 1))))

    # Of remainders: the binary logarithm of a vector for accumulators, of 8 halves or 4 floats.
    checks = 0 if per_vector == 1 else 3 if is_half else 2
    one_by_one = workers * (33 + share * (24 + 2 * checks + 7 + kind.is_update + 16 * n_reduced))
    if is_log:
        one_by_one = workers * (31 + share * (8 + (22 + 36) * n_reduced))

    is_contiguous = (sizes.inner_stride == 1) | (sizes.inner == 1) & (sizes.outer_stride == 1)
    is_contiguous |= n_reduced == 1
    is_strided = (sizes.column_stride == 1) & (sizes.columns > 1)
    scattered = np.where(is_strided, strided, one_by_one)
    return np.asarray(np.where(is_contiguous, np.minimum(contiguous, scattered), scattered))
