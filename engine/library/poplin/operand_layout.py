"""Operands of products in the layout of vertices: which can be read in place, and their views."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from tilescope.engine.graph import Tensor
from tilescope.engine.graph.tensor.tensor import Dim
from tilescope.engine.tiling import Grouping
from tilescope.engine.tiling.channel_layout import ChannelLayout

__all__ = [
    "as_images",
    "as_weights",
    "channel_runs",
    "free_runs",
    "images_in_place",
    "weight_groupings",
    "weights_in_place",
]


def images_in_place(x: Tensor, blocks: int, channels: int, inner: int) -> Tensor | None:
    """Return the images in the layout of the vertices if they have it, else None.

    Parameters
    ----------
    x
        Shape (images, channels, rows, columns).
    blocks, channels, inner
        Blocks of convolution groups, channel blocks, and contiguous channels.
    """
    images, _, rows, columns = x.shape
    shape = (images, blocks, channels, inner, rows, columns)
    if not x.can_reshape(*shape):
        return None
    view = x.reshape(*shape).dim_shuffle(1, 0, 2, 4, 5, 3)
    if all(len(dim) == 1 for dim in view.dims) and (inner == 1 or view.dims[5][0][1] == 1):
        return view
    return None


def as_images(tensor: Tensor, layout: ChannelLayout) -> Tensor:
    """Return [block, image, channel block, row, column, channel] as images without padding."""
    blocks, images, channels, rows, columns, _ = tensor.shape
    blocked = tensor.reshape(blocks, images, channels, rows, columns, layout.inside, layout.size)
    n_channels = layout.n_groups * layout.n_channels
    return blocked.dim_shuffle(1, 0, 5, 2, 6, 3, 4).reshape(images, n_channels, rows, columns)


def _possible_runs(n_channels: int, n_groups: int) -> list[tuple[int, int]]:
    """Return the sizes of channel groups, ascending, and the blocks of convolution groups.

    A channel group is part of one convolution group, or spans several whole ones.
    """
    per_group = n_channels // n_groups
    layouts = []
    for inner in range(1, n_channels + 1):
        within, over = per_group % inner == 0, inner % per_group == 0 and n_channels % inner == 0
        if within or over:
            layouts.append((inner, n_groups if within else n_channels // inner))
    return layouts


def free_runs(n_channels: int, n_groups: int) -> tuple[int, ...]:
    """Return all channel group sizes without padding, ascending, for images not allocated yet."""
    return tuple(inner for inner, _ in _possible_runs(n_channels, n_groups))


def channel_runs(x: Tensor, n_groups: int) -> tuple[int, ...]:
    """Return the channel group sizes for which images can be read in place, ascending.

    Parameters
    ----------
    x
        Shape (images, channels, rows, columns).
    n_groups
        Convolution groups.
    """
    return _channel_runs(x.dims, n_groups)


@lru_cache(maxsize=1 << 12)
def _channel_runs(dims: tuple[Dim, ...], n_groups: int) -> tuple[int, ...]:
    x = _with_layout(dims)
    n_channels = x.shape[1]
    return tuple(
        inner
        for inner, blocks in _possible_runs(n_channels, n_groups)
        if images_in_place(x, blocks, n_channels // blocks // inner, inner) is not None
    )


def weights_in_place(weights: Tensor, sizes: tuple[int, int, int]) -> Tensor | None:
    """Return weights in the layout of the vertices if they have it, else None.

    Parameters
    ----------
    weights
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    sizes
        Contiguous groups, inputs and outputs of a grouping; divisors of the weights' own.

    Returns
    -------
    Tensor or None
        Shape (block, out group, in group, ky, kx, in, out).
    """
    n_groups, n_out, n_in = weights.shape[:3]
    kernel = weights.shape[3:]
    inside, inputs, outputs = sizes
    blocked_sizes = (
        n_groups // inside,
        inside,
        n_out // outputs,
        outputs,
        n_in // inputs,
        inputs,
        *kernel,
    )
    if prod(blocked_sizes) != weights.n_elements or not weights.can_reshape(*blocked_sizes):
        return None
    turned = weights.reshape(*blocked_sizes).dim_shuffle(0, 2, 4, 6, 7, 5, 1, 3)
    merged = (*turned.shape[:6], inside * outputs)
    if not turned.can_reshape(*merged):
        return None
    view = turned.reshape(*merged)
    if any(len(dim) > 1 for dim in view.dims):
        return None
    stride = 1
    # Kernel, inputs and outputs of one channel group are contiguous.
    for d in (6, 5, 4, 3):
        if view.shape[d] > 1 and view.dims[d][0][1] != stride:
            return None
        stride *= view.shape[d]
    return view


def as_weights(tensor: Tensor, grouping: Grouping) -> Tensor:
    """Return weights [block, out group, in group, ky, kx, in, out] as the operation has them.

    Returns
    -------
    Tensor
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    """
    blocks, out_groups, in_groups, *kernel, n_in, _ = tensor.shape
    inside, n_out = grouping.groups, grouping.outputs
    blocked = tensor.reshape(blocks, out_groups, in_groups, *kernel, n_in, inside, n_out)
    turned = blocked.dim_shuffle(0, 6, 1, 7, 2, 5, 3, 4)
    return turned.reshape(blocks * inside, out_groups * n_out, in_groups * n_in, *kernel)


def weight_groupings(weights: Tensor) -> tuple[tuple[int, int, int], ...]:
    """Return the groups, inputs and outputs for which weights can be read in place, ascending.

    Parameters
    ----------
    weights
        Shape (groups, out channels, in channels, kernel rows, kernel columns).
    """
    return _weight_groupings(weights.dims)


@lru_cache(maxsize=1 << 12)
def _weight_groupings(dims: tuple[Dim, ...]) -> tuple[tuple[int, int, int], ...]:
    weights = _with_layout(dims)
    n_groups, n_out, n_in = weights.shape[:3]
    by_group, by_out, by_in = (weights.dims[d][-1][1] for d in range(3))
    groupings = []
    for inside in _divisors(n_groups):
        for outputs in _divisors(n_out):
            if (outputs > 1 and by_out != 1) or (inside > 1 and by_group != outputs):
                continue
            groupings += [
                (inside, inputs, outputs)
                for inputs in _divisors(n_in)
                if (inputs == 1 or by_in == inside * outputs)
                and weights_in_place(weights, (inside, inputs, outputs)) is not None
            ]
    return tuple(groupings)


def _with_layout(dims: tuple[Dim, ...]) -> Tensor:
    """Return a tensor to reshape: its layout decides what is a view, whatever its variable."""
    return Tensor(None, 0, dims)  # type: ignore[arg-type]


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, ascending."""
    return [i for i in range(1, number + 1) if number % i == 0]
