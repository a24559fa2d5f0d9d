"""Convolution and product: partial sums of one block of outputs over one block of inputs.

A product of matrices is a convolution whose field is the rows. The inputs a vertex reads are
clipped to the tensor, so that padding needs neither memory nor copies: `shift` says where the
window of the first output begins, counted from the region's first row or column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.codelets._jit import jit
from engine.codelets._lanes import LANES, PIXELS, block_kernels
from engine.codelets.amp import amp_1x1_cycles, amp_nx1_cycles, vertical_mac_cycles
from engine.codelets.codelet import Batch, Codelet, Field, Scalar

if TYPE_CHECKING:
    from engine.machine import Machine

__all__ = ["CONV_PARTIAL_1X1", "CONV_PARTIAL_NX1", "DEPTHWISE"]

_SCALARS = tuple(
    Scalar(name)
    for name in ("stride_y", "stride_x", "dilation_y", "dilation_x", "shift_y", "shift_x")
)


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
    """Add a row of pixels times all outputs: in blocks of 16, 8 and 4, the rest one by one."""
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
def _convolve(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, w, w_start, w_size, w_stride, out, out_start, out_size,
    out_stride, stride_y, stride_x, dilation_y, dilation_x, shift_y, shift_x,
):  # fmt: skip
    """Take x [group, y, x, input], w [group, ky, kx, input, output], out [y, x, output].

    The longer side of the block of outputs is walked in blocks of pixels, the other one by one.
    """
    if out_size[1] >= out_size[0]:
        a, b = 0, 1
        stride_a, stride_b = stride_y, stride_x
        dilation_a, dilation_b = dilation_y, dilation_x
        shift_a, shift_b = shift_y, shift_x
    else:
        a, b = 1, 0
        stride_a, stride_b = stride_x, stride_y
        dilation_a, dilation_b = dilation_x, dilation_y
        shift_a, shift_b = shift_x, shift_y
    n_outputs = out_size[2]
    for oa in range(out_size[a]):
        line = out_start + oa * out_stride[a]
        for ob in range(out_size[b]):
            at = line + ob * out_stride[b]
            out[at : at + n_outputs] = 0
        for ka in range(w_size[1 + a]):
            ia = oa * stride_a + ka * dilation_a + shift_a
            if ia < 0 or ia >= x_size[1 + a]:
                continue
            for kb in range(w_size[1 + b]):
                first = kb * dilation_b + shift_b
                low, high = _valid_range(out_size[b], stride_b, first, x_size[1 + b])
                if low >= high:
                    continue
                source = x_start + ia * x_stride[1 + a]
                source += (low * stride_b + first) * x_stride[1 + b]
                weight = w_start + ka * w_stride[1 + a] + kb * w_stride[1 + b]
                for g in range(x_size[0]):
                    _add_row(
                        high - low, n_outputs, out, line + low * out_stride[b], out_stride[b],
                        x, source + g * x_stride[0], stride_b * x_stride[1 + b], x_stride[3],
                        w, weight + g * w_stride[0], w_stride[3], x_size[3],
                    )  # fmt: skip


@jit
def _depthwise(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, w, w_start, w_size, w_stride, out, out_start, out_size,
    out_stride, stride_y, stride_x, dilation_y, dilation_x, shift_y, shift_x,
):  # fmt: skip
    """Take x [row, column, channel], w [ky, kx, channel], out [y, x, channel]."""
    n_channels = out_size[2]
    for oy in range(out_size[0]):
        for ox in range(out_size[1]):
            target = out_start + oy * out_stride[0] + ox * out_stride[1]
            for c in range(n_channels):
                out[target + c] = 0
            for ky in range(w_size[0]):
                iy = oy * stride_y + ky * dilation_y + shift_y
                if iy < 0 or iy >= x_size[0]:
                    continue
                for kx in range(w_size[1]):
                    ix = ox * stride_x + kx * dilation_x + shift_x
                    if ix < 0 or ix >= x_size[1]:
                        continue
                    source = x_start + iy * x_stride[0] + ix * x_stride[1]
                    weight = w_start + ky * w_stride[0] + kx * w_stride[1]
                    for c in range(n_channels):
                        out[target + c] += x[source + c * x_stride[2]] * w[weight + c]


def _law_1x1(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    groups, _, _, inputs = batch.size["x"].T
    height, width, outputs = batch.size["out"].T
    item, partial = batch.item_bytes["x"], batch.item_bytes["out"]
    return amp_1x1_cycles(height * width, groups * inputs, outputs, machine, item, partial)


def _law_nx1(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    groups, _, _, inputs = batch.size["x"].T
    kernel = batch.size["w"][:, 1], batch.size["w"][:, 2]
    height, width, outputs = batch.size["out"].T
    item, partial = batch.item_bytes["x"], batch.item_bytes["out"]
    return amp_nx1_cycles(height, width, kernel, groups * inputs, outputs, machine, item, partial)


def _law_depthwise(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    height, width, channels = batch.size["out"].T
    kernel = batch.size["w"][:, 0] * batch.size["w"][:, 1]
    return vertical_mac_cycles(height * width, kernel, channels, machine, batch.item_bytes["x"])


def _flops(batch: Batch) -> NDArray[np.int64]:
    return np.asarray(2 * np.prod(batch.size["out"][:, :2], axis=1) * batch.n_elements("w"))


def _partial(name: str, law: object, code_bytes: int, source: str) -> Codelet:
    return Codelet(
        name,
        (
            Field("x", "in", 4, kind="block"),
            Field("w", "in", 5, kind="block"),
            Field("out", "out", 3, kind="block"),
        ),
        _convolve,
        law,  # type: ignore[arg-type]
        code_bytes=code_bytes,
        source=source,
        scalars=_SCALARS,
        flops=_flops,
    )


CONV_PARTIAL_1X1 = _partial(
    "poplin::ConvPartial1x1Out",
    _law_1x1,
    700,
    "graphcore/poplibs sdk-release-3.4, getConvPartial1x1SupervisorCycleEstimate",
)
CONV_PARTIAL_NX1 = _partial(
    "poplin::ConvPartialnx1",
    _law_nx1,
    1100,
    "graphcore/poplibs sdk-release-3.4, getConvPartialnx1SupervisorCycleEstimate",
)
DEPTHWISE = Codelet(
    "poplin::ConvPartialVerticalMac",
    (
        Field("x", "in", 3, kind="block"),
        Field("w", "in", 3, kind="block"),
        Field("out", "out", 3, kind="block"),
    ),
    _depthwise,
    _law_depthwise,
    code_bytes=600,
    source="graphcore/poplibs sdk-release-3.4, vertical MAC estimators",
    scalars=_SCALARS,
    flops=_flops,
)
