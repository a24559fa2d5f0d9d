"""Reductions: of partial sums, and over any dimensions of a tensor.

Laws: graphcore/poplibs sdk-release-3.4, lib/poplin and lib/popops cycle estimators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.codelets._jit import jit
from engine.codelets.codelet import Batch, Codelet, Field, Scalar, worker_share

if TYPE_CHECKING:
    from engine.machine import Machine

__all__ = ["REDUCE", "REDUCE_PARTIALS"]


@jit
def _sum_partials(partials, start, size, stride, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = partials[start + i * stride[1]]
    for p in range(1, size[0]):
        source = start + p * stride[0]
        for i in range(out.size):
            out[i] += partials[source + i * stride[1]]


def _partials_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    """Share out groups of 16 bytes; 2 cycles a partial and group where not interleaved.

    Source: poplin PerformanceEstimation.hpp, getReduceCycleEstimate of a single input.
    """
    n_partials, n_outputs = batch.size["partials"].T
    groups = -(-n_outputs * batch.item_bytes["out"] // (2 * machine.data_path_bytes))
    share = worker_share(groups, machine)
    around = 8 if batch.item_bytes["partials"] == 4 else 9
    return np.asarray(33 + machine.n_worker_contexts * (20 + (2 * n_partials + around) * share))


def _partials_flops(batch: Batch) -> NDArray[np.int64]:
    return np.asarray((batch.size["partials"][:, 0] - 1) * batch.size["partials"][:, 1])


REDUCE_PARTIALS = Codelet(
    "poplin::ReducePartials",
    (Field("partials", "in", 2, kind="block"), Field("out", "out")),
    _sum_partials,
    _partials_law,
    code_bytes=200,
    source="graphcore/poplibs sdk-release-3.4, lib/poplin: getReduceCycleEstimate, one region",
    flops=_partials_flops,
)


@jit
def _sum(a: float, b: float) -> float:
    return a + b


@jit
def _maximum(a: float, b: float) -> float:
    return a if a > b or a != a else b


@jit
def _minimum(a: float, b: float) -> float:
    return a if a < b or a != a else b


@jit
def _product(a: float, b: float) -> float:
    return a * b


def _reduce_kernel(combine: Any) -> Any:
    @jit
    def kernel(x, start, size, stride, out, scale):  # type: ignore[no-untyped-def]
        for i in range(out.size):
            first = start + i * stride[0]
            total = x[first]
            for j in range(size[1]):
                row = first + j * stride[1]
                for k in range(size[2]):
                    if j + k > 0:
                        total = combine(total, x[row + k * stride[2]])
            out[i] = total * scale

    return kernel


def _reduce_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    """Return the law of the way the partials lie; outputs are shared out to the workers.

    Contiguous partials go by data-path vectors, contiguous outputs with partials at a distance by
    vectors of outputs, everything else element by element.

    Source: popops reduction/CycleEstimationFunctions.cpp:
    getCycleEstimateReduceAllRegionsContinuous, getCyclesEstimateForStridedReduce,
    getCyclesEstimateForReduce. Assumption: several contiguous regions of an output cost 3 each.
    """
    workers = machine.n_worker_contexts
    n_outputs, outer, inner = batch.size["x"].T
    between_outputs, between_outer, between_inner = batch.stride["x"].T
    is_half = batch.item_bytes["x"] == 2
    per_vector = machine.data_path_bytes // batch.item_bytes["x"]
    share = worker_share(n_outputs, machine)
    n_reduced = outer * inner

    per_output = 12 + (outer - 1) * 3 + outer * (inner // per_vector) + 2 * (inner & 1)
    contiguous = workers * (17 + share * per_output)

    vectors = worker_share(-(-n_outputs // per_vector), machine)
    after = 8 if is_half else 5
    strided = workers * (16 + vectors * (3 + after + outer * (3 + inner - 1)))

    checks = 3 if is_half else 2
    one_by_one = workers * (33 + share * (24 + 2 * checks + 7 + 16 * n_reduced))

    is_contiguous = (between_inner == 1) | ((inner == 1) & (between_outer == 1)) | (n_reduced == 1)
    is_strided = (between_outputs == 1) & (n_outputs > 1)
    others = np.where(is_strided, strided, one_by_one)
    return np.asarray(np.where(is_contiguous, contiguous, others))


def _reduce_flops(batch: Batch) -> NDArray[np.int64]:
    return batch.n_elements("x")


REDUCE = {
    name: Codelet(
        f"popops::Reduce<{name}>",
        (Field("x", "in", 3, kind="block"), Field("out", "out")),
        _reduce_kernel(combine),
        _reduce_law,
        code_bytes=280,
        source="graphcore/poplibs sdk-release-3.4, lib/popops reduction estimators",
        scalars=(Scalar("scale", "float"),),
        flops=_reduce_flops,
    )
    for name, combine in {
        "sum": _sum,
        "maximum": _maximum,
        "minimum": _minimum,
        "product": _product,
    }.items()
}
