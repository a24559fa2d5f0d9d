"""Fills of contiguous elements or of strided rows with one value.

Law: graphcore/poplibs sdk-release-3.4, lib/popops/PerformanceEstimation.cpp, getFill1DCycleEstimate
and getFill2DCycleEstimate; vectors or rows are divided equally among workers. The cycles for a
few elements depend on their alignment; the library uses the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["FILL", "FILL_BLOCK"]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/PerformanceEstimation.cpp"


@jit
def _fill(out, value):  # type: ignore[no-untyped-def]
    out[:] = value


@jit
def _fill_block(out, out_start, size, stride, value):  # type: ignore[no-untyped-def]
    n, step = unsigned(size[2]), unsigned(stride[2])
    for p in range(size[0]):
        for r in range(size[1]):
            row = unsigned(out_start + p * stride[0] + r * stride[1])
            for c in range(n):
                out[row + c * step] = value


def _worker(count: NDArray[np.int64], item_bytes: int) -> NDArray[np.int64]:
    """Return a worker's cycles for `count` contiguous elements."""
    if item_bytes == 1:
        return np.where(count < 64, 28 + count // 4, 39 + count // 8)
    if item_bytes == 2:
        return np.where(count == 1, 15, np.where(count == 2, 21, 26 + count // 4))
    return np.asarray(23 + -(-count // 2))


def _fill_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    share = worker_share(batch.n_elements("out"), machine)
    return np.asarray(machine.n_worker_contexts * _worker(share, batch.item_bytes["out"]))


def _fill_block_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    """Return 5 cycles plus the rows; starting a row takes less than starting a vertex.

    Strided elements are rows of one. Starting a row saves 2 cycles for halves and 3 for other
    sizes, which take 6 cycles instead of 5.
    """
    planes, rows, columns = batch.size["out"].T
    is_apart = (batch.stride["out"][:, 2] != 1) & (columns > 1)
    n_rows = np.where(is_apart, planes * rows * columns, planes * rows)
    item_bytes = batch.item_bytes["out"]
    is_half = item_bytes == 2
    row = _worker(np.where(is_apart, 1, columns), item_bytes) - (2 if is_half else 3)
    work = (5 if is_half else 6) + worker_share(n_rows, machine) * row
    return np.asarray(machine.n_worker_contexts * work)


FILL = Codelet(
    "popops::Fill",
    (Field("out", "out"),),
    _fill,
    _fill_law,
    code_bytes=90,
    source=_SOURCE,
    independent=every_dim(1),
    scalars=(Scalar("value", "float"),),
)

FILL_BLOCK = Codelet(
    "popops::Fill2d",
    (Field("out", "out", 3, kind="block"),),
    _fill_block,
    _fill_block_law,
    code_bytes=130,
    source=_SOURCE,
    independent=every_dim(1, 3),
    scalars=(Scalar("value", "float"),),
)
