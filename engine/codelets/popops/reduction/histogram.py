"""Histograms: how many elements lie between limits.

Law: graphcore/poplibs sdk-release-3.4, lib/popops/HistogramPerformanceEstimation.cpp: the cheaper
of work divided by data and work divided by limits, as lib/popops/GatherStatistics.cpp chooses.
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

__all__ = ["HISTOGRAM"]

Counts = NDArray[np.int64]


@jit
def _histogram(data, limits, histogram, is_absolute):  # type: ignore[no-untyped-def]
    for i in range(histogram.size):
        histogram[i] = 0
    for i in range(data.size):
        value = data[i]
        if is_absolute:
            value = abs(value)
        low, high = 0, limits.size
        while low < high:
            middle = (low + high) // 2
            if value < limits[middle]:
                high = middle
            else:
                low = middle + 1
        histogram[low] += 1


def _odd(elements: Counts, cost: Counts, is_half: bool) -> Counts:
    """Return the cycles of the elements beyond whole vectors."""
    return (elements & 1) * cost + is_half * ((elements >> 1) & 1) * cost


def _law(batch: Batch, machine: Machine) -> Counts:
    workers = machine.n_worker_contexts
    elements = batch.n_elements("data")
    limits = batch.n_elements("limits")
    is_half = batch.item_bytes["data"] == 2
    is_absolute = np.asarray(batch.scalars["is_absolute"])
    vectors = elements // (machine.data_path_bytes // batch.item_bytes["data"])
    loop = 3 + is_absolute

    remainder = _odd(elements, (3 if is_half else 2) + is_absolute, is_half)
    per_limit = (17 if is_half else 11) + remainder + loop * vectors
    by_limit = 22 + per_limit * worker_share(limits, machine) + 8 + 2 * limits

    remainder = _odd(elements, 3 + is_absolute, is_half)
    per_limit = (19 if is_half else 17) + remainder + loop * worker_share(vectors, machine)
    by_data = 23 + (5 if is_half else 4) + per_limit * limits + 10
    return np.asarray(workers * np.minimum(by_limit, by_data))


def _flops(batch: Batch) -> Counts:
    """Count one per element, and one more for its absolute value, as the estimator does."""
    per_element = 1 + np.asarray(batch.scalars["is_absolute"])
    return np.asarray(batch.n_elements("data") * per_element)


HISTOGRAM = Codelet(
    "popops::Histogram1D",
    (
        Field("data", "in"),
        Field("limits", "in", dtype_of="data"),
        Field("histogram", "out", dtype="float32"),
    ),
    _histogram,
    _law,
    code_bytes=300,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/HistogramPerformanceEstimation.cpp",
    scalars=(Scalar("is_absolute"),),
    flops=_flops,
)
