"""The gradient of a convolution with respect to its weights, as a convolution or a product.

Images and channels swap roles: an input channel is an image with the images as channels, and the
gradient is the kernel, dilated by the stride. Vertices multiply many channels at a time, so
that a dimension of the field that has one tap becomes channels too, or images.
Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvTransforms.hpp, expandDims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import check_rank, checked, checked_with
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.allocators import create_convolution_input
from tilescope.engine.library.poplin.channels import zeros_into
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.convolution_request import plan_of
from tilescope.engine.library.poplin.patches import as_view, patches_of
from tilescope.engine.library.poplin.product_types import product_types
from tilescope.engine.library.popops.elementwise.operations import (
    copy_together,
    in_one,
    rearranged,
    row_major_copy,
)
from tilescope.engine.library.popops.slicing.padding import pad
from tilescope.engine.library.window import Window, output_size
from tilescope.engine.planner.exchange import exchange_cycles
from tilescope.engine.tiling import ConvolutionShape

__all__ = ["weight_gradient"]


@checked_with(convolution)
def weight_gradient(
    builder: Builder,
    x: View,
    gradient: View,
    window: Window,
    groups: int = 1,
    name: str = "weightGradient",
    **options: Any,
) -> Tensor:
    """Return the gradient of a convolution with respect to its weights.

    Parameters
    ----------
    builder
        Target of the program.
    x
        The convolution's input, shape (images, channels, rows, columns).
    gradient
        Gradient of its output, shape (images, out channels, rows, columns).
    window
        Geometry of the convolution.
    groups
        Convolution groups.
    name
        Debug name.
    **options
        Further arguments of `tilescope.engine.library.poplin.convolution.convolution`.

    Returns
    -------
    Tensor
        Shape (out channels, channels / groups, kernel rows, kernel columns).

    Raises
    ------
    BadGraph
        If a convolution of `x` does not have the shape of `gradient`.
    """
    for operand_name, operand in (("input", x), ("gradient", gradient)):
        check_rank(f"{name}: its {operand_name}", operand, "images, channels, rows, columns")
    n_images, n_in, *size = x.shape
    n_out, *field = gradient.shape[1:]
    expected = [output_size(size[d], d, window) for d in (0, 1)]
    if expected != field or gradient.shape[0] != n_images or n_in % groups or n_out % groups:
        raise BadGraph(
            f"{name}: a convolution of {x.shape} in {groups} groups gives {n_images} images of"
            f" {tuple(expected)}, but the gradient is {gradient.shape}"
        )
    # A requested family or split is that of the convolution whose kernel is the whole field.
    is_free = not (options.get("family") or options.get("split"))
    patches = patches_of(window, size, n_in // groups, groups)
    if is_free and patches:
        x = in_one(builder, x)
        read = as_view(builder, x, "rearrange", patches.folded)
        left = patches.window(window)
        gradient = patches.turned(in_one(builder, gradient))
        out = weight_gradient(builder, read, gradient, left, groups, name, **options)
        return as_view(builder, out, "ungroup", patches.unfolded_weights)
    folded = [is_free and _folds(d, window, size[d], field[d]) for d in (0, 1)]
    if all(folded):
        return _gradient_of_points(builder, (x, gradient), window, groups, name, options)
    if folded[1]:
        # The dimension that is left becomes the columns, along which vertices are fastest.
        turned = Window(*(getattr(window, part)[::-1] for part in _WINDOW_PARTS))
        across = (x.dim_shuffle(0, 1, 3, 2), gradient.dim_shuffle(0, 1, 3, 2))
        out = _gradient_along(builder, across, turned, groups, name, options)
        return out.dim_shuffle(0, 1, 3, 2)
    if folded[0]:
        return _gradient_along(builder, (x, gradient), window, groups, name, options)
    return _gradient_of_field(builder, (x, gradient), window, groups, name, options)


_WINDOW_PARTS = ("kernel", "stride", "dilation", "padding_before", "padding_after")


def _folds(d: int, window: Window, n_inputs: int, n_outputs: int) -> bool:
    """Return whether a dimension has one tap, which reads an input for every output."""
    last = (n_outputs - 1) * window.stride[d] - window.padding_before[d]
    return window.kernel[d] == 1 and window.padding_before[d] <= 0 and last < n_inputs


def _sampled(x: Tensor, d: int, window: Window, count: int) -> Tensor:
    """Return the elements along rows (0) or columns (1) that one tap reads."""
    step, first = window.stride[d], -window.padding_before[d]
    if (first, step, count) == (0, 1, x.shape[2 + d]):
        return x
    (atom,) = x.dims[2 + d]
    dims = list(x.dims)
    dims[2 + d] = ((count, atom[1] * step),)
    return replace(x, offset=x.offset + first * atom[1], dims=tuple(dims))


def _with_plain_field(builder: Builder, x: View, name: str) -> Tensor:
    """Return images whose rows and columns are one atom each; a copy if theirs are not."""
    x = in_one(builder, x)
    is_plain = len(x.dims[2]) == len(x.dims[3]) == 1
    return x if is_plain else row_major_copy(builder, x, name)


#: A worker copies an element that lies alone in 4 instructions; all six share a tile's.
_CYCLES_OF_AN_ELEMENT = 4

#: A convolution's input and the gradient of its output.
_Pair = tuple[View, View]


def _gradient_of_points(
    builder: Builder, pair: _Pair, window: Window, groups: int, name: str, options: dict[str, Any]
) -> Tensor:
    """Return the gradient of a kernel of one element: a product over images and field.

    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvTransforms.hpp, expandDims: the field
    becomes input channels.
    """
    x, gradient = pair
    n_images, n_out, *field = gradient.shape
    n_in = x.shape[1]
    inner = n_images * field[0] * field[1]
    x = _with_plain_field(builder, x, "rearrange")
    read = _sampled(_sampled(x, 0, window, field[0]), 1, window, field[1])
    a = _regrouped(
        builder,
        gradient,
        (n_images, groups, n_out // groups, *field),
        (1, 2, 0, 3, 4),
        "rearrangeGradient",
    )
    b = _regrouped(
        builder, read, (n_images, groups, n_in // groups, *field), (1, 0, 3, 4, 2), "rearrange"
    )
    # The options of convolutions hold, though it is a product.
    share = builder.available_memory.convolution
    partials_type = builder.partials.convolution if x.dtype.name == "float16" else None
    out = matmul(
        builder,
        rearranged(builder, a, (groups, n_out // groups, inner), "rearrangeGradient"),
        rearranged(builder, b, (groups, inner, n_in // groups), "rearrange"),
        name,
        available_memory_proportion=options.get("available_memory_proportion") or share,
        partials_type=options.get("partials_type") or partials_type,
    )
    return rearranged(builder, out, (n_out, n_in // groups, 1, 1), "rearrangeResult")


def _gradient_along(
    builder: Builder, pair: _Pair, window: Window, groups: int, name: str, options: dict[str, Any]
) -> Tensor:
    """Return the gradient of a kernel of one row; the rows of the field become images."""
    x, gradient = pair
    n_images, n_out, n_rows, n_columns = gradient.shape
    n_in = x.shape[1]
    read = _sampled(_with_plain_field(builder, x, "rearrange"), 0, window, n_rows)
    row_of_columns = replace(
        window,
        kernel=(1, window.kernel[1]),
        stride=(1, window.stride[1]),
        dilation=(1, window.dilation[1]),
        padding_before=(0, window.padding_before[1]),
        padding_after=(0, window.padding_after[1]),
    )
    rows_as_images = [
        rearranged(
            builder,
            in_one(builder, operand).dim_shuffle(0, 2, 1, 3),
            (n_images * n_rows, channels, 1, operand.shape[3]),
            label,
        )
        for operand, channels, label in (
            (read, n_in, "rearrange"),
            (gradient, n_out, "rearrangeGradient"),
        )
    ]
    assert rows_as_images[1].shape[3] == n_columns
    images = rows_as_images[0], rows_as_images[1]
    return _gradient_of_field(builder, images, row_of_columns, groups, name, options)


def _gradient_of_field(
    builder: Builder, pair: _Pair, window: Window, groups: int, name: str, options: dict[str, Any]
) -> Tensor:
    """Return the gradient as a convolution whose kernel is the gradient of the output."""
    if not (options.get("family") or options.get("split")) and _unfolds(
        builder,
        *pair,
        window,
        groups,
        name,
        available_memory_proportion=options.get("available_memory_proportion"),
        partials_type=options.get("partials_type"),
    ):
        return _gradient_unfolded(builder, pair, window, groups, name, options)
    x, gradient = pair
    n_images, n_in, *size = x.shape
    n_out, *field = gradient.shape[1:]
    turned = Window(
        (field[0], field[1]),
        stride=window.dilation,
        dilation=window.stride,
        padding_before=window.padding_before,
        padding_after=(_after(0, window, size, field), _after(1, window, size, field)),
    )
    images = _regrouped(
        builder, x, (n_images, groups, n_in // groups, *size), (2, 1, 0, 3, 4), "rearrange"
    )
    images = images.reshape(n_in // groups, groups * n_images, *size)
    kernel = _regrouped(
        builder,
        gradient,
        (n_images, groups, n_out // groups, *field),
        (1, 2, 0, 3, 4),
        "rearrangeGradient",
    )
    kernel = kernel.reshape(n_out, n_images, *field)
    out = convolution(builder, images, kernel, turned, groups, name, **options)
    return out.dim_shuffle(1, 0, 2, 3)


@checked
def _unfolds(
    builder: Builder,
    x: View,
    gradient: View,
    window: Window,
    groups: int,
    name: str,
    *,
    available_memory_proportion: float | None,
    partials_type: str | None,
) -> bool:
    """Return whether the gradient takes less with the columns of the field as channels."""
    share = builder.available_memory.with_own(available_memory_proportion).convolution
    direct, unfolded = (
        plan_of(builder, name, shape, share).predicted_cycles
        for shape in _shapes(builder, (x, gradient), window, groups, partials_type)
    )
    return unfolded + _copy_cycles(builder, x) < direct


def _shapes(
    builder: Builder, pair: _Pair, window: Window, groups: int, partials_type: str | None
) -> tuple[ConvolutionShape, ConvolutionShape]:
    """Return the gradient as the planner sees it: as it is, and with its columns as channels."""
    x, gradient = pair
    n_images, n_in, *size = x.shape
    n_out, *field = gradient.shape[1:]
    usual = builder.partials.with_own(partials_type).convolution
    types = product_types("weightGradient", x, gradient, None, usual, partials_type)
    direct = ConvolutionShape(
        groups=groups,
        images=n_in // groups,
        height=window.kernel[0],
        width=window.kernel[1],
        in_channels=n_images,
        out_channels=n_out // groups,
        kernel=(field[0], field[1]),
        stride=window.dilation,
        dilation=window.stride,
        padding_before=window.padding_before,
        in_height=size[0],
        in_width=size[1],
        dtype=x.dtype.name,
        partial_dtype=types.partials.name,
        weights="strided",
    )
    unfolded = replace(
        direct,
        in_channels=n_images * field[1],
        kernel=(field[0], 1),
        stride=(window.dilation[0], 1),
        dilation=(window.stride[0], 1),
        padding_before=(window.padding_before[0], 0),
        in_width=window.kernel[1],
    )
    return direct, unfolded


def _copy_cycles(builder: Builder, x: View) -> int:
    """Return the cycles to copy images element by element, as padding and unfolding may."""
    machine = builder.tiles.machine
    on_tile = -(-x.n_elements // machine.n_tiles)
    received, tiles_used = np.array([[on_tile * x.dtype.n_bytes], [machine.n_tiles]], np.int64)
    moved = int(exchange_cycles(received, 0 * received, tiles_used, machine)[0])
    return moved + _CYCLES_OF_AN_ELEMENT * on_tile


def _gradient_unfolded(
    builder: Builder, pair: _Pair, window: Window, groups: int, name: str, options: dict[str, Any]
) -> Tensor:
    """Return the gradient with the columns of the field as channels: each tap reads its own.

    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvTransforms.hpp, expandDims.
    """
    x, gradient = pair
    n_images, n_in, *size = x.shape
    n_out, n_rows, n_columns = gradient.shape[1:]
    kernel = _regrouped(
        builder,
        gradient,
        (n_images, groups, n_out // groups, n_rows, n_columns),
        (1, 2, 0, 4, 3),
        "rearrangeGradient",
    )
    kernel_shape = (n_out, n_images * n_columns, n_rows, 1)
    kernel = rearranged(builder, kernel, kernel_shape, "rearrangeGradient")
    turned = Window(
        (n_rows, 1),
        stride=(window.dilation[0], 1),
        dilation=(window.stride[0], 1),
        padding_before=(window.padding_before[0], 0),
        padding_after=(_after(0, window, size, (n_rows, n_columns)), 0),
    )
    shape = (n_in // groups, groups * n_images * n_columns, size[0], window.kernel[1])
    images: Tensor | None = None
    if window.kernel[1] * n_columns < 2 * size[1]:
        # Few elements are read by several taps: each tap gets a copy, laid out as it is read.
        images = create_convolution_input(
            builder, shape, kernel, turned, groups, f"{name}/unfolded", dtype=x.dtype, **options
        )
        split = (n_in // groups, groups, n_images, n_columns, size[0], window.kernel[1])
        by_column = images.reshape(*split) if images.can_reshape(*split) else None
        if by_column is not None and len(by_column.dims[3]) == 1:
            _unfold_into(builder, in_one(builder, x), by_column, window)
        else:  # groups of channels that columns do not divide
            images = None
    if images is None:
        images = _unfolded(builder, x, shape, window, n_columns, groups)
    out = convolution(builder, images, kernel, turned, groups, name, **options)
    return out.dim_shuffle(1, 0, 2, 3)


def _unfolded(
    builder: Builder,
    x: View,
    shape: Sequence[int],
    window: Window,
    n_columns: int,
    groups: int,
) -> Tensor:
    """Return a view in which each tap of a row has the columns that it reads; padded if needed."""
    n_images, n_in, height, width = x.shape
    taps, step, dilation = window.kernel[1], window.stride[1], window.dilation[1]
    before = window.padding_before[1]
    read = (n_columns - 1) * step + (taps - 1) * dilation + 1
    x = x.slice(3, max(-before, 0), width)
    missing = read - x.shape[3] - max(before, 0)
    x = pad(builder, x, (0, 0, 0, max(before, 0)), (0, 0, 0, max(missing, 0)))
    x = _with_plain_field(builder, x, "rearrange")
    ((_, stride),) = x.dims[3]
    windows = ((taps, dilation * stride),), ((n_columns, step * stride),)
    unfolded = _regrouped(
        builder,
        replace(x, dims=(*x.dims[:3], *windows)),
        (n_images, groups, n_in // groups, height, taps, n_columns),
        (2, 1, 0, 5, 3, 4),
        "unfold",
    )
    return rearranged(builder, unfolded, shape, "unfold")


def _unfold_into(builder: Builder, x: Tensor, images: Tensor, window: Window) -> None:
    """Copy what each tap of a row reads, and zeros where it reads padding.

    The images have dimensions of inputs of a group, groups, images, columns, rows and taps.
    """
    n_images, _, height, width = x.shape
    per_group, groups, _, n_columns, *_ = images.shape
    taps, step, dilation = window.kernel[1], window.stride[1], window.dilation[1]
    if len(x.dims[3]) > 1:
        x = row_major_copy(builder, x, "rearrange")
    by_column = images.dim_shuffle(2, 1, 0, 4, 3, 5)
    read = x.reshape(n_images, groups, per_group, height, width)
    ((_, stride),) = read.dims[4]
    pairs, padding = [], []
    for tap in range(taps):
        target = by_column.slice(5, tap, tap + 1).reshape(*by_column.shape[:5])
        offset = tap * dilation - window.padding_before[1]
        first = min(max(-(offset // step), 0), n_columns)
        end = min(max(-(-(width - offset) // step), first), n_columns)
        edges = ((0, first), (end, n_columns))
        padding += [target.slice(4, *edge) for edge in edges if edge[0] < edge[1]]
        if first < end:
            part = read.offset + (first * step + offset) * stride
            columns = ((end - first, step * stride),)
            source = replace(read, offset=part, dims=(*read.dims[:4], columns))
            pairs.append((source, target.slice(4, first, end)))
    copy_together(builder, [*pairs, *zeros_into(builder, images, padding)], "unfold")


def _after(d: int, window: Window, size: Sequence[int], field: Sequence[int]) -> int:
    """Return the padding after the input with which no input beyond the last window is read."""
    taps = (window.kernel[d] - 1) * window.dilation[d]
    last = taps + (field[d] - 1) * window.stride[d]
    return last + 1 - size[d] - window.padding_before[d]


def _regrouped(
    builder: Builder, x: View, sizes: Sequence[int], order: Sequence[int], name: str
) -> Tensor:
    """Return a view with dimensions split and reordered; a copy of that name if no view exists."""
    return rearranged(builder, x, sizes, name).dim_shuffle(*order)
