"""Slices of a tensor, and updates of them, at an offset that another tensor holds.

As in graphcore/poplibs sdk-release-3.4, lib/popops/DynamicSlice.cpp: one dimension after the other;
every tile takes the slice of its columns. Where the columns are few, the sliced dimension is split
instead: the slice is a multi-slice at ascending positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.slicing.multi_slice import DYNAMIC_SLICE, dynamic_slice_cycles
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import INT32, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.mapping.elements import check_each_once, share_elements
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.popops.elementwise.iota import iota
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    in_one,
    select,
    vector_elements,
)
from tilescope.engine.library.popops.elementwise.partition import (
    as_rows,
    edges_of,
    map_parts,
)
from tilescope.engine.library.popops.slicing.column_blocks import Matrices, grid_of
from tilescope.engine.library.popops.slicing.embedding import PlannedTable, of_table
from tilescope.engine.library.popops.slicing.multi_slice import check_indices, grouped_slice
from tilescope.engine.library.popops.slicing.multi_update import multi_update
from tilescope.engine.library.popops.slicing.sliceable import is_sliceable, update_columns
from tilescope.engine.machine.exchange_law import bus_time
from tilescope.engine.planner.multi_slice import SliceShape, plan_slice

__all__ = ["dynamic_slice", "dynamic_update"]


def _check(subject: str, x: View, offset: View, dims: Sequence[int], sizes: Sequence[int]) -> None:
    """Raise BadGraph unless offsets, dimensions and sizes go together."""
    refuse_float8("a dynamic slice", x)
    check_indices(subject, offset)
    if len(set(dims)) != len(dims) or not dims:
        raise BadGraph(f"{subject}: dims is {list(dims)}: expected different dimensions")
    if len(sizes) != len(dims) or offset.n_elements != len(dims):
        raise BadGraph(
            f"{subject}: {offset.n_elements} offsets in {offset.name!r} and {len(sizes)} sizes for"
            f" {len(dims)} dimensions: expected one of each per dimension"
        )
    for dim, size in zip(dims, sizes, strict=True):
        check_dim(subject, x, dim)
        if not 1 <= size <= x.shape[dim]:
            raise BadGraph(
                f"{subject}: a slice of {size} elements of dimension {dim} of {x.name!r}: expected"
                f" 1 to {x.shape[dim]}"
            )


@checked
def dynamic_slice(
    builder: Builder, x: View, offset: View, dims: Sequence[int], sizes: Sequence[int]
) -> Tensor:
    """Return a slice at an offset that is known when the program runs.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Any layout.
    offset
        First element of the slice in every sliced dimension, int32. One out of range counts as 0;
        a slice beyond the end continues at the beginning.
    dims, sizes
        Sliced dimensions, and the elements of the slice.

    Raises
    ------
    BadGraph
        If dimensions or sizes are out of range, or types are not supported.
    """
    _check("dynamic_slice", x, offset, dims, sizes)
    detail = {"shape": list(x.shape), "dims": list(dims), "sizes": list(sizes)}
    build = builder.inside("dynamicSlice", "popops.dynamicSlice", detail, flops=0)
    offsets = in_one(build, offset, "offset").flatten()
    out = x
    for i, (dim, size) in enumerate(zip(dims, sizes, strict=True)):
        out = _slice(build, out, offsets.slice(0, i, i + 1), dim, size)
    return in_one(build, out)


def _slice(builder: Builder, x: View, offset: Tensor, dim: int, size: int) -> Tensor:
    """Slice one dimension in the cheaper way."""
    shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
    table = PlannedTable.of(builder, x, dim)
    if table is not None and table.plan.rows == table.plan.lookups == 1:
        of_columns = np.array([0, 1]), table.plan.column_edges
        out = _by_columns(builder, table.base, x.shape[dim], offset, size, of_columns)
        others = (*x.shape[:dim], *x.shape[dim + 1 :])
        turned = of_table(out.reshape(size, -1), (size,), others, dim)
        assert isinstance(turned, Tensor)
        return turned
    base = as_rows(builder, x, dim, "rearrange")
    n_groups, n_rows, n_columns = base.shape
    machine = builder.tiles.machine
    item = base.dtype.n_bytes
    grain = vector_elements(machine, base.dtype)
    n_column_parts = min(machine.n_tiles, -(-n_columns // grain))
    n_group_parts = min(n_groups, machine.n_tiles // n_column_parts)
    widest = -(-n_columns // n_column_parts) * -(-n_groups // n_group_parts)
    if not is_sliceable(builder, base, 1):
        received = bus_time(n_rows * widest * item, machine)
        cycles = dynamic_slice_cycles(np.array(size), np.array(widest), item, machine) + received
        split = plan_slice(SliceShape(n_groups, size, n_rows, n_columns, item), machine)
        if split.cycles < cycles:
            indices = _positions(builder, offset, size, n_rows)
            return grouped_slice(builder, base, indices).reshape(*shape)
    edges = edges_of(n_groups, n_group_parts), edges_of(n_columns, n_column_parts, grain)
    out = _by_columns(builder, Matrices.of(base), n_rows, offset, size, edges)
    return out.reshape(*shape)


def _by_columns(
    builder: Builder,
    base: Matrices,
    n_rows: int,
    offset: Tensor,
    size: int,
    edges: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> Tensor:
    """Slice groups and columns on their tiles; every tile has all rows of its columns.

    Parameters
    ----------
    n_rows
        Of the base.
    edges
        Starts of the parts of groups, and of columns, and their ends.
    """
    n_parts = tuple(edge.size - 1 for edge in edges)
    n_groups, n_columns = (int(edge[-1]) for edge in edges)
    tile = builder.tiles.ids[: n_parts[0] * n_parts[1]].reshape(n_parts[0], 1, n_parts[1])
    shape = (n_groups, size, n_columns)
    out = builder.graph.add_variable(base.variable.dtype, shape, "out", builder.debug)
    map_parts(builder, out, (edges[0], np.array([0, size]), edges[1]), tile)
    (group, column), (n_group, n_column) = grid_of(edges)
    n = group.size
    start, strides = base.start(group, np.zeros_like(group), column), base.strides_at(column)
    fields = {
        "base": blocks(base.variable, start, [n_group, n_rows, n_column], strides, n),
        "offset": blocks(offset.variable, offset.offset, [1], [1], n),
        "sub": blocks(
            out.variable,
            group * size * n_columns + column,
            [n_group, size, n_column],
            [size * n_columns, n_columns, 1],
            n,
        ),
    }
    builder.vertices(builder.compute_set("slice"), DYNAMIC_SLICE, tile.reshape(-1), fields)
    return out


def _positions(builder: Builder, offset: Tensor, size: int, n_rows: int) -> Tensor:
    """Return the positions of a slice, (1, size): ascending, and from 0 again at the end."""

    def constant(value: int, name: str) -> Tensor:
        graph = builder.graph
        tensor = graph.add_constant(np.array([value], np.int32), name, debug=builder.debug)
        graph.set_tile_mapping(tensor, [0], builder.tiles.ids[:1])
        return tensor

    rows, zero = constant(n_rows, "rows"), constant(0, "zero")
    first = select(
        builder,
        offset,
        zero,
        binary(
            builder,
            "logical_and",
            binary(builder, "greater_equal", offset, zero),
            binary(builder, "less", offset, rows),
        ),
    )
    if size == 1:
        return first.reshape(1, 1)
    steps = builder.graph.add_variable(INT32, (size,), "steps", builder.debug)
    builder.spread(steps, grain=vector_elements(builder.tiles.machine, INT32))
    iota(builder, steps)
    ascending = binary(builder, "add", steps, first)
    is_beyond = binary(builder, "greater_equal", ascending, rows)
    again = binary(builder, "subtract", ascending, rows)
    return select(builder, again, ascending, is_beyond).reshape(1, size)


@checked
def dynamic_update(
    builder: Builder, x: View, update: View, offset: View, dims: Sequence[int]
) -> None:
    """Replace the slice of a tensor at an offset that is known when the program runs, in place.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Target; a view without aliased elements.
    update
        The slice: the shape of `x`, except in the sliced dimensions.
    offset, dims
        As for `dynamic_slice`.

    Raises
    ------
    BadGraph
        If shapes or types are incompatible, or a dimension does not exist.
    """
    for dim in dims:
        check_dim("dynamic_update", x, dim)
    if len(update.shape) != len(x.shape) or update.dtype != x.dtype:
        raise BadGraph(
            f"dynamic_update: {update.name!r} is {update.dtype} of shape {update.shape}: expected"
            f" {x.dtype} with the {len(x.shape)} dimensions of {x.name!r}"
        )
    _check("dynamic_update", x, offset, dims, [update.shape[dim] for dim in dims])
    detail = {"shape": list(x.shape), "dims": list(dims), "update": list(update.shape)}
    build = builder.inside("dynamicUpdate", "popops.dynamicUpdate", detail, flops=0)
    offsets = in_one(build, offset, "offset").flatten()
    if len(dims) == 1 and not share_elements(x, update):
        check_each_once("dynamic_update: its target", x)
        if update_columns(build, x, update, offsets, dims[0]):
            return
    _update(build, x, update, offsets, dims)


def _update(builder: Builder, x: View, update: View, offsets: Tensor, dims: Sequence[int]) -> None:
    """Update the slices of the first dimension, whose other dimensions are updated before."""
    first, rest = offsets.slice(0, 0, 1), dims[1:]
    size = update.shape[dims[0]]
    new = update
    if rest:
        new = dynamic_slice(builder, x, first, dims[:1], [size])
        _update(builder, new, update, offsets.slice(0, 1, len(dims)), rest)
    positions = _positions(builder, first, size, x.shape[dims[0]])
    multi_update(builder, x, positions.reshape(size), new, dims[0])
