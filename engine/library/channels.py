"""How channels lie in memory for a plan: in groups, padded to whole ones with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.graph import Tensor
from engine.library.builder import Builder
from engine.library.elementwise import copy_together
from engine.planner.families import Grouping
from engine.planner.shape import ConvolutionShape

__all__ = [
    "ChannelLayout",
    "arranged_images",
    "arranged_weights",
    "channel_runs",
    "weight_values",
    "zeros_into",
]


@dataclass(frozen=True)
class ChannelLayout:
    """Images whose channels are grouped: a pixel's channels of one group lie together.

    Where channels are padded, all channels of a pixel lie together, so that those that are there
    are a view.

    Parameters
    ----------
    n_groups, n_channels
        Convolution groups, and channels of each.
    inside, size
        Convolution groups worked on as one, and channels of each of them. Several groups inside
        have one group of channels only.
    """

    n_groups: int
    n_channels: int
    inside: int
    size: int

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks of convolution groups and of channels, padding included."""
        return -(-self.n_groups // self.inside), -(-self.n_channels // self.size)

    @property
    def pads_groups(self) -> bool:
        """Whether there are more convolution groups in memory than there are."""
        return self.n_groups % self.inside > 0

    @property
    def pads_channels(self) -> bool:
        """Whether a convolution group has more channels in memory than it has."""
        return self.n_channels % self.size > 0

    def variable_shape(self, images: int, rows: int, columns: int) -> tuple[int, ...]:
        """Return the shape of a variable that holds the images."""
        blocks, channels = self.blocks
        if self.pads_groups:
            return images, rows, columns, blocks * self.inside, channels * self.size
        if self.pads_channels or self.inside > 1:
            return blocks, images, rows, columns, self.inside, channels * self.size
        return blocks, images, channels, rows, columns, self.size

    def as_read(self, made: Tensor) -> Tensor:
        """Return such a variable as [block, image, channel block, row, column, channel]."""
        blocks, channels = self.blocks
        inner = self.inside * self.size
        if self.pads_groups:
            images, rows, columns = made.shape[:3]
            view = made.reshape(images, rows, columns, blocks, channels, inner)
            return view.dim_shuffle(3, 0, 4, 1, 2, 5)
        if self.pads_channels or self.inside > 1:
            _, images, rows, columns = made.shape[:4]
            view = made.reshape(blocks, images, rows, columns, channels, inner)
            return view.dim_shuffle(0, 1, 4, 2, 3, 5)
        return made

    def as_images(self, made: Tensor) -> Tensor:
        """Return a variable of that shape as (images, channels, rows, columns), without padding."""
        view = self._by_channel(made)
        view = view.slice(1, 0, self.n_groups).slice(2, 0, self.n_channels)
        images, _, _, rows, columns = view.shape
        return view.reshape(images, self.n_groups * self.n_channels, rows, columns)

    def _by_channel(self, made: Tensor) -> Tensor:
        """Return a variable as [image, group, channel, row, column], with the padding."""
        blocks, channels = self.blocks
        if self.pads_groups:
            return made.dim_shuffle(0, 3, 4, 1, 2)
        if self.pads_channels or self.inside > 1:
            _, images, rows, columns = made.shape[:4]
            view = made.dim_shuffle(1, 0, 4, 5, 2, 3)
            return view.reshape(images, blocks * self.inside, channels * self.size, rows, columns)
        _, images, _, rows, columns, _ = made.shape
        view = made.dim_shuffle(1, 0, 2, 5, 3, 4)
        return view.reshape(images, blocks, channels * self.size, rows, columns)

    def padding(self, made: Tensor) -> list[Tensor]:
        """Return what of a variable of that shape is padding."""
        view = self._by_channel(made)
        _, groups, channels, _, _ = view.shape
        parts = []
        if self.pads_groups:
            parts.append(view.slice(1, self.n_groups, groups))
        if self.pads_channels:
            real = view.slice(1, 0, self.n_groups)
            parts.append(real.slice(2, self.n_channels, channels))
        return parts


def zeros_into(
    builder: Builder, like: Tensor, parts: Sequence[Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return pairs that copy zeros into the given parts."""
    if not parts:
        return []
    zero = builder.graph.add_constant(
        np.zeros(1, np.float32), "zero", dtype=like.dtype, debug=builder.debug
    )
    builder.graph.map_linearly(zero, first=builder.graph.next_tile)
    return [(zero.reshape(*(1,) * len(p.shape)).broadcast_to(p.shape), p) for p in parts]


def _in_place(x: Tensor, blocks: int, channels: int, inner: int) -> Tensor | None:
    """Return images as they are read, if they lie so."""
    images, _, rows, columns = x.shape
    shape = (images, blocks, channels, inner, rows, columns)
    if not x.can_reshape(*shape):
        return None
    view = x.reshape(*shape).dim_shuffle(1, 0, 2, 4, 5, 3)
    if all(len(dim) == 1 for dim in view.dims) and (inner == 1 or view.dims[5][0][1] == 1):
        return view
    return None


def channel_runs(x: Tensor, n_groups: int) -> tuple[int, ...]:
    """Return the sizes of groups of channels in which images can be read as they lie, ascending.

    Parameters
    ----------
    x
        Shape (images, channels, rows, columns).
    n_groups
        Convolution groups; groups of channels lie within one, or take in several whole ones.
    """
    n_channels = x.shape[1]
    per_group = n_channels // n_groups
    found = []
    for inner in range(1, n_channels + 1):
        within, over = per_group % inner == 0, inner % per_group == 0 and n_channels % inner == 0
        if not (within or over):
            continue
        blocks = n_groups if within else n_channels // inner
        if _in_place(x, blocks, n_channels // blocks // inner, inner) is not None:
            found.append(inner)
    return tuple(found)


def arranged_images(
    builder: Builder, x: Tensor, layout: ChannelLayout, tiles: Sequence[int]
) -> Tensor:
    """Return images as [block, image, channel block, row, column, channel], channels contiguous.

    They are copied to `tiles` where they lie otherwise, or channels have to be padded.
    """
    images, _, rows, columns = x.shape
    blocks, channels = layout.blocks
    inner = layout.inside * layout.size
    if not layout.pads_groups and not layout.pads_channels:
        view = _in_place(x, blocks, channels, inner)
        if view is not None:
            return view
    made = builder.graph.add_variable(
        x.dtype, layout.variable_shape(images, rows, columns), "preArranged", builder.debug
    )
    grain = made.shape[-1] if layout.inside == 1 else inner
    builder.graph.map_linearly(made, grain=grain, tiles=tiles)
    pairs = [(x, layout.as_images(made)), *zeros_into(builder, x, layout.padding(made))]
    copy_together(builder, pairs, "preArrange")
    return layout.as_read(made)


def weight_values(
    weights: NDArray[Any], shape: ConvolutionShape, grouping: Grouping
) -> NDArray[Any]:
    """Return weights as [block, out group, in group, ky, kx, in, out], padded with zeros.

    Parameters
    ----------
    weights : ndarray, shape (groups, out channels, in channels, kernel rows, kernel columns)
        As the model has them.
    shape, grouping
        What they are for.
    """
    blocks, in_groups, out_groups = grouping.count(shape)
    inside, n_in, n_out = grouping.groups, grouping.inputs, grouping.outputs
    sizes = (blocks * inside, out_groups * n_out, in_groups * n_in)
    missing = [(0, size - have) for size, have in zip(sizes, weights.shape[:3], strict=True)]
    whole = np.pad(weights, [*missing, (0, 0), (0, 0)])
    split = whole.reshape(
        blocks, inside, out_groups, n_out, in_groups, n_in, *weights.shape[3:]
    ).transpose(0, 2, 4, 6, 7, 5, 1, 3)
    return np.ascontiguousarray(split).reshape(*split.shape[:6], inside * n_out)


def arranged_weights(
    builder: Builder, weights: Tensor, shape: ConvolutionShape, grouping: Grouping
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Return a variable for weights that are computed, and what has to be copied into it.

    Parameters
    ----------
    weights
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    shape, grouping
        What they are for.

    Returns
    -------
    made : Tensor
        Seen as [block, out group, in group, ky, kx, in, out]; not mapped yet.
    pairs : list of (source, target)
        The weights and zeros for the padding.
    """
    blocks, in_groups, out_groups = grouping.count(shape)
    inside, n_in, n_out = grouping.groups, grouping.inputs, grouping.outputs
    have, want = weights.shape[:3], (blocks * inside, out_groups * n_out, in_groups * n_in)
    rows, columns = shape.kernel
    graph = builder.graph
    is_padded = have != want or inside > 1
    if is_padded:
        sizes: tuple[int, ...] = (rows, columns, want[2], want[0] * want[1])
        if inside == 1:
            sizes = (want[0], rows, columns, want[2], want[1])
    else:
        sizes = (blocks, out_groups, in_groups, rows, columns, n_in, n_out)
    made = graph.add_variable(weights.dtype, sizes, "preArrangedWeights", builder.debug)
    if not is_padded:
        target = made.dim_shuffle(0, 1, 6, 2, 5, 3, 4).reshape(*want, rows, columns)
        return made, [(weights, target)]
    if inside == 1:
        target = made.dim_shuffle(0, 4, 3, 1, 2)
        seen = made.reshape(want[0], rows, columns, in_groups, n_in, out_groups, n_out)
        seen = seen.dim_shuffle(0, 5, 3, 1, 2, 4, 6)
    else:
        target = made.reshape(rows, columns, want[2], want[0], want[1]).dim_shuffle(3, 4, 2, 0, 1)
        seen = made.reshape(rows, columns, in_groups, n_in, blocks, out_groups, inside * n_out)
        seen = seen.dim_shuffle(4, 5, 2, 0, 1, 3, 6)
    padding = []
    real = target
    for d in range(3):
        if have[d] < want[d]:
            padding.append(real.slice(d, have[d], want[d]))
            real = real.slice(d, 0, have[d])
    return seen, [(weights, real), *zeros_into(builder, weights, padding)]
