"""Updates of a slice at a run-time offset, on the tile that holds all rows of its columns.

Law: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp, DynamicUpdateSlice1D,
which is that of DynamicSlice1D.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.slicing.multi_slice import dynamic_slice_cycles
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["DYNAMIC_UPDATE"]


@jit
def _dynamic_update(  # type: ignore[no-untyped-def]
    base, start, size, stride, offset, sub, sub_start, sub_size, sub_stride
):
    first = offset[0]
    if first < 0 or first >= size[1]:
        first = 0
    for g in range(sub_size[0]):
        row = first
        for k in range(sub_size[1]):
            to = start + g * stride[0] + row * stride[1]
            row_start = sub_start + g * sub_stride[0] + k * sub_stride[1]
            for c in range(sub_size[2]):
                base[to + c * stride[2]] = sub[row_start + c * sub_stride[2]]
            row += 1
            if row == size[1]:
                row = 0


def _law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    groups, rows, columns = batch.size["sub"].T
    return dynamic_slice_cycles(rows, groups * columns, batch.item_bytes["sub"], machine)


DYNAMIC_UPDATE = Codelet(
    "popops::DynamicUpdateSlice1D",
    (
        Field("base", "inout", 3, kind="block"),
        Field("offset", "in", dtype="int32"),
        Field("sub", "in", 3, kind="block", dtype_of="base"),
    ),
    _dynamic_update,
    _law,
    code_bytes=200,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp",
    independent=((0, -1, 0), (2, -1, 2)),
    is_selection=True,
)
