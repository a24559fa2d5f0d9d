"""Addition in place, a = a + b, of vectors or of blocks of rows.

Laws: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp: BinaryOp1DInPlace and
BinaryOp2DInPlace. Rows are divided among workers as in other elementwise vertices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.popops.elementwise.copy import batch_of_rows
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["ADD_IN_PLACE", "ADD_IN_PLACE_BLOCK", "add_in_place_cycles"]

Counts = NDArray[np.int64]

#: A loop iteration adds one vector in one cycle and has two cycles of overhead.
_LOOP = 3  # Source: the same file, binaryOpInPlacePerfInfo and binaryOpInnerLoopCycles


@jit
def _vector(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        a[i] += b[i]


@jit
def _block(a, a_start, a_size, a_stride, b, b_start, b_size, b_stride):  # type: ignore[no-untyped-def]
    n, a_step, b_step = unsigned(a_size[2]), unsigned(a_stride[2]), unsigned(b_stride[2])
    for p in range(a_size[0]):
        for r in range(a_size[1]):
            target = unsigned(a_start + p * a_stride[0] + r * a_stride[1])
            source = unsigned(b_start + p * b_stride[0] + r * b_stride[1])
            for c in range(n):
                a[target + c * a_step] += b[source + c * b_step]


def _law(batch: Batch, machine: Machine) -> Counts:
    share = worker_share(batch.n_elements("a"), machine)
    worker = 58 + _LOOP * batch.n_vectors(share, "a", machine)
    return np.asarray(start_cycles(11, machine) + machine.n_worker_contexts * worker)


def _block_law(batch: Batch, machine: Machine) -> Counts:
    planes, rows_of_plane, columns = batch.size["a"].T
    n_rows = planes * rows_of_plane
    is_by_row = n_rows >= machine.n_worker_contexts
    rows = np.where(is_by_row, worker_share(n_rows, machine), n_rows)
    columns = np.where(is_by_row, columns, worker_share(columns, machine))
    worker = 20 + rows * _LOOP * batch.n_vectors(columns, "a", machine)
    return np.asarray(machine.n_worker_contexts * worker)


def add_in_place_cycles(
    n_rows: Counts, columns: Counts, dtype: tuple[str, int], machine: Machine
) -> Counts:
    """Return a tile's cycles to add rows of constant stride, or one run: ndarray of int64.

    Parameters
    ----------
    n_rows, columns : ndarray of int64
        Rows, and contiguous elements per row.
    dtype
        Element type and its size in bytes.
    machine
        Source of the worker contexts and the data path.
    """
    blocks, vectors = batch_of_rows({"a": dtype, "b": dtype}, n_rows, columns)
    return np.where(n_rows > 1, _block_law(blocks, machine), _law(vectors, machine))


_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp"

# No operations of their own: they add serial parts of a product, whose additions are counted with
# its multiplications.
ADD_IN_PLACE = Codelet(
    "popops::BinaryOp1DInPlace<add>",
    (Field("a", "inout"), Field("b", "in", size_of="a")),
    _vector,
    _law,
    code_bytes=200,
    source=_SOURCE,
    independent=every_dim(2),
)
ADD_IN_PLACE_BLOCK = Codelet(
    "popops::BinaryOp2DInPlace<add>",
    (Field("a", "inout", 3, kind="block"), Field("b", "in", 3, kind="block", size_of="a")),
    _block,
    _block_law,
    code_bytes=260,
    source=_SOURCE,
    independent=every_dim(2, 3),
)
