"""Convolution and product: partial sums of a tile's outputs over a tile's inputs.

A product of matrices is a convolution whose field is the rows. The inputs a vertex reads are
clipped to the tensor, so padding needs neither memory nor copies. `shift` is the start of the first
output's window, relative to the region's first row or column.

All families have the same fields and compute the same values; they differ in cost and in the
channel groupings they support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.codelets.poplin.amp import amp_1x1_cycles, amp_nx1_cycles
from tilescope.engine.codelets.poplin.horizontal_mac import horizontal_mac_cycles
from tilescope.engine.codelets.poplin.outer_product import outer_product_cycles
from tilescope.engine.codelets.poplin.slic import slic_cycles
from tilescope.engine.codelets.poplin.vertical_mac import vertical_mac_cycles
from tilescope.engine.codelets.poplin.work import Counts, Work, work_of
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar, Sliding
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.kernels._convolve import convolve

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "CONV_PARTIAL_1X1",
    "CONV_PARTIAL_NX1",
    "HORIZONTAL_MAC",
    "OUTER_PRODUCT",
    "SLIC",
    "VERTICAL_MAC",
    "VERTICAL_MAC_WIDE",
    "partial",
]

_GEOMETRY = ("stride_y", "stride_x", "dilation_y", "dilation_x", "shift_y", "shift_x")
#: On the device, combined groups are one of more channels: their number is the simulator's, as is
#: that of a group's requested outputs, of which padding may follow. Only requested multiplications
#: count; padding channels are excluded.
_SCALARS = (
    *(Scalar(name) for name in _GEOMETRY),
    Scalar("combined", on_device=False),
    Scalar("requested", on_device=False),
    Scalar("products", on_device=False, is_for_law=True),
)


def _window(dim: int, axis: str) -> Sliding:
    """Return how windows move along a dimension of the field."""
    return Sliding(
        ("x", dim),
        ("out", dim),
        ("w", dim),
        *(f"{part}_{axis}" for part in ("stride", "dilation", "shift")),
    )


def _flops(batch: Batch) -> Counts:
    """Count two per requested multiplication; work on padding is not useful."""
    return np.asarray(2 * batch.scalars["products"])


def partial(
    name: str,
    law: Callable[[Work, Machine], Counts],
    code_bytes: int,
    source: str,
    *,
    apart: tuple[str, ...],
    interleaved: tuple[str, ...] = (),
) -> Codelet:
    """Return the codelet of a vertex family.

    Parameters
    ----------
    name
        Name in reports.
    law
        Cycles, as a function of the work.
    code_bytes
        Code size, bytes.
    source
        Source of the law.
    apart
        Fields that must lie in different memory elements.
    interleaved
        Fields that must lie in interleaved memory.
    """
    return Codelet(
        name,
        (
            Field("x", "in", 6, kind="block", interleaved="x" in interleaved),
            Field("w", "in", 7, kind="block", interleaved="w" in interleaved),
            Field("out", "out", 6, kind="block", interleaved="out" in interleaved),
        ),
        convolve,
        lambda batch, machine: law(work_of(batch), machine),
        code_bytes=code_bytes,
        source=source,
        scalars=_SCALARS,
        flops=_flops,
        apart=(apart,),
        # Groups, images and groups of outputs.
        independent=((0, 0, 0), (1, -1, 1), (-1, 1, 2)),
        sliding=(_window(3, "y"), _window(4, "x")),
    )


# Source of the memory constraints: the same release, lib/poplin/codelets, files named after the
# vertices. AMP weights are interleaved only with the option for 128-bit loads, which is off.
CONV_PARTIAL_1X1 = partial(
    "poplin::ConvPartial1x1Out",
    amp_1x1_cycles,
    700,
    "graphcore/poplibs sdk-release-3.4, getConvPartial1x1SupervisorCycleEstimate",
    apart=("x", "out"),
    interleaved=("out",),
)
CONV_PARTIAL_NX1 = partial(
    "poplin::ConvPartialnx1",
    amp_nx1_cycles,
    1100,
    "graphcore/poplibs sdk-release-3.4, getConvPartialnx1SupervisorCycleEstimate",
    apart=("x", "out"),
    interleaved=("out",),
)
SLIC = partial(
    "poplin::ConvPartial1xNSLIC",
    slic_cycles,
    900,
    "graphcore/poplibs sdk-release-3.4, getConvPartialSlicSupervisorOuterLoopCycleEstimate",
    apart=("x", "out"),
    interleaved=("out",),
)
HORIZONTAL_MAC = partial(
    "poplin::ConvPartialHorizontalMac",
    horizontal_mac_cycles,
    600,
    "graphcore/poplibs sdk-release-3.4, getConvPartialHorizontalMacSupervisorCycleEstimate",
    apart=("x", "w"),
)
VERTICAL_MAC = partial(
    "poplin::ConvPartialVerticalMac",
    vertical_mac_cycles,
    600,
    "graphcore/poplibs sdk-release-3.4, getConvPartialVerticalMacSupervisorCycleEstimate",
    apart=("x", "w"),
)
#: For groups of more than four; they are loaded 128 bits at a time.
VERTICAL_MAC_WIDE = partial(
    "poplin::ConvPartialVerticalMac<wide>",
    vertical_mac_cycles,
    600,
    "graphcore/poplibs sdk-release-3.4, getConvPartialVerticalMacSupervisorCycleEstimate",
    apart=("x", "w"),
    interleaved=("x", "w"),
)
OUTER_PRODUCT = partial(
    "poplin::OuterProduct",
    outer_product_cycles,
    250,
    "graphcore/poplibs sdk-release-3.4, getOuterProductCycleEstimate",
    apart=("w", "out"),
)
