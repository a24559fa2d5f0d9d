"""The vertices of a planned convolution, and the reduction of their partial sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.poplin.cast_partials import CAST_PARTIALS
from tilescope.engine.codelets.poplin.reduce_partials import REDUCE_PARTIALS, reduce_partials_cycles
from tilescope.engine.graph import ComputeSet, DType, Regions, Stage, Tensor, dtype_of
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.intervals.runs import union_runs
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.placement import Placement
from tilescope.engine.library.repeated import repeated
from tilescope.engine.planner.convolution.reduction import left_after_stages
from tilescope.engine.planner.families import FAMILIES
from tilescope.engine.planner.phase import stage_name
from tilescope.engine.planner.plan import Plan
from tilescope.engine.tiling import ConvolutionShape, Dimension, Grouping, PerDimension
from tilescope.engine.tiling.channel_layout import output_layout
from tilescope.engine.tiling.division import TileShares, share_out
from tilescope.engine.tiling.input_range import clipped_range, kernel_window, part_edges
from tilescope.engine.tiling.vertex_field import field_sizes

__all__ = ["convolve", "input_shares"]

Counts = NDArray[np.int64]


def _strides(tensor: Tensor) -> list[int]:
    """Return the stride of every dimension of a tensor whose dimensions are single atoms."""
    return [dim[0][1] for dim in tensor.dims]


def _regions(
    tensor: Tensor,
    first: Sequence[Counts | int],
    sizes: Sequence[Counts | int],
    further: Counts | int = 0,
) -> Regions:
    """Return blocks of a tensor, given by their first index and size along each dimension.

    The blocks are offset by `further` elements.
    """
    strides = _strides(tensor)
    start = tensor.offset + sum(
        coordinate * stride for coordinate, stride in zip(first, strides, strict=True)
    )
    start = np.asarray(start + further, dtype=np.int64)
    return blocks(tensor.variable, start, [*sizes], strides, start.size)


def convolve(
    builder: Builder,
    x: Tensor,
    weights: Tensor,
    shape: ConvolutionShape,
    grouping: Grouping,
    placement: Placement,
) -> Tensor:
    """Add the vertices of the partial sums, and of their reduction.

    Parameters
    ----------
    builder
        Target of the vertices.
    x
        Shape [block, image, in group, row, column, channel].
    weights
        Shape [block, out group, in group, ky, kx, in, out].
    shape, grouping, placement
        The convolution and its plan.

    Returns
    -------
    Tensor
        Shape (images, channels, rows, columns).
    """

    def add() -> Tensor:
        return _convolve(builder, x, weights, shape, grouping, placement)

    plan = placement.plan
    key = "convolve", shape, grouping, plan.family, *plan.split.items(), left_after_stages(plan)
    return repeated(builder, key, [x, weights], add)


def _convolve(
    builder: Builder,
    x: Tensor,
    weights: Tensor,
    shape: ConvolutionShape,
    grouping: Grouping,
    placement: Placement,
) -> Tensor:
    """Add the vertices of an operation that is not like one before: see `convolve`."""
    graph = builder.graph
    layout = output_layout(shape, grouping)
    out_shape = layout.variable_shape(shape.images, shape.height, shape.width)
    part, first, count = placement.ranges()
    tile = placement.tile(part)
    n_partials = placement.plan.n_partials
    dtype, result = dtype_of(shape.partial_dtype), dtype_of(shape.result_dtype)
    if n_partials == 1:
        name = "out" if dtype == result else "partials"
        partials = graph.add_variable(dtype, out_shape, name, builder.debug)
        read_layout = layout.as_read(partials)
    else:
        partials = graph.add_variable(dtype, (n_partials, *out_shape), "partials", builder.debug)
        single = partials.slice(0, 0, 1).reshape(*out_shape)
        read_layout = layout.as_read(single)
    (y0, n_y, shift_y), (x0, n_x, shift_x) = _read_ranges(shape, first, count)
    sizes = field_sizes(count, n_y, n_x, grouping)
    at_input: list[Counts | int] = [first.groups, first.batch, first.inputs, y0, x0, 0]
    at_weights: list[Counts | int] = [
        first.groups, first.outputs, first.inputs, first.kernel_rows, first.kernel_columns, 0, 0
    ]  # fmt: skip
    at_output: list[Counts | int] = [
        first.groups,
        first.batch,
        first.outputs,
        first.rows,
        first.columns,
        0,
    ]
    further = placement.partial(part) * prod(out_shape)
    fields = {
        "x": _regions(x, at_input, sizes["x"]),
        "w": _regions(weights, at_weights, sizes["w"]),
        "out": _regions(read_layout, at_output, sizes["out"], further),
    }
    _map_output(builder, partials, tile, fields["out"])
    if not x.variable.is_mapped:
        shares = _shares_of_input(placement, tile, fields["x"])
        graph.set_tile_mapping(x, shares.map_start, shares.map_tile)
    scalars = {
        "stride_y": shape.stride[0],
        "stride_x": shape.stride[1],
        "dilation_y": shape.dilation[0],
        "dilation_x": shape.dilation[1],
        "shift_y": shift_y,
        "shift_x": shift_x,
        "combined": grouping.combined,
        "products": _products(shape, grouping, first, count),
    }
    family = next(known for known in FAMILIES if known.name == placement.plan.family)
    codelet = family.codelet(shape, grouping, builder.tiles.machine)
    compute_set = builder.compute_set("convolve", Stage.COMPUTE)
    builder.vertices(compute_set, codelet, tile, fields, scalars)
    if n_partials > 1:
        partials = _reduce_partials(builder, partials, tile, fields["out"], placement.plan, result)
    elif dtype != result:
        partials = _cast_partials(builder, partials, tile, fields["out"], result)
    return layout.as_images(partials)


def _products(
    shape: ConvolutionShape,
    grouping: Grouping,
    first: PerDimension[Counts],
    count: PerDimension[Counts],
) -> Counts:
    """Return the multiplications of every part: ndarray of int64.

    Padding of channels and groups is not counted.
    """

    def real(d: Dimension, size: int, have: int) -> Counts:
        end = np.minimum((first[d] + count[d]) * size, have)
        return np.asarray(end - np.minimum(first[d] * size, have))

    groups = real(Dimension.GROUPS, grouping.inside, shape.groups)
    outputs = real(Dimension.OUTPUTS, grouping.own_outputs, shape.out_channels)
    inputs = real(Dimension.INPUTS, grouping.own_inputs, shape.in_channels)
    field = count.batch * count.rows * count.columns
    return np.asarray(groups * field * outputs * inputs * count.kernel_rows * count.kernel_columns)


def _read_ranges(
    shape: ConvolutionShape, first: PerDimension[Counts], count: PerDimension[Counts]
) -> tuple[tuple[Counts, Counts, Counts], tuple[Counts, Counts, Counts]]:
    """Return the rows and the columns of the input that parts read: first, number and shift."""
    rows = kernel_window(shape.window(0), first.kernel_rows, count.kernel_rows)
    columns = kernel_window(shape.window(1), first.kernel_columns, count.kernel_columns)
    return (
        clipped_range(first.rows, count.rows, shape.in_height, rows),
        clipped_range(first.columns, count.columns, shape.in_width, columns),
    )


def input_shares(
    x: Tensor, shape: ConvolutionShape, grouping: Grouping, placement: Placement
) -> TileShares:
    """Return the division of an input among the tiles that read it; parameters as `convolve`."""
    part, first, count = placement.ranges()
    (y0, n_y, _), (x0, n_x, _) = _read_ranges(shape, first, count)
    at_input: list[Counts | int] = [first.groups, first.batch, first.inputs, y0, x0, 0]
    regions = _regions(x, at_input, field_sizes(count, n_y, n_x, grouping)["x"])
    return _shares_of_input(placement, placement.tile(part), regions)


def _map_output(builder: Builder, out: Tensor, tile: NDArray[np.int64], regions: Regions) -> None:
    """Map every output to the tile that computes it."""
    where = f"Vertices that write {out.variable.name!r}"
    owner, start, _ = union_runs(
        regions.start, regions.size, regions.stride, tile.astype(np.int32), 0, where
    )
    order = np.argsort(start, kind="stable")
    builder.graph.set_tile_mapping(out, start[order], owner[order])


def _shares_of_input(placement: Placement, tile: NDArray[np.int64], regions: Regions) -> TileShares:
    """Return the division of an input whose blocks have several readers and no common elements."""
    n_sharers = placement.counts.outputs
    by_part = np.moveaxis(np.arange(tile.size).reshape(placement.counts), Dimension.OUTPUTS, -1)
    vertex = by_part.reshape(-1, n_sharers)
    first = replace(
        regions,
        start=regions.start[vertex[:, 0]],
        size=regions.size[vertex[:, 0]],
        stride=regions.stride[vertex[:, 0]],
    )
    (shares,) = share_out(first, tile[vertex], [False])
    return shares


def _cast_partials(
    builder: Builder, partials: Tensor, tile: NDArray[np.int64], regions: Regions, result: DType
) -> Tensor:
    """Return the sums cast to the result type, on the same tiles."""
    graph = builder.graph
    held = partials.variable
    out = graph.add_variable(result, partials.shape, "out", builder.debug)
    graph.set_tile_mapping(out, held.map_start, held.map_tile)
    fields = {"x": regions, "out": regions.on(out.variable)}
    builder.vertices(builder.compute_set("cast", Stage.CAST), CAST_PARTIALS, tile, fields)
    return out


def _reduce_partials(
    builder: Builder,
    partials: Tensor,
    tile: NDArray[np.int64],
    regions: Regions,
    plan: Plan,
    result: DType,
) -> Tensor:
    """Sum the partial results in the stages of the plan.

    Every stage but the last divides the partial sums into sections, and the tiles that hold partial
    sums of the same outputs into as many; the tiles of a section sum that section.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvReduce.cpp, multiStageGroupedReduce.
    """
    n_partials = partials.shape[0]
    # The summed dimensions come last: the partial sums of one block of outputs are adjacent.
    sharers = tile.reshape(-1, n_partials)
    first = replace(
        regions,
        start=regions.start[::n_partials],
        size=regions.size[::n_partials],
        stride=regions.stride[::n_partials],
    )
    *earlier, _ = left_after_stages(plan)
    for i, left in enumerate(earlier):
        shape = (left, *partials.shape[1:])
        name = stage_name(Stage.REDUCE_STAGE, i)
        out = builder.graph.add_variable(partials.dtype, shape, name, builder.debug)
        compute_set = builder.compute_set(name, Stage.REDUCE_STAGE, i)
        _add_stage(builder, compute_set, partials, out, sharers, first)
        partials = out
    out = builder.graph.add_variable(result, partials.shape[1:], "out", builder.debug)
    compute_set = builder.compute_set("reduce", Stage.REDUCE)
    _add_stage(builder, compute_set, partials, out.reshape(1, *out.shape), sharers, first)
    return out


def _add_stage(
    builder: Builder,
    compute_set: ComputeSet,
    partials: Tensor,
    out: Tensor,
    sharers: NDArray[np.int64],
    first: Regions,
) -> None:
    """Sum sections of the partials on sections of the tiles that share a block.

    `first` are the blocks of one partial.
    """
    n_left, n_elements = out.shape[0], prod(out.shape[1:])
    edges = part_edges(partials.shape[0], n_left)
    tile_edges = part_edges(sharers.shape[1], n_left)
    depth = np.diff(edges)
    shares = [
        _shared(builder, first, sharers[:, begin:end], int(n), partials.dtype, out.dtype)
        for begin, end, n in zip(tile_edges[:-1], tile_edges[1:], depth, strict=True)
    ]
    map_start = [share.map_start + i * n_elements for i, share in enumerate(shares)]
    map_tile = [share.map_tile for share in shares]
    builder.graph.set_tile_mapping(out, np.concatenate(map_start), np.concatenate(map_tile))
    section = np.repeat(np.arange(n_left), [share.tile.size for share in shares])
    start = np.concatenate([share.start for share in shares])
    tile = np.concatenate([share.tile for share in shares])
    size = np.concatenate([share.size for share in shares])
    stride = np.concatenate([share.stride for share in shares])
    fields = {
        "partials": blocks(
            partials.variable,
            start + edges[section] * n_elements,
            [depth[section], *size.T],
            [n_elements, *stride.T],
            tile.size,
        ),
        "out": Regions(out.variable, start + section * n_elements, size, stride),
    }
    builder.vertices(compute_set, REDUCE_PARTIALS, tile, fields)


def _shared(
    builder: Builder,
    first: Regions,
    sharers: NDArray[np.int64],
    n_partials: int,
    dtype: DType,
    result: DType,
) -> TileShares:
    """Divide the outputs among tiles in the way that is faster on the slowest tile."""

    def cycles(shares: TileShares) -> int:
        of_vertices = reduce_partials_cycles(
            np.full(shares.tile.size, n_partials),
            np.prod(shares.size, axis=1),
            dtype.n_bytes,
            result.n_bytes,
            builder.tiles.machine,
        )
        return int(np.bincount(shares.tile, of_vertices).max())

    ways = share_out(first, sharers, [True, False])
    return ways[0] if len(ways) == 1 else min(ways, key=cycles)
