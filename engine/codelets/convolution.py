"""Convolution and product: partial sums of a tile's outputs over a tile's inputs.

A product of matrices is a convolution whose field is the rows. The inputs a vertex reads are
clipped to the tensor, so padding needs neither memory nor copies. `shift` is the start of the first
output's window, relative to the region's first row or column.

All families have the same fields and compute the same values; they differ in cost and in the
channel groupings they support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilescope.engine.codelets._indices import unsigned
from tilescope.engine.codelets._lanes import LANES, PIXELS, block_kernels
from tilescope.engine.codelets.amp import amp_1x1_cycles, amp_nx1_cycles
from tilescope.engine.codelets.horizontal_mac import horizontal_mac_cycles
from tilescope.engine.codelets.outer_product import outer_product_cycles
from tilescope.engine.codelets.slic import slic_cycles
from tilescope.engine.codelets.vertical_mac import vertical_mac_cycles
from tilescope.engine.codelets.work import Counts, Work, work_of
from tilescope.engine.graph.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.law import Batch
from tilescope.engine.jit._jit import jit

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
#: Only requested multiplications count; padding channels are excluded.
_SCALARS = (*(Scalar(name) for name in _GEOMETRY), Scalar("products", on_device=False))


_BLOCKS = block_kernels()


def _row_kernel(n_lanes: int) -> Any:
    """Return a function that adds a row of pixels times `n_lanes` outputs."""
    eight, four, two, one = (_BLOCKS[pixels, n_lanes] for pixels in PIXELS)

    @jit
    def row(  # type: ignore[no-untyped-def]
        n_pixels, out, out_at, out_pitch, x, x_at, x_pitch, x_step, w, w_at, w_pitch, count
    ):
        p = 0
        while n_pixels - p >= 8:
            eight(out, out_at + p * out_pitch, out_pitch, x, x_at + p * x_pitch, x_pitch, x_step,
                  w, w_at, w_pitch, count)  # fmt: skip
            p += 8
        if n_pixels - p >= 4:
            four(out, out_at + p * out_pitch, out_pitch, x, x_at + p * x_pitch, x_pitch, x_step,
                 w, w_at, w_pitch, count)  # fmt: skip
            p += 4
        if n_pixels - p >= 2:
            two(out, out_at + p * out_pitch, out_pitch, x, x_at + p * x_pitch, x_pitch, x_step,
                w, w_at, w_pitch, count)  # fmt: skip
            p += 2
        if n_pixels - p >= 1:
            one(out, out_at + p * out_pitch, out_pitch, x, x_at + p * x_pitch, x_pitch, x_step,
                w, w_at, w_pitch, count)  # fmt: skip

    return row


_row_16, _row_8, _row_4 = (_row_kernel(lanes) for lanes in LANES)


@jit
def _add_row(  # type: ignore[no-untyped-def]
    n_pixels, n_outputs, out, out_at, out_pitch, x, x_at, x_pitch, x_step, w, w_at, w_pitch, count
):
    """Add a row of pixels times all outputs: in blocks of 16, 8 and 4, then the rest singly."""
    o = 0
    while n_outputs - o >= 16:
        _row_16(n_pixels, out, out_at + o, out_pitch, x, x_at, x_pitch, x_step,
                w, w_at + o, w_pitch, count)  # fmt: skip
        o += 16
    if n_outputs - o >= 8:
        _row_8(n_pixels, out, out_at + o, out_pitch, x, x_at, x_pitch, x_step,
               w, w_at + o, w_pitch, count)  # fmt: skip
        o += 8
    if n_outputs - o >= 4:
        _row_4(n_pixels, out, out_at + o, out_pitch, x, x_at, x_pitch, x_step,
               w, w_at + o, w_pitch, count)  # fmt: skip
        o += 4
    for k in range(o, n_outputs):
        for p in range(n_pixels):
            total = out[out_at + p * out_pitch + k]
            for i in range(count):
                total += x[x_at + p * x_pitch + i * x_step] * w[w_at + i * w_pitch + k]
            out[out_at + p * out_pitch + k] = total


@jit
def _valid_range(n, stride, first, size):  # type: ignore[no-untyped-def]
    """Return the range of outputs whose input `o * stride + first` is inside `size`."""
    low = 0 if first >= 0 else (-first + stride - 1) // stride
    high = 0 if size - 1 < first else (size - 1 - first) // stride + 1
    return low, min(n, high)


@jit
def _add_grouped(  # type: ignore[no-untyped-def]
    n_pixels, out, out_at, out_pitch, x, x_at, x_pitch, w, w_at, w_pitch, n_groups, n_in, n_out
):
    """Add a row of pixels that interleaves several convolution groups."""
    for p in range(n_pixels):
        target = out_at + p * out_pitch
        source = x_at + p * x_pitch
        if n_in == 1 and n_out == 1:
            for c in range(n_groups):
                out[target + c] += x[source + c] * w[w_at + c]
            continue
        for g in range(n_groups):
            for i in range(n_in):
                value = x[source + g * n_in + i]
                weight = w_at + i * w_pitch + g * n_out
                for o in range(n_out):
                    out[target + g * n_out + o] += value * w[weight + o]


@jit
def _convolve_block(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, w, w_start, w_size, w_stride, out, out_start, out_size,
    out_stride, stride, dilation, shift, a, b,
):  # fmt: skip
    """Convolve an image's part for one group of outputs; `a` and `b` are 0 and 1 or 1 and 0.

    The longer side `b` of the output block is processed in blocks of pixels, the other singly.
    """
    n_inputs, n_outputs = w_size[5], out_size[5]
    n_inside = x_size[5] // n_inputs
    for oa in range(out_size[3 + a]):
        line = out_start + oa * out_stride[3 + a]
        for ob in range(out_size[3 + b]):
            at = unsigned(line + ob * out_stride[3 + b])
            for o in range(unsigned(n_outputs)):  # a slice would count a reference
                out[at + o] = 0
        for ka in range(w_size[3 + a]):
            ia = oa * stride[a] + ka * dilation[a] + shift[a]
            if ia < 0 or ia >= x_size[3 + a]:
                continue
            for kb in range(w_size[3 + b]):
                first = kb * dilation[b] + shift[b]
                low, high = _valid_range(out_size[3 + b], stride[b], first, x_size[3 + b])
                if low >= high:
                    continue
                source = x_start + ia * x_stride[3 + a]
                source += (low * stride[b] + first) * x_stride[3 + b]
                weight = w_start + ka * w_stride[3 + a] + kb * w_stride[3 + b]
                target = line + low * out_stride[3 + b]
                pitch = stride[b] * x_stride[3 + b]
                for g in range(x_size[2]):
                    x_at, w_at = source + g * x_stride[2], weight + g * w_stride[2]
                    if n_inside == 1:
                        _add_row(
                            high - low, n_outputs, out, target, out_stride[3 + b], x, x_at,
                            pitch, x_stride[5], w, w_at, w_stride[5], n_inputs,
                        )  # fmt: skip
                    else:
                        _add_grouped(
                            high - low, out, target, out_stride[3 + b], x, x_at, pitch, w, w_at,
                            w_stride[5], n_inside, n_inputs, n_outputs // n_inside,
                        )  # fmt: skip


@jit
def _convolve(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, w, w_start, w_size, w_stride, out, out_start, out_size,
    out_stride, stride_y, stride_x, dilation_y, dilation_x, shift_y, shift_x, products,
):  # fmt: skip
    """Convolve a tile's data.

    x is [group, image, in group, y, x, input], w [group, out group, in group, ky, kx, input,
    output] and out [group, image, out group, y, x, output]. A group may interleave several
    convolution groups: its inputs and outputs are theirs, concatenated, and an input's weights are
    those of its own convolution group.
    """
    stride = (stride_y, stride_x)
    dilation = (dilation_y, dilation_x)
    shift = (shift_y, shift_x)
    b = 1 if out_size[4] >= out_size[3] else 0
    for group in range(out_size[0]):
        for image in range(out_size[1]):
            source = x_start + group * x_stride[0] + image * x_stride[1]
            for out_group in range(out_size[2]):
                weight = w_start + group * w_stride[0] + out_group * w_stride[1]
                target = out_start + group * out_stride[0] + image * out_stride[1]
                _convolve_block(
                    x, source, x_size, x_stride, w, weight, w_size, w_stride,
                    out, target + out_group * out_stride[2], out_size, out_stride,
                    stride, dilation, shift, 1 - b, b,
                )  # fmt: skip


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
        _convolve,
        lambda batch, machine: law(work_of(batch), machine),
        code_bytes=code_bytes,
        source=source,
        scalars=_SCALARS,
        flops=_flops,
        apart=(apart,),
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
