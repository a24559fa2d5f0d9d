"""Cycles of a reduction vertex, by operation, types and layout of its operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.law import worker_share

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["ReduceKind", "ReduceSizes", "ReduceWork", "reduce_work"]

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


class ReduceWork(NamedTuple):
    """Instructions of vertices: ndarrays of int64, shape (n,).

    Parameters
    ----------
    total
        Of all workers that share the vertex.
    longest
        Of the busiest of them.
    """

    total: Counts
    longest: Counts


def reduce_work(kind: ReduceKind, sizes: ReduceSizes, machine: Machine) -> ReduceWork:
    """Return the instructions of vertices by layout.

    Reduced elements side by side are combined in data-path vectors, outputs side by side in vectors
    of outputs, everything else element by element. Outputs, and the sections of an output, are
    divided among the workers of the tile, as are all its vertices.

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
    units = rows * sizes.columns
    n_reduced = outer * inner
    if kind.is_logical:
        return _shared(units, 31, 8 + (22 + 25) * n_reduced, machine)
    is_log = kind.operation == "log_add"
    per_vector = kind.vector(machine)
    is_half = kind.item_bytes == 2

    width, per_step = (1, 20) if is_log else (per_vector, 1)
    per_output = 12 + (outer - 1) * 3 + outer * per_step * (inner // width) + 2 * (inner & 1)
    contiguous = _shared(units, 17 + kind.is_update, per_output, machine)

    # Of remainders: the binary logarithm of a vector for accumulators, of 8 halves or 4 floats.
    checks = 0 if per_vector == 1 else 3 if is_half else 2
    per_output = 24 + 2 * checks + 7 + kind.is_update + 16 * n_reduced
    one_by_one = _shared(units, 33, per_output, machine)
    if is_log:
        one_by_one = _shared(units, 31, 8 + (22 + 36) * n_reduced, machine)

    is_contiguous = (sizes.inner_stride == 1) | (sizes.inner == 1) & (sizes.outer_stride == 1)
    is_contiguous |= n_reduced == 1
    is_strided = (sizes.column_stride == 1) & (sizes.columns > 1)
    strided = _strided(kind, rows, sizes.columns, outer, inner, machine)
    scattered = _where(is_strided, strided, one_by_one)
    is_quicker = contiguous.longest <= scattered.longest
    return _where(is_contiguous & is_quicker, contiguous, scattered)


def _strided(
    kind: ReduceKind, rows: Counts, columns: Counts, outer: Counts, inner: Counts, machine: Machine
) -> ReduceWork:
    """Return the instructions of vertices over vectors of outputs."""
    is_half, is_log = kind.item_bytes == 2, kind.operation == "log_add"
    in_row = -(-columns // kind.vector(machine))
    # Workers take two vectors of a sum at a time.
    grain = np.minimum(2 if kind.family == "add" else 1, in_row)
    groups = rows * -(-in_row // grain)
    vectors = worker_share(groups, machine) * grain
    after = (_AFTER_HALVES if is_half else _AFTER_FLOATS)[
        kind.result if kind.result == "float16" else "float32", kind.family
    ]
    per_step = (13 if is_half else 23) if is_log else 1
    post = after[kind.is_update] + (1 if is_half else 3 if kind.family == "add" else 2)
    per_vector = 3 + post + outer * (3 + per_step * (inner - 1))
    longest = 16 * -(-vectors // in_row) + vectors * per_vector
    starts = np.maximum(rows, np.minimum(groups, machine.n_worker_contexts))
    total = 16 * starts + rows * in_row * per_vector
    return ReduceWork(total, np.maximum(longest, worker_share(total, machine)))


def _shared(units: Counts, start: int, of_unit: Counts, machine: Machine) -> ReduceWork:
    """Return the instructions of vertices whose units the workers share, after a start of each."""
    n_used = np.minimum(units, machine.n_worker_contexts)
    longest = start + worker_share(units, machine) * of_unit
    return ReduceWork(np.asarray(n_used * start + units * of_unit), np.asarray(longest))


def _where(condition: NDArray[np.bool_], left: ReduceWork, right: ReduceWork) -> ReduceWork:
    """Return the work of the left vertices where a condition holds, and of the right elsewhere."""
    return ReduceWork(*(np.where(condition, *pair) for pair in zip(left, right, strict=True)))
