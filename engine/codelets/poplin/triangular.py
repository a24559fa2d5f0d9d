"""Vertices of triangular systems and Cholesky factors: one matrix, or a part of one, each.

Laws: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/poplinCycleEstimators.cpp:
TriangularSolve, TriangularSolveMultiWorker, Cholesky, TriangularInverseWithTranspose. FLOPs are
those of the same estimators, where a multiplication that is added counts as two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "CHOLESKY",
    "LOWER_SOLVE",
    "LOWER_SOLVE_ON_ALL_WORKERS",
    "TRIANGULAR_INVERSE",
    "UPPER_SOLVE",
    "UPPER_SOLVE_ON_ALL_WORKERS",
    "VECTOR_ROWS",
]

Counts = NDArray[np.int64]

#: Rows that the vertex on all workers solves at a time; it takes multiples of them.
VECTOR_ROWS = 4


@jit
def _solve_lower(a, b, x):  # type: ignore[no-untyped-def]
    """Substitute forward; the diagonal counts as ones."""
    for i in range(x.shape[0]):
        total = b[i]
        for j in range(i):
            total -= a[i, j] * x[j]
        x[i] = total


@jit
def _solve_upper(a, b, x):  # type: ignore[no-untyped-def]
    """Substitute backward; the diagonal counts as ones."""
    n = x.shape[0]
    for k in range(n):
        i = n - 1 - k
        total = b[i]
        for j in range(i + 1, n):
            total -= a[i, j] * x[j]
        x[i] = total


@jit
def _factorise(a):  # type: ignore[no-untyped-def]
    """Replace the lower triangle by its Cholesky factor; the rest stays as it is."""
    n = a.shape[0]
    for i in range(n):
        for k in range(i + 1):
            total = a[i, k]
            for j in range(k):
                total -= a[i, j] * a[k, j]
            a[i, k] = np.sqrt(total) if i == k else total / a[k, k]


@jit
def _invert(a, out, first):  # type: ignore[no-untyped-def]
    """Compute columns of the inverse of a lower triangle; they are the rows of the result."""
    n = a.shape[0]
    for row in range(out.shape[0]):
        column = first + row
        for i in range(column):
            out[row, i] = 0
        for i in range(column, n):
            total = out[row, column] * 0 + (1 if i == column else 0)
            for j in range(column, i):
                total -= a[i, j] * out[row, j]
            out[row, i] = total / a[i, i]


def _rows(batch: Batch, field: str) -> Counts:
    return np.asarray(batch.size[field][:, 0], np.int64)


def _is_half(batch: Batch, field: str) -> bool:
    return batch.item_bytes[field] == 2


def _substitution_flops(batch: Batch) -> Counts:
    n = _rows(batch, "x")
    return n * (n - 1) // 2 + n


def _lower_law(batch: Batch, machine: Machine) -> Counts:
    del machine
    n = _rows(batch, "x")
    if _is_half(batch, "a"):
        return 3 * n * n // 4 + 318 * n - 150
    return 3 * n * n // 2 + 180 * n - 126


def _upper_law(batch: Batch, machine: Machine) -> Counts:
    del machine
    n = _rows(batch, "x")
    if _is_half(batch, "a"):
        return 135 * n * n // 16 + 1089 * n // 4 + 12
    return 27 * n * n // 4 + 327 * n // 2 + 54


def _shared(
    batch: Batch, machine: Machine, supervisor: tuple[int, int], worker: tuple[int, int]
) -> Counts:
    """Return cycles of substitution by all workers, four rows after the other.

    Parameters
    ----------
    supervisor
        Cycles outside of its loop, and in a round.
    worker
        Cycles outside of its loop, and for the rows that it brings up to date at a time.
    """
    n = _rows(batch, "x")
    rows_at_a_time = 2 if _is_half(batch, "a") else 1
    rounds = n // VECTOR_ROWS
    rows = (n - VECTOR_ROWS) / (machine.n_worker_contexts * rows_at_a_time) / 2
    of_workers = (worker[1] * rows + worker[0]) * rounds * machine.n_worker_contexts
    return np.asarray(of_workers, np.int64) + supervisor[1] * rounds + supervisor[0]


def _shared_lower_law(batch: Batch, machine: Machine) -> Counts:
    return _shared(batch, machine, (21, 9), (112, 17) if _is_half(batch, "a") else (74, 11))


def _shared_upper_law(batch: Batch, machine: Machine) -> Counts:
    return _shared(batch, machine, (42, 6), (145, 17) if _is_half(batch, "a") else (99, 10))


def _factor_law(batch: Batch, machine: Machine) -> Counts:
    del machine
    n = _rows(batch, "a")
    if _is_half(batch, "a"):
        return np.asarray(n * n * n // 2 + 795 * n * n // 4 + 191 * n // 2 + 426)
    return np.asarray(n * n * n + 102 * n * n + 101 * n + 102)


def _factor_flops(batch: Batch) -> Counts:
    n = _rows(batch, "a")
    return np.asarray(n + (n + 1) * n // 2 * 2 + 2 * ((n + 1) * n * (n - 1) // 6))


def _inverse_law(batch: Batch, machine: Machine) -> Counts:
    del machine
    n = _rows(batch, "a")
    if _is_half(batch, "a"):
        return np.asarray(7 * n * n * n + 123 * n * n + 269 * n - 24)
    return np.asarray(6 * n * n * n + 51 * n * n + 213 * n + 12)


def _inverse_flops(batch: Batch) -> Counts:
    n = _rows(batch, "a")
    return np.asarray(n + n * (n - 1) // 2 + 2 * ((n + 1) * n * (n - 1) // 6))


_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/poplin/poplinCycleEstimators.cpp"
_SYSTEM = (
    Field("a", "in", 2, kind="view"),
    Field("b", "in", 1, kind="view", dtype_of="a"),
    Field("x", "out", 1, kind="view", dtype_of="a", size_of="b"),
)


def _solve(name: str, kernel: object, law: object, code_bytes: int, *, is_shared: bool) -> Codelet:
    return Codelet(
        name,
        _SYSTEM,
        kernel,
        law,  # type: ignore[arg-type]
        code_bytes=code_bytes,
        source=_SOURCE,
        flops=_substitution_flops,
        is_supervisor=is_shared,
    )


LOWER_SOLVE = _solve(
    "poplin::TriangularSolve<true>", _solve_lower, _lower_law, 320, is_shared=False
)
UPPER_SOLVE = _solve(
    "poplin::TriangularSolve<false>", _solve_upper, _upper_law, 320, is_shared=False
)
LOWER_SOLVE_ON_ALL_WORKERS = _solve(
    "poplin::TriangularSolveMultiWorker<true>",
    _solve_lower, _shared_lower_law, 480, is_shared=True,
)  # fmt: skip
UPPER_SOLVE_ON_ALL_WORKERS = _solve(
    "poplin::TriangularSolveMultiWorker<false>",
    _solve_upper, _shared_upper_law, 480, is_shared=True,
)  # fmt: skip
CHOLESKY = Codelet(
    "poplin::Cholesky<true>",
    (Field("a", "inout", 2, kind="view"),),
    _factorise,
    _factor_law,
    code_bytes=400,
    source=_SOURCE,
    flops=_factor_flops,
    is_supervisor=False,
)
TRIANGULAR_INVERSE = Codelet(
    "poplin::TriangularInverseWithTranspose",
    (
        Field("a", "in", 2, kind="view"),
        Field("out", "out", 2, kind="view", dtype_of="a"),
    ),
    _invert,
    _inverse_law,
    code_bytes=360,
    source=_SOURCE,
    scalars=(Scalar("first"),),
    flops=_inverse_flops,
)
