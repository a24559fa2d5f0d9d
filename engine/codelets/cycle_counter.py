"""Readings of a tile's cycle counter, as two words of 32 bits, the lower one first.

Structure: graphcore/poplibs, lib/popsys/CycleStamp.cpp and CycleCount.cpp. A stamp is taken as its
vertex ends and a count is made as its vertex begins, so that a count has no share of either.

Law: 45 cycles to read the counter (graphcore-research/tessellate-ipu,
tests/lax/test_tile_lax_basic.py, measured on Bow).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["CYCLE_COUNT", "CYCLE_STAMP"]

_SOURCE = "graphcore-research/tessellate-ipu, tests/lax/test_tile_lax_basic.py"
_READ_CYCLES = 45
#: Assumption: twelve instructions of four bytes read, subtract and store two words.
_CODE_BYTES = 48


@jit
def _split(out, count):  # type: ignore[no-untyped-def]
    out[0] = count & 0xFFFFFFFF
    out[1] = count >> 32


@jit
def _stamp(out, now):  # type: ignore[no-untyped-def]
    _split(out, now + _READ_CYCLES)


@jit
def _count(start, out, now):  # type: ignore[no-untyped-def]
    _split(out, now - (np.int64(start[0]) + (np.int64(start[1]) << 32)))


def _law(batch: Batch, _: Machine) -> NDArray[np.int64]:
    return np.full(batch.n_vertices, _READ_CYCLES, np.int64)


CYCLE_STAMP = Codelet(
    "poplar::CycleStamp",
    (Field("out", "out", dtype="uint32"),),
    _stamp,
    _law,
    code_bytes=_CODE_BYTES,
    source=_SOURCE,
    reads_clock=True,
)

CYCLE_COUNT = Codelet(
    "poplar::CycleCount",
    (Field("start", "in", dtype="uint32"), Field("out", "out", dtype="uint32")),
    _count,
    _law,
    code_bytes=_CODE_BYTES,
    source=_SOURCE,
    reads_clock=True,
)
