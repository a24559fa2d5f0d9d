"""Transposed convolutions, without the zeros between elements.

An output belongs to one phase of the stride, and every phase is a convolution with the taps of the
kernel that reach it. The phases are interleaved at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import joined, part
from tilescope.engine.operators.window.convolution import CONVOLUTION

__all__ = ["CONVOLUTION_TRANSPOSE", "RECORDS"]

#: Images, channels, rows, columns.
_IMAGE_RANK = 4


class _Axis(NamedTuple):
    """A spatial dimension: sizes of input, kernel and output, stride, dilation, padding before."""

    size: int
    kernel: int
    out: int
    stride: int
    dilation: int
    before: int

    @property
    def first(self) -> int:
        """Index of the first block of outputs, a block being one of each phase."""
        return self.before // self.stride

    @property
    def n_blocks(self) -> int:
        """Blocks that hold the output."""
        return (self.out - 1 + self.before) // self.stride - self.first + 1


def _axes(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> list[_Axis]:
    """Return the spatial dimensions.

    Raises
    ------
    BadModel
        When an attribute does not have a number for each dimension, or no output remains.
    """
    rank, attributes = len(sizes), node.attributes
    strides = attributes.get("strides", (1,) * rank)
    dilations = attributes.get("dilations", (1,) * rank)
    extra = attributes.get("output_padding", (0,) * rank)
    output_shape = attributes.get("output_shape")
    pads = list(attributes.get("pads", (0,) * (2 * rank)))
    if not len(strides) == len(dilations) == len(extra) == rank or len(pads) != 2 * rank:
        raise BadModel(f"{node}: strides, dilations, pads and output_padding are for {rank} axes")
    mode = attributes.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER") and output_shape is None:
        output_shape = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    axes_ = []
    for i, size in enumerate(sizes):
        extent = (kernel[i] - 1) * dilations[i] + 1
        full = (size - 1) * strides[i] + extra[i] + extent
        if output_shape is None:
            before, out = pads[i], full - pads[i] - pads[i + rank]
        else:
            out = int(output_shape[len(output_shape) - rank + i])
            total = max(0, full - out)
            # Source: https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
            before = total // 2 if mode == "SAME_UPPER" else total - total // 2
            if full < out and "output_shape" not in attributes:
                raise BadModel(
                    f"{node}: auto_pad {mode} asks for an output of {out} elements where the"
                    f" windows reach {full}, which implementations of ONNX read differently;"
                    " state pads and output_padding"
                )
        if out < 1 or before < 0:
            raise BadModel(f"{node}: an axis of {size} gives an output of {out} elements")
        axes_.append(_Axis(size, kernel[i], out, strides[i], dilations[i], before))
    return axes_


def _taps(axis: _Axis, phase: int) -> tuple[int, int, int]:
    """Return the first tap of the kernel that reaches a phase, how many do, and their distance."""
    step = axis.stride
    return phase, max(0, -(-(axis.kernel - phase) // step)), step


def _phase(
    expansion: Expansion,
    x: Value,
    w: Value,
    axes: Sequence[_Axis],
    phases: Sequence[int],
    groups: int,
) -> Value:
    """Emit one phase: shape (images, out channels, blocks, blocks)."""
    taps = [_taps(axis, phase) for axis, phase in zip(axes, phases, strict=True)]
    blocks = tuple(axis.n_blocks for axis in axes)
    if not all(n for _, n, _ in taps):
        return expansion.constant(np.zeros((x.shape[0], w.shape[0], *blocks), x.dtype), "zeros")
    starts = [0, 0, *(first + (n - 1) * step for first, n, step in taps)]
    stops = [*w.shape[:2], *(first - 1 if first else -1 for first, _, _ in taps)]
    kernel = part(expansion, w, starts, stops, [1, 1, *(-step for _, _, step in taps)])
    begins, ends, before, after = [0, 0], list(x.shape[:2]), [], []
    for axis, (_, n, _) in zip(axes, taps, strict=True):
        first = axis.first - (n - 1)
        stop = axis.first + axis.n_blocks
        before.append(max(0, -first))
        after.append(max(0, stop - axis.size))
        begins.append(max(0, first))
        ends.append(min(axis.size, stop))
    return expansion.emit(
        CONVOLUTION,
        part(expansion, x, begins, ends),
        kernel,
        groups=groups,
        kernel=tuple(n for _, n, _ in taps),
        stride=(1,) * len(axes),
        dilation=(1,) * len(axes),
        padding_before=tuple(before),
        padding_after=tuple(after),
        **expansion.node.hints.stated(),
    )


def _dilated(expansion: Expansion, w: Value, axes: list[_Axis]) -> tuple[Value, list[_Axis]]:
    """Return weights with zeros between taps where both stride and dilation are above 1."""
    for i, axis in enumerate(axes):
        if axis.dilation == 1:
            continue
        d, shape = i + 2, w.shape
        gap = expansion.constant(
            np.zeros((*shape[: d + 1], axis.dilation - 1, *shape[d + 1 :]), w.dtype), "gap"
        )
        apart = reshape(expansion, w, (*shape[: d + 1], 1, *shape[d + 1 :]))
        wide = reshape(
            expansion,
            joined(expansion, [apart, gap], d + 1),
            (*shape[:d], shape[d] * axis.dilation, *shape[d + 1 :]),
        )
        extent = (axis.kernel - 1) * axis.dilation + 1
        stops = [extent if k == d else size for k, size in enumerate(wide.shape)]
        w = part(expansion, wide, [0] * len(stops), stops)
        axes[i] = axis._replace(kernel=extent, dilation=1)
    return w, axes


def _interleaved(expansion: Expansion, phases: list[Value], axes: Sequence[_Axis]) -> Value:
    """Emit the outputs of all phases in their order."""
    n, channels = phases[0].shape[:2]
    rank = len(axes)
    blocks, strides = [axis.n_blocks for axis in axes], [axis.stride for axis in axes]
    if prod(strides) > 1:
        apart = [reshape(expansion, v, (*v.shape, 1)) for v in phases]
        both = reshape(
            expansion, joined(expansion, apart, 2 + rank), (n, channels, *blocks, *strides)
        )
        order = [0, 1, *(d for i in range(rank) for d in (2 + i, 2 + rank + i))]
        mixed = expansion.emit(TRANSPOSE, both, order=tuple(order))
    else:
        mixed = phases[0]
    sizes = [b * s for b, s in zip(blocks, strides, strict=True)]
    out = reshape(expansion, mixed, (n, channels, *sizes))
    first = [axis.before - axis.first * axis.stride for axis in axes]
    stops = [start + axis.out for start, axis in zip(first, axes, strict=True)]
    return part(expansion, out, [0, 0, *first], [n, channels, *stops])


def _convolution_transpose(node: Node, expansion: Expansion) -> Value:
    x, w, groups = node.operand(0), node.operand(1), node.attributes["group"]
    rank = len(x.shape) - 2
    if len(w.shape) != len(x.shape) or w.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise BadModel(
            f"{node}: weights {w.name!r} of shape {w.shape} do not fit an input of shape {x.shape}"
            f" in {groups} groups"
        )
    if rank not in (1, 2):
        return _of_volumes(node, expansion)
    axes = _axes(node, x.shape[2:], w.shape[2:])
    if rank == 1:
        x = reshape(expansion, x, (*x.shape[:2], 1, x.shape[2]))
        w = reshape(expansion, w, (*w.shape[:2], 1, w.shape[2]))
        axes = [_Axis(1, 1, 1, 1, 1, 0), *axes]
    out = _of_images(expansion, x, w, axes, groups)
    if rank == 1:
        out = reshape(expansion, out, (*out.shape[:2], out.shape[3]))
    return _with_bias(node, expansion, out)


def _with_bias(node: Node, expansion: Expansion, out: Value) -> Value:
    bias = node.optional(2)
    if bias is None:
        return out
    shape = (bias.shape[0], *(1,) * (len(out.shape) - 2))
    return binary(expansion, "add", out, reshape(expansion, bias, shape))


def _of_images(expansion: Expansion, x: Value, w: Value, axes: list[_Axis], groups: int) -> Value:
    """Emit a transposed convolution of images; weights (in channels, outputs of a group, …)."""
    channels, per_group = w.shape[:2]
    apart = reshape(expansion, w, (groups, channels // groups, per_group, *w.shape[2:]))
    turned = expansion.emit(TRANSPOSE, apart, order=(0, 2, 1, 3, 4))
    weights = reshape(expansion, turned, (groups * per_group, channels // groups, *w.shape[2:]))
    weights, axes = _dilated(expansion, weights, axes)
    phases = [
        _phase(expansion, x, weights, axes, phase_index, groups)
        for phase_index in product(*(range(axis.stride) for axis in axes))
    ]
    return _interleaved(expansion, phases, axes)


def _of_volumes(node: Node, expansion: Expansion) -> Value:
    """Emit a transposed convolution of volumes: a sum over the layers of the kernel."""
    x, w, groups = node.operand(0), node.operand(1), node.attributes["group"]
    deep, *axes = _axes(node, x.shape[2:], w.shape[2:])
    n, channels, depth = x.shape[:3]
    moved = expansion.emit(TRANSPOSE, x, order=(0, 2, 1, 3, 4))
    images = reshape(expansion, moved, (n * depth, channels, *x.shape[3:]))
    layers: list[list[Value]] = [[] for _ in range(deep.out)]
    for k in range(deep.kernel):
        stops = list(w.shape)
        stops[2] = k + 1
        taps = reshape(
            expansion, part(expansion, w, [0, 0, k, 0, 0], stops), (*w.shape[:2], *w.shape[3:])
        )
        out = _of_images(expansion, images, taps, list(axes), groups)
        volumes = reshape(expansion, out, (n, depth, *out.shape[1:]))
        for i in range(depth):
            position = i * deep.stride + k * deep.dilation - deep.before
            if 0 <= position < deep.out:
                ends = list(volumes.shape)
                ends[1] = i + 1
                layers[position].append(part(expansion, volumes, [0, i, 0, 0, 0], ends))
    sums = []
    zeros = expansion.constant(np.zeros((n, 1, *volumes.shape[2:]), x.dtype), "zeros")
    for layer in layers:
        total = layer[0] if layer else zeros
        for value in layer[1:]:
            total = binary(expansion, "add", total, value)
        sums.append(total)
    out = expansion.emit(TRANSPOSE, joined(expansion, sums, 1), order=(0, 2, 1, 3, 4))
    return _with_bias(node, expansion, out)


CONVOLUTION_TRANSPOSE = Operator(name="ConvTranspose", decompose=_convolution_transpose)

RECORDS = (CONVOLUTION_TRANSPOSE,)
