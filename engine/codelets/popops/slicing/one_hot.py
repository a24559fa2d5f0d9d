"""One-hot encoding: writes one value per row, into rows that are filled before.

Law: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp, EncodeOneHot: 11 tile
cycles and 74 per index for halves, in assembly; 100 per index for other types.
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

__all__ = ["ENCODE_ONE_HOT"]


@jit
def _encode(indices, out, start, size, stride, offset, value):  # type: ignore[no-untyped-def]
    for i in range(size[0]):
        column = indices[i] - offset
        if 0 <= column < size[1]:
            out[start + i * stride[0] + column * stride[1]] = value


def _law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    rows = batch.size["out"][:, 0]
    is_half = batch.item_bytes["out"] == 2
    return np.asarray(11 + 74 * rows if is_half else 100 * rows)


ENCODE_ONE_HOT = Codelet(
    "popops::EncodeOneHot",
    (Field("indices", "in", dtype="int32"), Field("out", "inout", 2, kind="block")),
    _encode,
    _law,
    code_bytes=180,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp",
    scalars=(Scalar("offset"), Scalar("value", "float")),
)
