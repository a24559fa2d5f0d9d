"""Inverse standard deviations from means and mean squares.

Law: graphcore/poplibs sdk-release-3.4, lib/poplin/poplinCycleEstimators.cpp, InverseStdDeviation:
6 cycles, 4 per run and 5 per two elements; elements are divided among the workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["INVERSE_STD_DEVIATION"]


@jit
def _kernel(  # type: ignore[no-untyped-def]
    mean, m_start, m_size, m_stride, power, p_start, p_size, p_stride,
    out, start, size, stride, epsilon, scale, is_stable,
):  # fmt: skip
    for p in range(size[0]):
        for r in range(size[1]):
            first = m_start + p * m_stride[0] + r * m_stride[1]
            second = p_start + p * p_stride[0] + r * p_stride[1]
            target = start + p * stride[0] + r * stride[1]
            for c in range(size[2]):
                variance = power[second + c * p_stride[2]]
                if not is_stable:
                    average = mean[first + c * m_stride[2]]
                    # Rounding can make the difference negative.
                    variance = max(variance - average * average, np.float32(0))
                out[target + c * stride[2]] = 1 / np.sqrt(np.float64((variance + epsilon) * scale))


def _law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    planes, rows, columns = batch.size["out"].T
    share = worker_share(planes * rows * columns, machine)
    n_runs = np.where(columns > 1, -(-share // columns), 1)
    worker = 6 + 4 * n_runs + 5 * -(-share // 2)
    return np.asarray(machine.n_worker_contexts * worker)


INVERSE_STD_DEVIATION = Codelet(
    "poplin::InverseStdDeviation",
    (
        Field("mean", "in", 3, kind="block", size_of="out"),
        Field("power", "in", 3, kind="block", size_of="out"),
        Field("out", "out", 3, kind="block"),
    ),
    _kernel,
    _law,
    code_bytes=200,  # Assumption: between a unary and a binary 2-D vertex
    source="graphcore/poplibs sdk-release-3.4, lib/poplin/poplinCycleEstimators.cpp",
    scalars=(
        Scalar("epsilon", "float"),
        Scalar("scale", "float"),
        Scalar("is_stable", on_device=False),
    ),
    # Source: the same function: the epsilon, the scale, the root and the division.
    flops=lambda batch: 4 * batch.n_elements("out"),
    independent=every_dim(3, 3),
)
