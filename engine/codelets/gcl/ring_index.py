"""Which part of a tensor a replica sends and receives in a step of a ring.

Structure: graphcore/poplibs sdk-release-1.4, lib/popops/ReplicatedCollectives.cpp,
initRingIndexTensor and incrementIndex, which are elementwise expressions there.

Law (assumption): six workers take turns, so that an instruction of one of them takes six cycles; a
division takes six instructions.
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

__all__ = ["RING_INDEX", "RING_STEP"]

_SOURCE = (
    "Assumption: instructions of graphcore/poplibs sdk-release-1.4,"
    " lib/popops/ReplicatedCollectives.cpp"
)
_CYCLES_PER_INSTRUCTION = 6


@jit
def _along(member, size, is_interleaved, distance):  # type: ignore[no-untyped-def]
    """Return the member that is some places farther around the ring."""
    if not is_interleaved:
        return (member + distance) % size
    place = size - 1 - member // 2 if member % 2 else member // 2
    place = (place + distance) % size
    return 2 * place if 2 * place < size else 2 * (size - 1 - place) + 1


@jit
def _ring_index(replica, out, size, stride, is_interleaved, distance):  # type: ignore[no-untyped-def]
    out[0] = _along((replica[0] // stride) % size, size, is_interleaved, distance)


@jit
def _ring_step(index, size, is_interleaved, distance):  # type: ignore[no-untyped-def]
    index[0] = _along(index[0], size, is_interleaved, distance)


def _index_law(batch: Batch, _: Machine) -> NDArray[np.int64]:
    return np.full(batch.n_vertices, 36 * _CYCLES_PER_INSTRUCTION, np.int64)


def _step_law(batch: Batch, _: Machine) -> NDArray[np.int64]:
    return np.full(batch.n_vertices, 24 * _CYCLES_PER_INSTRUCTION, np.int64)


#: The part that a replica begins with: that of the member some places farther around the ring.
RING_INDEX = Codelet(
    "gcl::RingIndex",
    (Field("replica", "in", dtype="int32"), Field("out", "out", dtype="int32")),
    _ring_index,
    _index_law,
    code_bytes=144,
    source=_SOURCE,
    scalars=(Scalar("size"), Scalar("stride"), Scalar("is_interleaved"), Scalar("distance")),
)

#: The part of another step: some places farther around the ring.
RING_STEP = Codelet(
    "gcl::RingStep",
    (Field("index", "inout", dtype="int32"),),
    _ring_step,
    _step_law,
    code_bytes=96,
    source=_SOURCE,
    scalars=(Scalar("size"), Scalar("is_interleaved"), Scalar("distance")),
)
