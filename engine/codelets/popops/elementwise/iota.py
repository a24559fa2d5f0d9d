"""Ascending integers.

Law: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp, Iota: 10 cycles, 4 per
row and 3 per vector; a row is divided among the workers.
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

__all__ = ["IOTA"]


@jit
def _iota(out, start, size, stride, begin):  # type: ignore[no-untyped-def]
    for r in range(size[0]):
        for c in range(size[1]):
            out[start + r * stride[0] + c * stride[1]] = begin + c


def _law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    rows, columns = batch.size["out"].T
    vectors = batch.n_vectors(worker_share(columns, machine), "out", machine)
    return np.asarray(machine.n_worker_contexts * (10 + rows * (4 + 3 * vectors)))


IOTA = Codelet(
    "popops::Iota",
    (Field("out", "out", 2, kind="block", dtype="int32"),),
    _iota,
    _law,
    code_bytes=100,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp",
    scalars=(Scalar("begin"),),
)
