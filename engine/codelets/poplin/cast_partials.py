"""Cast of a tile's partial sums to the result type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.poplin.work import Counts
from tilescope.engine.codelets.popops.elementwise.copy import cast_cycles
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._moves import move_block

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["CAST_PARTIALS"]


@jit
def _cast(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, out, out_start, out_size, out_stride
):
    """Copy blocks [group, image, out group, y, x, output]."""
    size = (out_size[3], out_size[4], out_size[5])
    x_apart = (x_stride[3], x_stride[4], x_stride[5])
    apart = (out_stride[3], out_stride[4], out_stride[5])
    for g in range(out_size[0]):
        for n in range(out_size[1]):
            for o in range(out_size[2]):
                source = x_start + g * x_stride[0] + n * x_stride[1] + o * x_stride[2]
                target = out_start + g * out_stride[0] + n * out_stride[1] + o * out_stride[2]
                move_block(x, source, x_apart, out, target, size, apart)


def _law(batch: Batch, machine: Machine) -> Counts:
    types = batch.dtype["x"], batch.dtype["out"]
    return cast_cycles(batch.n_elements("out"), types, machine)


CAST_PARTIALS = Codelet(
    "poplin::CastPartials",
    (Field("x", "in", 6, kind="block"), Field("out", "out", 6, kind="block")),
    _cast,
    _law,
    code_bytes=240,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/PerformanceEstimation.cpp, Cast1D: what a"
    " tile has lies together",
    independent=every_dim(2, 6),
)
