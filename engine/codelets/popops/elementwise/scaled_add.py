"""Scaled addition in place: a = a + s b, of vectors or of blocks with any strides.

Laws: graphcore/poplibs sdk-release-3.4, lib/popops/PerformanceEstimation.cpp,
getScaledArithmeticSupervisorCycleEstimate, and lib/popops/popopsCycleEstimators.cpp,
ScaledArithmetic2DCycleEstimate. A loop takes 3 cycles per vector. If a lies in interleaved
memory and b in other memory elements, it takes 2, or 1 from 16 vectors per worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["SCALED_ADD", "SCALED_ADD_BLOCK", "SCALED_ADD_BLOCK_FAST", "SCALED_ADD_FAST"]

Counts = NDArray[np.int64]

#: Vectors per worker from which the fast loop takes one cycle per vector.
_LONG = 16


@jit
def _vector(a, b, scale):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        a[i] += scale[0] * b[i]


@jit
def _block(  # type: ignore[no-untyped-def]
    a, a_start, a_size, a_stride, b, b_start, b_size, b_stride, scale
):
    for p in range(a_size[0]):
        for r in range(a_size[1]):
            target = a_start + p * a_stride[0] + r * a_stride[1]
            source = b_start + p * b_stride[0] + r * b_stride[1]
            for c in range(a_size[2]):
                a[target + c * a_stride[2]] += scale[0] * b[source + c * b_stride[2]]


def _law(*, constrained: bool) -> Any:
    def law(batch: Batch, machine: Machine) -> Counts:
        """Return the tile's cycles; the worker after the last with an extra vector has the tail.

        The source gives no worker an extra vector, as it compares an unsigned number with zero.
        Here the first workers take the remaining vectors, as in the vertex itself.
        """
        workers = machine.n_worker_contexts
        is_half = batch.item_bytes["a"] == 2
        per_vector = machine.data_path_bytes // batch.item_bytes["a"]
        vectors, rest = np.divmod(batch.n_elements("a"), per_vector)
        of_all, remainder = np.divmod(vectors, workers)
        fast = np.where(of_all >= _LONG, 1, 2)
        loop = np.where(batch.is_fast, fast, 3) if constrained else np.int64(3)

        def worker(count: Counts) -> Counts:
            return np.asarray(15 + 2 + 1 + np.where(count > 0, 6 + loop * (count - 1), 0))

        costs = np.array([0, 0, 7, 13]) if is_half else np.array([0, 8])
        left_over = np.where(rest > 0, (5 if is_half else 0) + costs[rest], 0)
        slowest = np.maximum(
            worker(of_all) + 1 + left_over, np.where(remainder > 0, worker(of_all + 1), 0)
        )
        begin = start_cycles(21 + 11 + 12 + 6 + 7, machine) + np.where(rest > 0, 6, 0)
        return np.asarray(begin + workers * slowest)

    return law


def _block_law(*, constrained: bool) -> Any:
    def law(batch: Batch, machine: Machine) -> Counts:
        """Return the tile's cycles; strided elements are rows of one."""
        workers = machine.n_worker_contexts
        is_half = batch.item_bytes["a"] == 2
        per_vector = machine.data_path_bytes // batch.item_bytes["a"]
        planes, rows_of_plane, columns = batch.size["a"].T
        n_rows = planes * rows_of_plane
        is_apart = (batch.stride["a"][:, 2] != 1) | (batch.stride["b"][:, 2] != 1)
        is_apart &= columns > 1
        n_rows = np.where(is_apart, n_rows * columns, n_rows)
        columns = np.where(is_apart, 1, columns)
        by_row = n_rows >= workers
        rows = np.where(by_row, worker_share(n_rows, machine), n_rows)
        columns = np.where(by_row, columns, worker_share(columns, machine))
        loop = np.where(batch.is_fast, 2, 3) if constrained else np.int64(3)
        vectors, rest = np.divmod(columns, per_vector)
        costs = np.array([0, 4 + 7, 4 + 6, 4 + 6 + 7]) if is_half else np.array([0, 7])
        row = 15 + np.where(vectors > 0, 5 + loop * vectors, 0) + costs[rest]
        return np.asarray(workers * (10 + rows * row))

    return law


def _flops(batch: Batch) -> Counts:
    return 2 * batch.n_elements("a")


def _codelets(name: str, *, constrained: bool) -> tuple[Codelet, Codelet]:
    """Return the vertices of vectors and of blocks, with or without memory constraints."""
    source = "graphcore/poplibs sdk-release-3.4, lib/popops: scaled arithmetic estimators"
    # Source of the memory constraints: the same release,
    # lib/popops/codelets/elemwiseScaledAddCodelets.cpp; the second vertex needs no interleaving.
    apart = (("a", "b"),) if constrained else ()
    scale = Field("scale", "in")
    vector = Codelet(
        f"popops::ScaledAddSupervisor{name}",
        (Field("a", "inout", interleaved=constrained), Field("b", "in"), scale),
        _vector,
        _law(constrained=constrained),
        code_bytes=300,
        source=source,
        flops=_flops,
        apart=apart,
        has_slow_path=constrained,
    )
    block = Codelet(
        f"popops::ScaledAdd2D{name}",
        (Field("a", "inout", 3, kind="block"), Field("b", "in", 3, kind="block"), scale),
        _block,
        _block_law(constrained=constrained),
        code_bytes=320,
        source=source,
        flops=_flops,
        apart=apart,
        has_slow_path=constrained,
    )
    return vector, block


SCALED_ADD, SCALED_ADD_BLOCK = _codelets("", constrained=False)
#: The same, with the memory constraints of the fast loop.
SCALED_ADD_FAST, SCALED_ADD_BLOCK_FAST = _codelets("<constrained>", constrained=True)
