"""The vertices of a planned convolution, and the reduction of their partial sums."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.codelets.cast_partials import CAST_PARTIALS
from engine.codelets.reduce import REDUCE_PARTIALS, reduce_partials_cycles
from engine.compiler.kernels.intervals import union_runs
from engine.graph import DType, Regions, Tensor, blocks, dtype_of
from engine.library.builder import Builder
from engine.library.channels import ChannelLayout
from engine.library.parts import Parts
from engine.library.share import Pieces, share_out
from engine.planner import ConvolutionShape
from engine.planner.families import FAMILIES, Grouping
from engine.planner.split import PARTS, clipped_range

__all__ = ["convolve"]


def _strides(tensor: Tensor) -> list[int]:
    """Return the stride of every dimension of a tensor whose dimensions are single atoms."""
    return [dim[0][1] for dim in tensor.dims]


def _regions(
    tensor: Tensor,
    first: list[NDArray[np.int64] | int],
    sizes: list[NDArray[np.int64] | int],
    further: NDArray[np.int64] | int = 0,
) -> Regions:
    """Return blocks of a tensor, given by their first index and size along each dimension.

    They lie `further` elements behind that.
    """
    strides = _strides(tensor)
    start = tensor.offset + sum(at * stride for at, stride in zip(first, strides, strict=True))
    start = np.asarray(start + further, dtype=np.int64)
    return blocks(tensor.variable, start, sizes, strides, start.size)


def convolve(
    builder: Builder,
    x: Tensor,
    weights: Tensor,
    shape: ConvolutionShape,
    grouping: Grouping,
    parts: Parts,
) -> Tensor:
    """Add the vertices of the partial sums, and of their reduction.

    Parameters
    ----------
    builder
        Where they go.
    x
        Seen as [block, image, in group, row, column, channel].
    weights
        Seen as [block, out group, in group, ky, kx, in, out].
    shape, grouping, parts
        What is convolved, by which plan.

    Returns
    -------
    Tensor
        Shape (images, channels, rows, columns).
    """
    graph = builder.graph
    layout = ChannelLayout(shape.groups, shape.out_channels, grouping.groups, grouping.outputs)
    out_shape = layout.variable_shape(shape.images, shape.height, shape.width)
    part, first, count = parts.ranges()
    tile = parts.tile(*part)
    group, image, row, column, out_group, in_group = first
    n_groups, n_images, n_rows, n_columns, n_out_groups, n_in_groups = count
    n_partials = parts.counts[PARTS.index("inputs")]
    dtype, result = dtype_of(shape.partial_dtype), dtype_of(shape.result_dtype)
    if n_partials == 1:
        name = "out" if dtype == result else "partials"
        partials = graph.add_variable(dtype, out_shape, name, builder.debug)
        seen = layout.as_read(partials)
    else:
        partials = graph.add_variable(dtype, (n_partials, *out_shape), "partials", builder.debug)
        one = partials.slice(0, 0, 1).reshape(*out_shape)
        seen = layout.as_read(one)
    y0, n_y, shift_y = clipped_range(row, n_rows, shape.in_height, shape.window(0))
    x0, n_x, shift_x = clipped_range(column, n_columns, shape.in_width, shape.window(1))
    inside = grouping.groups
    fields = {
        "x": _regions(
            x,
            [group, image, in_group, y0, x0, 0],
            [n_groups, n_images, n_in_groups, n_y, n_x, inside * grouping.inputs],
        ),
        "w": _regions(
            weights,
            [group, out_group, in_group, 0, 0, 0, 0],
            [n_groups, n_out_groups, n_in_groups, *weights.shape[3:]],
        ),
        "out": _regions(
            seen,
            [group, image, out_group, row, column, 0],
            [n_groups, n_images, n_out_groups, n_rows, n_columns, inside * grouping.outputs],
            part[PARTS.index("inputs")] * prod(out_shape),
        ),
    }
    _map_output(builder, partials, tile, fields["out"])
    if not x.variable.is_mapped:
        _map_input(builder, x, parts, tile, fields["x"])
    scalars = {
        "stride_y": shape.stride[0],
        "stride_x": shape.stride[1],
        "dilation_y": shape.dilation[0],
        "dilation_x": shape.dilation[1],
        "shift_y": shift_y,
        "shift_x": shift_x,
        "products": _products(shape, grouping, first, count),
    }
    family = next(each for each in FAMILIES if each.name == parts.plan.family)
    codelet = family.codelet(shape, grouping, graph.compute_machine)
    builder.vertices(builder.compute_set("convolve"), codelet, tile, fields, scalars)
    if n_partials > 1:
        partials = _reduce_partials(builder, partials, tile, fields["out"], result)
    elif dtype != result:
        partials = _cast_partials(builder, partials, tile, fields["out"], result)
    return layout.as_images(partials)


def _products(
    shape: ConvolutionShape, grouping: Grouping, first: NDArray[np.int64], count: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many multiplications of each part are asked for: ndarray of int64.

    Channels and groups that fill up a block are left out.
    """

    def real(d: int, size: int, have: int) -> NDArray[np.int64]:
        end = np.minimum((first[d] + count[d]) * size, have)
        return np.asarray(end - np.minimum(first[d] * size, have))

    groups = real(0, grouping.groups, shape.groups)
    outputs = real(4, grouping.outputs, shape.out_channels)
    inputs = real(5, grouping.inputs, shape.in_channels)
    _, images, rows, columns, _, _ = count
    return np.asarray(
        groups * images * rows * columns * outputs * inputs * shape.kernel[0] * shape.kernel[1]
    )


def _map_output(builder: Builder, out: Tensor, tile: NDArray[np.int64], regions: Regions) -> None:
    """Map every output to the tile that computes it."""
    where = f"Vertices that write {out.variable.name!r}"
    owner, start, _ = union_runs(
        regions.start, regions.size, regions.stride, tile.astype(np.int32), 0, where
    )
    order = np.argsort(start, kind="stable")
    builder.graph.set_tile_mapping(out, start[order], owner[order])


def _map_input(
    builder: Builder, x: Tensor, parts: Parts, tile: NDArray[np.int64], regions: Regions
) -> None:
    """Share out a constant input, each block among the tiles that read it."""
    of_outputs = PARTS.index("outputs")
    n_sharers = parts.counts[of_outputs]
    vertex = np.moveaxis(np.arange(tile.size).reshape(parts.counts), of_outputs, -1)
    vertex = vertex.reshape(-1, n_sharers)
    first = replace(
        regions,
        start=regions.start[vertex[:, 0]],
        size=regions.size[vertex[:, 0]],
        stride=regions.stride[vertex[:, 0]],
    )
    pieces = share_out(first, tile[vertex], whole_runs=False)
    builder.graph.set_tile_mapping(x, pieces.map_start, pieces.map_tile)


def _cast_partials(
    builder: Builder, partials: Tensor, tile: NDArray[np.int64], regions: Regions, result: DType
) -> Tensor:
    """Return the sums in the type of the result, on the same tiles."""
    graph = builder.graph
    held = partials.variable
    out = graph.add_variable(result, partials.shape, "out", builder.debug)
    graph.set_tile_mapping(out, held.map_start, held.map_tile)
    fields = {"x": regions, "out": replace(regions, variable=out.variable)}
    builder.vertices(builder.compute_set("cast"), CAST_PARTIALS, tile, fields)
    return out


def _reduce_partials(
    builder: Builder,
    partials: Tensor,
    tile: NDArray[np.int64],
    regions: Regions,
    result: DType,
) -> Tensor:
    """Sum the partial results: tiles that have partials of the same outputs share these out.

    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvReduce.cpp, partialGroupedReduce.
    """
    graph = builder.graph
    n_partials, *out_shape = partials.shape
    out = graph.add_variable(result, out_shape, "out", builder.debug)
    # Parts of the inputs are numbered fastest: those of one block of outputs stand in a row.
    sharers = tile.reshape(-1, n_partials)
    first = replace(
        regions,
        start=regions.start[::n_partials],
        size=regions.size[::n_partials],
        stride=regions.stride[::n_partials],
    )

    def cycles(pieces: Pieces) -> int:
        each = reduce_partials_cycles(
            np.full(pieces.tile.size, n_partials),
            np.prod(pieces.size, axis=1),
            partials.dtype.n_bytes,
            result.n_bytes,
            graph.compute_machine,
        )
        return int(np.bincount(pieces.tile, each).max())

    pieces = min((share_out(first, sharers, whole) for whole in (True, False)), key=cycles)
    graph.set_tile_mapping(out, pieces.map_start, pieces.map_tile)
    sizes, strides, n = pieces.size.T, pieces.stride.T, pieces.tile.size
    fields = {
        "partials": blocks(
            partials.variable,
            pieces.start,
            [n_partials, *sizes],
            [out.n_elements, *strides],
            n,
        ),
        "out": Regions(out.variable, pieces.start, pieces.size, pieces.stride),
    }
    builder.vertices(builder.compute_set("reduce"), REDUCE_PARTIALS, pieces.tile, fields)
    return out
