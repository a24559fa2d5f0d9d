"""Convolutions in the form that vertices are fastest at: taps as channels, columns as rows.

A dimension of the field in which every input is read once, as in an embedding of patches or by a
kernel as large as the field, adds its taps to the channels of a group; the kernel is then of
one element in that dimension. Channels in whole groups stay together, inside the taps; few channels
are outside them. A field of one column becomes one row, as vertices work along rows.
Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvTransforms.hpp, expandDims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import DType, Tensor
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import row_major_copy
from tilescope.engine.library.window import Window

__all__ = ["Patches", "as_view", "channel_patches", "patches_of"]

#: Channels that vertices read at a time, at most.
_WHOLE_GROUP = 16

#: A tensor, or constants.
Operand = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Patches:
    """The taps of a convolution that become channels.

    Parameters
    ----------
    taps
        Rows and columns of the kernel that do; 1 where none do.
    groups
        Convolution groups.
    turns
        Whether rows and columns change places.
    are_inner
        Whether the taps are inside the channels.
    """

    taps: tuple[int, int]
    groups: int
    turns: bool = False
    are_inner: bool = False

    def __bool__(self) -> bool:
        return self.taps != (1, 1) or self.turns

    @property
    def can_lie(self) -> bool:
        """Whether channels in groups of 4, 8 or 16 hold whole rows of taps, or whole parts."""
        return not any(tap & (tap - 1) for tap in self.taps)

    def window(self, window: Window) -> Window:
        """Return the geometry that is left."""

        def left(name: str) -> tuple[int, int]:
            rows, columns = getattr(window, name)
            if name in ("kernel", "stride"):
                rows = 1 if self.taps[0] > 1 else rows
                columns = 1 if self.taps[1] > 1 else columns
            return (columns, rows) if self.turns else (rows, columns)

        return Window(**{field.name: left(field.name) for field in fields(Window)})

    def size(self, size: Sequence[int]) -> tuple[int, int]:
        """Return the rows and columns of the input, or of the kernel, that are left."""
        left = size[0] // self.taps[0], size[1] // self.taps[1]
        return left[::-1] if self.turns else left

    @overload
    def turned(self, x: Tensor) -> Tensor: ...

    @overload
    def turned(self, x: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def turned(self, x: Operand) -> Operand: ...

    def turned(self, x: Operand) -> Operand:
        """Return a tensor or array of four dimensions with the last two in the order left."""
        return _shuffled(x, (0, 1, 3, 2)) if self.turns else x

    @overload
    def folded(self, x: Tensor) -> Tensor: ...

    @overload
    def folded(self, x: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def folded(self, x: Operand) -> Operand: ...

    def folded(self, x: Operand) -> Operand:
        """Return images (images, channels, rows, columns) with the taps as channels."""
        n_images, n_channels, height, width = (int(size) for size in x.shape)
        rows, columns = height // self.taps[0], width // self.taps[1]
        per_group = n_channels // self.groups
        parts = (n_images, self.groups, per_group, rows, self.taps[0], columns, self.taps[1])
        outer = n_channels * self.taps[0] * self.taps[1]
        order = (0, 1, 2, 4, 6, 3, 5) if self.are_inner else (0, 1, 4, 6, 2, 3, 5)
        split = _shuffled(x.reshape(*parts), order)
        return self.turned(split.reshape(n_images, outer, rows, columns))

    def unfolded(self, x: Tensor, per_group: int) -> Tensor:
        """Return images of `folded` as before, of `per_group` channels in a group."""
        x = self.turned(x)
        n_images, _, rows, columns = x.shape
        if self.are_inner:
            split = x.reshape(n_images, self.groups, per_group, *self.taps, rows, columns)
            joined = split.dim_shuffle(0, 1, 2, 5, 3, 6, 4)
        else:
            split = x.reshape(n_images, self.groups, *self.taps, per_group, rows, columns)
            joined = split.dim_shuffle(0, 1, 4, 5, 2, 6, 3)
        height, width = rows * self.taps[0], columns * self.taps[1]
        return joined.reshape(n_images, self.groups * per_group, height, width)

    @overload
    def folded_weights(self, weights: Tensor) -> Tensor: ...

    @overload
    def folded_weights(self, weights: NDArray[Any]) -> NDArray[Any]: ...

    @overload
    def folded_weights(self, weights: Operand) -> Operand: ...

    def folded_weights(self, weights: Operand) -> Operand:
        """Return weights (outputs, channels, rows, columns) with the taps as channels."""
        n_out, per_group, *kernel = (int(size) for size in weights.shape)
        left = kernel[0] // self.taps[0], kernel[1] // self.taps[1]
        split = _shuffled(
            weights.reshape(n_out, per_group, left[0], self.taps[0], left[1], self.taps[1]),
            (0, 1, 3, 5, 2, 4) if self.are_inner else (0, 3, 5, 1, 2, 4),
        )
        return self.turned(split.reshape(n_out, self.taps[0] * self.taps[1] * per_group, *left))

    def unfolded_weights(self, weights: Tensor) -> Tensor:
        """Return weights of `folded_weights` as before."""
        weights = self.turned(weights)
        n_out, inner, *left = weights.shape
        per_group = inner // (self.taps[0] * self.taps[1])
        kernel = left[0] * self.taps[0], left[1] * self.taps[1]
        if self.are_inner:
            split = weights.reshape(n_out, per_group, *self.taps, *left)
            return split.dim_shuffle(0, 1, 4, 2, 5, 3).reshape(n_out, per_group, *kernel)
        split = weights.reshape(n_out, *self.taps, per_group, *left)
        return split.dim_shuffle(0, 3, 4, 1, 5, 2).reshape(n_out, per_group, *kernel)


def patches_of(
    window: Window, size: Sequence[int], per_group: int, groups: int = 1, *, folds: bool = True
) -> Patches:
    """Return the taps that can become channels, and whether the field is a column.

    Parameters
    ----------
    window
        Geometry.
    size
        Rows and columns of the input.
    per_group
        Input channels of a group.
    groups
        Convolution groups.
    folds
        Whether taps may become channels at all.
    """
    taps = [1, 1]
    is_plain = [
        window.dilation[d] == 1 and not window.padding_before[d] and not window.padding_after[d]
        for d in (0, 1)
    ]
    for d in (0, 1):
        kernel = window.kernel[d]
        is_whole = size[d] == kernel or (window.stride[d] == kernel and size[d] % kernel == 0)
        if folds and is_whole and is_plain[d]:
            taps[d] = kernel
    is_column = size[1] == taps[1] and size[0] > taps[0] and is_plain[1]
    is_column &= window.kernel[1] == taps[1]
    return Patches((taps[0], taps[1]), groups, is_column, per_group < _WHOLE_GROUP)


def channel_patches(
    builder: Builder,
    dtype: DType,
    shape: Sequence[int],
    window: Window,
    groups: int,
    *,
    is_free: bool,
) -> Patches:
    """Return the taps that become channels of a convolution: where its own do not fill the unit.

    Parameters
    ----------
    builder
        Supplies the machine.
    dtype
        Type of the operands.
    shape
        Shape of the images: (images, channels, rows, columns).
    window, groups
        The convolution.
    is_free
        Whether no family or split is requested: these are of the convolution as it is.
    """
    unit_inputs = builder.tiles.machine.conv_unit(dtype.n_bytes, dtype.n_bytes)[1]
    if not is_free:
        return Patches((1, 1), groups)
    folds = shape[1] // groups < unit_inputs
    size = int(shape[2]), int(shape[3])
    return patches_of(window, size, shape[1] // groups, groups, folds=folds)


def as_view(build: Builder, x: Tensor, name: str, view: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a view of a tensor; of a row-major copy of that name where it has none."""
    try:
        return view(x)
    except BadGraph:
        return view(row_major_copy(build, x, name))


def _shuffled(x: Operand, order: tuple[int, ...]) -> Operand:
    """Return an operand with its dimensions permuted."""
    return x.dim_shuffle(*order) if isinstance(x, Tensor) else x.transpose(order)
