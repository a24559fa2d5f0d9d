"""Convolutions and products of matrices: plan, lay out weights, convolve, reduce.

Everything is brought to one form first: an input [group, image, channel group, row, column,
channel], weights [group, out group, in group, ky, kx, in, out] and an output [group, image, out
group, row, column, out channel].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.codelets.convolution import CONV_PARTIAL_1X1, CONV_PARTIAL_NX1, DEPTHWISE
from engine.codelets.reduce import REDUCE_PARTIALS
from engine.errors import BadGraph
from engine.graph import Tensor, blocks
from engine.library.builder import Builder, refuse_float8
from engine.library.elementwise import copy_to
from engine.library.spread import cut_rows
from engine.planner import ConvolutionShape, Plan, plan_convolution

__all__ = ["Window", "convolution", "matmul", "output_size"]


@dataclass(frozen=True)
class Window:
    """Geometry of a convolution or pool over rows and columns."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding_before: tuple[int, int] = (0, 0)
    padding_after: tuple[int, int] = (0, 0)


def output_size(size: int, d: int, window: Window) -> int:
    """Return rows (d = 0) or columns (d = 1) of the output for `size` of the input."""
    extent = (window.kernel[d] - 1) * window.dilation[d] + 1
    padded = size + window.padding_before[d] + window.padding_after[d]
    return (padded - extent) // window.stride[d] + 1


def group_size(channels: int, at_most: int) -> int:
    """Return the largest divisor of `channels` that is no larger than `at_most`."""
    return max(g for g in range(1, min(channels, at_most) + 1) if channels % g == 0)


def clipped(
    first: NDArray[np.int64], count: NDArray[np.int64], d: int, size: int, window: Window
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the input range a range of outputs reads, clipped to the input, and the shift.

    Parameters
    ----------
    first, count : ndarray of int64
        Outputs along dimension `d`.
    size
        Size of the input along it.

    Returns
    -------
    start, length, shift : ndarray of int64
        The range, at least one element, and where the first window begins within it.
    """
    begin = first * window.stride[d] - window.padding_before[d]
    extent = (window.kernel[d] - 1) * window.dilation[d] + 1
    end = begin + (count - 1) * window.stride[d] + extent
    start = np.clip(begin, 0, size - 1)
    stop = np.clip(end, start + 1, size)
    return start, stop - start, begin - start


def convolution(
    builder: Builder,
    x: Tensor,
    weights: NDArray[Any],
    window: Window,
    groups: int = 1,
    name: str = "convolution",
    *,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Convolve images with constant weights.

    Parameters
    ----------
    x
        Shape (images, channels, rows, columns).
    weights : ndarray, shape (out channels, channels / groups, kernel rows, kernel columns)
        Constant; they are laid out for the plan before the program runs.
    window
        Geometry.
    groups
        Convolution groups.
    available_memory_proportion
        Largest share of a tile for temporary memory; the builder's if not given.

    Returns
    -------
    Tensor
        Shape (images, out channels, rows, columns), channels innermost in groups.
    """
    n_images, n_channels, height, width = x.shape
    n_out = weights.shape[0]
    detail = {
        "input": list(x.shape),
        "weights": list(weights.shape),
        "groups": groups,
        "stride": list(window.stride),
        "dilation": list(window.dilation),
        "padding": [list(window.padding_before), list(window.padding_after)],
    }
    build = builder.inside(name, "poplin.convolution", detail)
    is_depthwise = groups == n_channels == n_out and groups > 1
    units, inputs = _amp_shape(builder, x)
    if is_depthwise:
        out_size_group = group_size(n_out, units)
        in_size_group, n_groups, in_groups, out_groups = 1, 1, 1, n_out // out_size_group
    else:
        n_groups = groups
        in_size_group = group_size(n_channels // groups, inputs)
        out_size_group = group_size(n_out // groups, units)
        in_groups = n_channels // groups // in_size_group
        out_groups = n_out // groups // out_size_group
    shape = ConvolutionShape(
        batch=n_images * n_groups,
        height=output_size(height, 0, window),
        width=output_size(width, 1, window),
        input_groups=in_groups,
        inputs_per_group=in_size_group,
        output_groups=out_groups,
        outputs_per_group=out_size_group,
        kernel_height=window.kernel[0],
        kernel_width=window.kernel[1],
        stride_y=window.stride[0],
        stride_x=window.stride[1],
        item_bytes=x.dtype.n_bytes,
        is_depthwise=is_depthwise,
    )
    share = builder.available_memory.with_own(available_memory_proportion).convolution
    plan = plan_convolution(build.debug.name, shape, builder.graph.compute_machine, share)
    builder.plans.append(plan)
    per_channel_group = out_size_group if is_depthwise else in_size_group
    n_in_groups = out_groups if is_depthwise else in_groups
    source = _grouped_input(build, x, n_groups, n_in_groups, per_channel_group)
    grouped = weights.reshape(
        n_groups, out_groups, out_size_group, in_groups, in_size_group, *window.kernel
    ).transpose(0, 1, 3, 5, 6, 4, 2)
    tiles = _Tiles(plan, shape, build)
    kernel = _weights_constant(build, np.ascontiguousarray(grouped), tiles, x)
    out = _convolve(build, source, kernel, shape, window, tiles, (height, width), n_images)
    # [group, image, out group, row, column, out] seen as images, channels, rows, columns
    out = out.dim_shuffle(1, 0, 2, 5, 3, 4)
    return out.reshape(n_images, n_out, shape.height, shape.width)


def matmul(
    builder: Builder,
    a: Tensor,
    b: Tensor | NDArray[Any],
    name: str = "matmul",
    *,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Multiply matrices or batches of matrices.

    Parameters
    ----------
    a
        Shape (batch, rows, inner).
    b
        Shape (batch, inner, columns): a tensor, or an ndarray of constants.
    available_memory_proportion
        Largest share of a tile for temporary memory; the builder's if not given.

    Returns
    -------
    Tensor
        Shape (batch, rows, columns).

    Raises
    ------
    BadGraph
        When the shapes do not agree.
    """
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise BadGraph(f"{name}: shapes {a.shape} and {tuple(b.shape)} cannot be multiplied")
    batch, rows, inner = a.shape
    columns = b.shape[2]
    units, inputs = _amp_shape(builder, a)
    in_size, out_size = group_size(inner, inputs), group_size(columns, units)
    build = builder.inside(name, "poplin.matMul", {"a": list(a.shape), "b": list(b.shape)})
    shape = ConvolutionShape(
        batch=batch,
        height=1,
        width=rows,
        input_groups=inner // in_size,
        inputs_per_group=in_size,
        output_groups=columns // out_size,
        outputs_per_group=out_size,
        item_bytes=a.dtype.n_bytes,
        is_matmul=True,
    )
    share = builder.available_memory.with_own(available_memory_proportion).matmul
    plan = plan_convolution(build.debug.name, shape, builder.graph.compute_machine, share)
    builder.plans.append(plan)
    tiles = _Tiles(plan, shape, build)
    images = a.reshape(batch, rows, inner).dim_shuffle(0, 2, 1).reshape(1, batch * inner, 1, rows)
    source = _grouped_input(build, images, batch, inner // in_size, in_size)
    if isinstance(b, Tensor):
        kernel = _weights_tensor(build, b, shape, tiles)
    else:
        grouped = b.reshape(batch, shape.input_groups, in_size, shape.output_groups, out_size)
        grouped = grouped.transpose(0, 3, 1, 2, 4)[:, :, :, None, None]
        kernel = _weights_constant(build, np.ascontiguousarray(grouped), tiles, a)
    out = _convolve(build, source, kernel, shape, Window((1, 1)), tiles, (1, rows), 1)
    out = out.reshape(batch, shape.output_groups, rows, out_size).dim_shuffle(0, 2, 1, 3)
    return out.reshape(batch, rows, columns)


def _amp_shape(builder: Builder, x: Tensor) -> tuple[int, int]:
    machine = builder.graph.machine
    refuse_float8("a product", x)
    if x.dtype.n_bytes == 2:
        return machine.half_conv_units, machine.half_conv_inputs
    return machine.float_conv_units, machine.float_conv_inputs


def _grouped_input(
    builder: Builder, x: Tensor, n_groups: int, in_groups: int, in_size: int
) -> Tensor:
    """Return x as [group, image, channel group, row, column, channel], channels contiguous."""
    n_images, _, height, width = x.shape
    shape = (n_images, n_groups, in_groups, in_size, height, width)
    if x.can_reshape(*shape):
        view = x.reshape(*shape).dim_shuffle(1, 0, 2, 4, 5, 3)
        if all(len(dim) == 1 for dim in view.dims) and (in_size == 1 or view.dims[5][0][1] == 1):
            return view
    order = (n_images, n_groups, in_groups, height, width, in_size)
    made = builder.graph.add_variable(x.dtype, order, "preArranged", builder.debug)
    builder.graph.map_linearly(made, grain=in_size)
    target = made.dim_shuffle(0, 1, 2, 5, 3, 4).reshape(*x.shape)
    copy_to(builder, x, target, "preArrange")
    return made.dim_shuffle(1, 0, 2, 3, 4, 5)


class _Tiles:
    """Which tile computes which part; parts are numbered batch, rows, columns, outputs, inputs.

    Parts of the outputs take tiles next to each other: they read the same inputs, which both tiles
    of a pair receive at once.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ExchangeEstimator.hpp.
    """

    def __init__(self, plan: Plan, shape: ConvolutionShape, builder: Builder) -> None:
        self.parts = tuple(plan.split[key] for key in plan.split)
        self.plan = plan
        graph = builder.graph
        self.pool = graph.compute_tiles.astype(np.int64)
        # Pairs of tiles begin at even ones.
        self.first = (graph.next_tile + 1) // 2 * 2 % self.pool.size
        graph.next_tile = (self.first + plan.n_tiles) % self.pool.size
        self.edges = [
            np.arange(n + 1, dtype=np.int64) * size // n
            for n, size in zip(
                self.parts,
                (
                    shape.batch,
                    shape.height,
                    shape.width,
                    shape.output_groups,
                    1 if shape.is_depthwise else shape.input_groups,
                ),
                strict=True,
            )
        ]

    def tile(self, *part: Any) -> NDArray[np.int64]:
        """Return the tile of parts given per dimension (ints or ndarrays of int64)."""
        index: Any = 0
        for d in (0, 1, 2, 4, 3):
            index = index * self.parts[d] + part[d]
        found: NDArray[np.int64] = self.pool[np.asarray((self.first + index) % self.pool.size)]
        return found

    def all_tiles(self) -> NDArray[np.int64]:
        """Return the tiles in order of their parts."""
        return self.pool[(self.first + np.arange(prod(self.parts))) % self.pool.size]


def _weights_constant(builder: Builder, values: NDArray[Any], tiles: _Tiles, x: Tensor) -> Tensor:
    """Add the weights, each block spread over the tiles that use it."""
    graph = builder.graph
    constant = graph.add_constant(values, "weights", dtype=x.dtype, debug=builder.debug)
    _map_weights(builder, constant, tiles)
    return constant


def _map_weights(builder: Builder, weights: Tensor, tiles: _Tiles) -> None:
    n_groups, out_groups, in_groups, *rest = weights.shape
    block = prod(rest)
    grain = max(1, 8 // weights.dtype.n_bytes)
    batch_parts, row_parts, column_parts, _, _ = tiles.parts
    starts, owners = [], []
    in_edges = tiles.edges[4] if tiles.edges[4][-1] == in_groups else np.array([0, in_groups])
    images_per_group = tiles.edges[0][-1] // n_groups
    for group in range(n_groups):
        # Parts of the batch that hold images of this group.
        low = np.searchsorted(tiles.edges[0], group * images_per_group, side="right") - 1
        high = np.searchsorted(tiles.edges[0], (group + 1) * images_per_group, side="left")
        sharers = [
            (b, r, c)
            for b in range(int(low), int(min(high, batch_parts)))
            for r in range(row_parts)
            for c in range(column_parts)
        ]
        for out_group in range(out_groups):
            out_part = int(np.searchsorted(tiles.edges[3], out_group, side="right")) - 1
            for in_part, (i0, i1) in enumerate(pairwise(in_edges)):
                base = ((group * out_groups + out_group) * in_groups + int(i0)) * block
                n_grains = -(-int(i1 - i0) * block // grain)
                n_pieces = min(len(sharers), n_grains)
                cuts = np.arange(n_pieces) * n_grains // n_pieces * grain
                starts.append(base + cuts)
                owners.append(
                    [
                        int(tiles.tile(*sharers[(k + out_group) % len(sharers)], out_part, in_part))
                        for k in range(n_pieces)
                    ]
                )
    builder.graph.set_tile_mapping(weights, np.concatenate(starts), np.concatenate(owners))


def _weights_tensor(builder: Builder, b: Tensor, shape: ConvolutionShape, tiles: _Tiles) -> Tensor:
    """Return a product's right operand as [batch, out group, in group, 1, 1, in, out]."""
    made = builder.graph.add_variable(
        b.dtype,
        (
            shape.batch,
            shape.output_groups,
            shape.input_groups,
            1,
            1,
            shape.inputs_per_group,
            shape.outputs_per_group,
        ),
        "preArrangedWeights",
        builder.debug,
    )
    _map_weights(builder, made, tiles)
    target = made.reshape(
        shape.batch,
        shape.output_groups,
        shape.input_groups,
        shape.inputs_per_group,
        shape.outputs_per_group,
    ).dim_shuffle(0, 2, 3, 1, 4)
    copy_to(builder, b, target.reshape(*b.shape), "preArrangeWeights")
    return made


def _vertex_grid(
    tiles: _Tiles, shape: ConvolutionShape
) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]]:
    """Return the tile of every vertex and its place: one vertex per batch item and out group."""
    grids = np.meshgrid(
        np.arange(shape.batch),
        np.arange(tiles.parts[1]),
        np.arange(tiles.parts[2]),
        np.arange(shape.output_groups),
        np.arange(tiles.parts[4]),
        indexing="ij",
    )
    item, row, column, out_group, in_part = (grid.reshape(-1) for grid in grids)
    batch_part = np.searchsorted(tiles.edges[0], item, side="right") - 1
    out_part = np.searchsorted(tiles.edges[3], out_group, side="right") - 1
    tile = tiles.tile(batch_part, row, column, out_part, in_part)
    place = {
        "item": item,
        "row": tiles.edges[1][row],
        "n_rows": tiles.edges[1][row + 1] - tiles.edges[1][row],
        "column": tiles.edges[2][column],
        "n_columns": tiles.edges[2][column + 1] - tiles.edges[2][column],
        "out_group": out_group,
        "in_part": in_part,
        "in_group": tiles.edges[4][in_part],
        "n_in_groups": tiles.edges[4][in_part + 1] - tiles.edges[4][in_part],
    }
    return tile, place


def _convolve(
    builder: Builder,
    x: Tensor,
    weights: Tensor,
    shape: ConvolutionShape,
    window: Window,
    tiles: _Tiles,
    field_size: tuple[int, int],
    n_images: int,
) -> Tensor:
    """Add the vertices of the partial sums, and of their reduction; return the output."""
    graph = builder.graph
    tile, place = _vertex_grid(tiles, shape)
    n = tile.size
    n_partials = tiles.parts[4]
    out_shape = (
        shape.batch // n_images,
        n_images,
        shape.output_groups,
        shape.height,
        shape.width,
        shape.outputs_per_group,
    )
    name = "partials" if n_partials > 1 else "out"
    out_elements = prod(out_shape)
    partials = graph.add_variable(
        x.dtype, (n_partials, *out_shape) if n_partials > 1 else out_shape, name, builder.debug
    )
    out_size = shape.outputs_per_group
    row_stride = shape.width * out_size
    plane = (place["item"] * shape.output_groups + place["out_group"]) * shape.height * row_stride
    out_start = (
        place["in_part"] * out_elements
        + plane
        + place["row"] * row_stride
        + place["column"] * out_size
    )
    _map_output(builder, partials, tile, place, out_start, row_stride)
    y0, n_y, shift_y = clipped(place["row"], place["n_rows"], 0, field_size[0], window)
    x0, n_x, shift_x = clipped(place["column"], place["n_columns"], 1, field_size[1], window)
    strides = [dim[0][1] if len(dim) == 1 else 0 for dim in x.dims]
    group, image = place["item"] // n_images, place["item"] % n_images
    in_group = place["out_group"] if shape.is_depthwise else place["in_group"]
    x_start = (
        x.offset
        + group * strides[0]
        + image * strides[1]
        + in_group * strides[2]
        + y0 * strides[3]
        + x0 * strides[4]
    )
    kernel_shape = weights.shape
    block = prod(kernel_shape[3:])
    w_start = (
        weights.offset
        + ((group * kernel_shape[1] + place["out_group"]) * kernel_shape[2] + place["in_group"])
        * block
    )
    scalars = {
        "stride_y": window.stride[0],
        "stride_x": window.stride[1],
        "dilation_y": window.dilation[0],
        "dilation_x": window.dilation[1],
        "shift_y": shift_y,
        "shift_x": shift_x,
    }
    kh, kw = window.kernel
    n_in = shape.inputs_per_group
    out_sizes: Sequence[Any] = [place["n_rows"], place["n_columns"], out_size]
    fields = {
        "out": blocks(partials.variable, out_start, out_sizes, [row_stride, out_size, 1], n),
    }
    if shape.is_depthwise:
        codelet = DEPTHWISE
        fields["x"] = blocks(
            x.variable, x_start, [n_y, n_x, out_size], [strides[3], strides[4], strides[5]], n
        )
        fields["w"] = blocks(
            weights.variable, w_start, [kh, kw, out_size], [kw * out_size, out_size, 1], n
        )
    else:
        codelet = CONV_PARTIAL_1X1 if kh * kw == 1 else CONV_PARTIAL_NX1
        fields["x"] = blocks(
            x.variable,
            x_start,
            [place["n_in_groups"], n_y, n_x, n_in],
            [strides[2], strides[3], strides[4], strides[5]],
            n,
        )
        fields["w"] = blocks(
            weights.variable,
            w_start,
            [place["n_in_groups"], kh, kw, n_in, out_size],
            [block, kw * n_in * out_size, n_in * out_size, out_size, 1],
            n,
        )
    builder.vertices(builder.compute_set("convolve"), codelet, tile, fields, scalars)
    if n_partials == 1:
        return partials
    return _reduce_partials(builder, partials, out_shape, tiles)


def _map_output(
    builder: Builder,
    out: Tensor,
    tile: NDArray[np.int64],
    place: dict[str, NDArray[np.int64]],
    out_start: NDArray[np.int64],
    row_stride: int,
) -> None:
    """Map every output to the tile that computes it."""
    n_rows = place["n_rows"]
    starts = np.repeat(out_start, n_rows)
    row_in_vertex = np.arange(starts.size) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
    starts = starts + row_in_vertex * row_stride
    owners = np.repeat(tile, n_rows)
    order = np.argsort(starts, kind="stable")
    builder.graph.set_tile_mapping(out, starts[order], owners[order])


def _reduce_partials(
    builder: Builder, partials: Tensor, out_shape: tuple[int, ...], tiles: _Tiles
) -> Tensor:
    """Sum the partial results; the work is spread over all tiles of the operation."""
    graph = builder.graph
    out = graph.add_variable(partials.dtype, out_shape, "out", builder.debug)
    n_elements = out.n_elements
    # Whole groups of channels stay together unless that leaves more than half the tiles idle.
    grain = out_shape[-1]
    if n_elements // grain * 2 < tiles.plan.n_tiles:
        grain = max(1, 8 // partials.dtype.n_bytes)
    graph.map_linearly(out, grain=grain, tiles=tiles.all_tiles().tolist())
    pieces = cut_rows(out.variable, n_elements, 1)
    n = pieces.n_pieces
    fields = {
        "partials": blocks(
            partials.variable,
            pieces.start,
            [partials.shape[0], pieces.n_columns],
            [n_elements, 1],
            n,
        ),
        "out": blocks(out.variable, pieces.start, [pieces.n_columns], [1], n),
    }
    builder.vertices(builder.compute_set("reduce"), REDUCE_PARTIALS, pieces.tile, fields)
    return out
