"""Operands in the layout of a plan: channels in groups, padded with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Stage, Tensor, View, section
from tilescope.engine.graph.identity.arrangement import on_diagonal, padded
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.operand_layout import images_in_place, weights_in_place
from tilescope.engine.library.popops.elementwise.operations import copy_together, row_major_copy
from tilescope.engine.planner.convolution.arrange import are_weights_arranged
from tilescope.engine.tiling import ConvolutionShape, Grouping
from tilescope.engine.tiling.channel_layout import ChannelLayout

__all__ = [
    "arranged_images",
    "arranged_weights",
    "image_values",
    "map_images",
    "weight_values",
    "zeros_into",
]


@dataclass(frozen=True)
class _Axis:
    """A dimension of a tensor stored in blocks of units; the last block may be partial.

    Parameters
    ----------
    logical
        Dimension in logical order.
    block, unit
        The two dimensions in memory.
    have, size
        Number of elements, and units per block.
    """

    logical: int
    block: int
    unit: int
    have: int
    size: int

    def real(self, source: View, target: Tensor) -> list[tuple[View, Tensor]]:
        """Return the full blocks of a source and a target, and the partial last block."""
        full, rest = divmod(self.have, self.size)
        pairs = []
        if full:
            whole = section(source, self.logical, 0, full * self.size)
            pairs.append((whole, target.slice(self.block, 0, full)))
        if rest:
            last = target.slice(self.block, full, full + 1).slice(self.unit, 0, rest)
            pairs.append((section(source, self.logical, full * self.size, self.have), last))
        return pairs

    def padding(self, target: Tensor) -> list[Tensor]:
        """Return the padding of the last block."""
        full, rest = divmod(self.have, self.size)
        if not rest:
            return []
        return [target.slice(self.block, full, full + 1).slice(self.unit, rest, self.size)]


def zeros_into(
    builder: Builder, like: Tensor, parts: Sequence[Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return pairs that copy zeros into the given parts."""
    if not parts:
        return []
    zero = builder.graph.add_constant(
        np.zeros(1, np.float32), "zero", dtype=like.dtype, debug=builder.debug
    )
    builder.spread(zero, first=builder.tiles.next_start)
    return [(zero.reshape(*(1,) * len(p.shape)).broadcast_to(p.shape), p) for p in parts]


def _pairs(
    builder: Builder, source: Tensor, target: Tensor, axes: Sequence[_Axis], order: Sequence[int]
) -> list[tuple[View, Tensor]]:
    """Return the copies that store a tensor in blocks, padded with zeros.

    `order` brings the target's dimensions into logical order.
    """
    real, padding = _cut(source, target, axes)
    pairs = [(of, to.dim_shuffle(*order).reshape(*of.shape)) for of, to in real]
    return pairs + zeros_into(builder, source, padding)


def _cut(
    source: Tensor, target: Tensor, axes: Sequence[_Axis]
) -> tuple[list[tuple[View, Tensor]], list[Tensor]]:
    """Return the full pieces of both, and the padding of the target."""
    real: list[tuple[View, Tensor]] = [(source, target)]
    padding: list[Tensor] = []
    for axis in axes:
        padding += [part for _, to in real for part in axis.padding(to)]
        real = [pair for of, to in real for pair in axis.real(of, to)]
    return real, padding


def map_images(builder: Builder, arranged: Tensor, tiles: Sequence[int]) -> None:
    """Spread images [block, image, channel block, row, column, channel] by whole channel groups."""
    builder.graph.map_linearly(arranged, grain=arranged.shape[-1], tiles=tiles)


def arranged_images(
    builder: Builder, x: Tensor, layout: ChannelLayout, tiles: Sequence[int]
) -> Tensor:
    """Return images as [block, image, channel block, row, column, channel], channels contiguous.

    They are copied to `tiles` if their layout differs or channels need padding.
    """
    images, _, rows, columns = x.shape
    blocks, channels = layout.blocks
    inside, size = layout.inside, layout.size
    if not layout.is_padded:
        view = images_in_place(x, blocks, channels, inside * size)
        if view is not None:
            return view
    sizes = (blocks, images, channels, rows, columns, inside * size)
    tensor = builder.graph.add_variable(x.dtype, sizes, "preArranged", builder.debug)
    map_images(builder, tensor, tiles)
    axes = [
        _Axis(1, block=0, unit=5, have=layout.n_groups, size=inside),
        _Axis(2, block=2, unit=6, have=layout.n_channels, size=size),
    ]
    pairs = _pairs(
        builder,
        x.reshape(images, layout.n_groups, layout.n_channels, rows, columns),
        tensor.reshape(blocks, images, channels, rows, columns, inside, size),
        axes,
        (1, 0, 5, 2, 6, 3, 4),
    )
    copy_together(builder, pairs, "preArrange", Stage.PRE_ARRANGE)
    return tensor


def image_values(images: NDArray[Any], layout: ChannelLayout) -> NDArray[Any]:
    """Return images as [block, image, channel block, row, column, channel], padded with zeros.

    It is a view of the images where that is possible.

    Parameters
    ----------
    images : ndarray, shape (images, channels, rows, columns)
        Constants.
    layout
        Layout of the channels.
    """
    n, _, rows, columns = images.shape
    blocks, channels = layout.blocks
    inside, size = layout.inside, layout.size
    by_group = images.reshape(n, layout.n_groups, layout.n_channels, rows, columns)
    missing = blocks * inside - layout.n_groups, channels * size - layout.n_channels
    whole = padded(by_group, (0, *missing, 0, 0))
    split = whole.reshape(n, blocks, inside, channels, size, rows, columns)
    laid = split.transpose(1, 0, 3, 5, 6, 2, 4)
    return laid.reshape(blocks, n, channels, rows, columns, inside * size)


def weight_values(
    weights: NDArray[Any], shape: ConvolutionShape, grouping: Grouping
) -> NDArray[Any]:
    """Return weights as [block, out group, in group, ky, kx, in, out], padded with zeros.

    It is a view of the weights where that is possible.

    Parameters
    ----------
    weights : ndarray, shape (groups, out channels, in channels, kernel rows, kernel columns)
        Weights of the model.
    shape, grouping
        The operation, and its channel groups.
    """
    blocks, in_groups, out_groups = grouping.count(shape)
    inside, n_in, n_out = grouping.inside, grouping.own_inputs, grouping.own_outputs
    sizes = (blocks * inside, out_groups * n_out, in_groups * n_in)
    missing = (size - have for size, have in zip(sizes, weights.shape[:3], strict=True))
    split = (
        padded(weights, (*missing, 0, 0))
        .reshape(blocks, inside, out_groups, n_out, in_groups, n_in, *weights.shape[3:])
        .transpose(0, 2, 4, 6, 7, 5, 1, 3)
    )
    if grouping.combined > 1:
        split = on_diagonal(split, 6, 5)
    return split.reshape(*split.shape[:5], grouping.inputs, grouping.groups * grouping.outputs)


def arranged_weights(
    builder: Builder, weights: Tensor, shape: ConvolutionShape, grouping: Grouping
) -> tuple[Tensor, list[tuple[View, Tensor]]]:
    """Return computed weights as the vertices read them, and the copies into them.

    Parameters
    ----------
    weights
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    shape, grouping
        The operation, and its channel groups.

    Returns
    -------
    made : Tensor
        Shape (block, out group, in group, ky, kx, in, out): the weights in place, or a variable
        that is not mapped yet.
    pairs : list of (source, target)
        The weights and zeros for the padding; empty in place.
    """
    if not are_weights_arranged(shape, grouping):
        sizes_in_place = (grouping.groups, grouping.inputs, grouping.outputs)
        view = weights_in_place(weights, sizes_in_place)
        if view is not None:
            return view, []
    blocks, in_groups, out_groups = grouping.count(shape)
    inside, n_in, n_out = grouping.groups, grouping.inputs, grouping.outputs
    sizes = (blocks, out_groups, in_groups, *shape.kernel, n_in)
    tensor = builder.graph.add_variable(
        weights.dtype, (*sizes, inside * n_out), "preArrangedWeights", builder.debug
    )
    if grouping.combined > 1:
        return tensor, _combined_weights(builder, weights, tensor, grouping)
    groups, outputs, inputs = weights.shape[:3]
    axes = [
        _Axis(0, block=0, unit=6, have=groups, size=inside),
        _Axis(1, block=1, unit=7, have=outputs, size=n_out),
        _Axis(2, block=2, unit=5, have=inputs, size=n_in),
    ]
    target = tensor.reshape(*sizes, inside, n_out)
    return tensor, _pairs(builder, weights, target, axes, (0, 6, 1, 7, 2, 5, 3, 4))


def _combined_weights(
    builder: Builder, weights: Tensor, target: Tensor, grouping: Grouping
) -> list[tuple[View, Tensor]]:
    """Return the copies that combine groups into one, with zeros between different groups."""
    n, n_in, n_out = grouping.combined, grouping.own_inputs, grouping.own_outputs
    full, rest = divmod(weights.shape[0], n)
    sizes = target.shape[:5]
    dense = target.reshape(*sizes, n, n_in, n, n_out)
    try:
        combined = (
            weights.slice(0, 0, full * n).reshape(full, n, *weights.shape[1:]) if full else None
        )
    except BadGraph:  # The strides of a dimension are incompatible with the cut.
        weights = row_major_copy(builder, weights, "rowMajor")
        return _combined_weights(builder, weights, target, grouping)
    pairs: list[tuple[View, Tensor]] = []
    zeros = []
    for i in range(n):
        inputs = dense.slice(5, i, i + 1)
        group_weights = inputs.slice(7, i, i + 1).reshape(*sizes, n_in, n_out)
        group_weights = group_weights.dim_shuffle(0, 1, 2, 6, 5, 3, 4).reshape(
            sizes[0], n_out, n_in, *sizes[3:]
        )
        n_real = weights.shape[1]
        if n_real < n_out:
            zeros.append(group_weights.slice(1, n_real, n_out))
            group_weights = group_weights.slice(1, 0, n_real)
        zeros += [inputs.slice(7, *bounds) for bounds in ((0, i), (i + 1, n)) if np.ptp(bounds)]
        if combined is not None:
            pairs.append(
                (
                    combined.slice(1, i, i + 1).reshape(full, *weights.shape[1:]),
                    group_weights.slice(0, 0, full),
                )
            )
        if i < rest:
            last = full * n + i
            pairs.append((weights.slice(0, last, last + 1), group_weights.slice(0, full, full + 1)))
        elif rest:
            zeros.append(group_weights.slice(0, full, full + 1))
    return pairs + zeros_into(builder, weights, zeros)
