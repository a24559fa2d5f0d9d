"""Rows of a tensor at positions that another tensor holds: embedding look-ups, gathers.

As in graphcore/poplibs sdk-release-3.4, lib/popops/DynamicSlice.cpp, multiSlicePlanned: lookups,
rows and columns of the base are split over tiles, and the exchange does not depend on data. If rows
are split, every part looks all its offsets up, and a second stage chooses the part with the row.
A table that a plan has allocated (`embedding.py`) is split as the plan says.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import copy_cycles
from tilescope.engine.codelets.popops.slicing.multi_slice import (
    MULTI_SLICE,
    MULTI_SLICE_PARTS,
    multi_slice_cycles,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import INT32, Regions, Tensor, Variable, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.tensor.tensor import row_major
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    copy_to,
    in_one,
    row_major_copy,
    vector_elements,
)
from tilescope.engine.library.popops.elementwise.partition import (
    as_rows,
    edges_of,
    map_parts,
    strides_of,
)
from tilescope.engine.library.popops.slicing.column_blocks import ColumnBlocks, Matrices, grid_of
from tilescope.engine.library.popops.slicing.embedding import (
    PlannedTable,
    as_table,
    check_plan,
    of_table,
)
from tilescope.engine.library.popops.slicing.sliceable import columns_of
from tilescope.engine.machine.exchange_law import bus_cycles
from tilescope.engine.planner.embedding import EmbeddingPlan, equal_edges, second_stage
from tilescope.engine.planner.exchange import exchange_cycles, exchange_cycles_of_tiles
from tilescope.engine.planner.multi_slice import (
    SliceShape,
    SliceSplit,
    plan_slice,
    split_of_plan,
)

__all__ = [
    "check_groups",
    "check_indices",
    "flat_indices",
    "grouped_multi_slice",
    "grouped_slice",
    "multi_slice",
]

Counts = NDArray[np.int64]


def check_indices(subject: str, indices: View) -> None:
    """Raise BadGraph unless a tensor is int32.

    Raises
    ------
    BadGraph
        If it is not.
    """
    if indices.dtype != INT32:
        raise BadGraph(
            f"{subject}: {indices.name!r} is {indices.dtype}: expected indices of int32; cast it"
        )


def flat_indices(builder: Builder, indices: View, n_groups: int = 1) -> Tensor:
    """Return indices as (groups, lookups) with one stride each; copy them if they need to be."""
    contiguous = in_one(builder, indices, "indices")
    shape = (n_groups, indices.n_elements // n_groups)
    if contiguous.can_reshape(*shape):
        flat = contiguous.reshape(*shape)
        if all(len(atom_list) == 1 for atom_list in flat.dims):
            return flat
    return row_major_copy(builder, contiguous, "indices").reshape(*shape)


@checked
def multi_slice(
    builder: Builder,
    x: View,
    indices: View,
    dim: int = 0,
    plan: EmbeddingPlan | None = None,
) -> Tensor:
    """Return the slices of a tensor at several positions along a dimension, as ``numpy.take``.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Any layout.
    indices
        Positions, of any shape, int32. A position out of range gives zeros; the real library
        leaves such slices undefined.
    dim
        The sliced dimension.
    plan
        The split to follow, from `plan_embedding`. Without one, the split with the fewest
        predicted cycles for where `x` lies, also if a plan has allocated it.

    Returns
    -------
    Tensor
        The shape of `x` with that of `indices` in place of the dimension.

    Raises
    ------
    BadGraph
        If the dimension does not exist, the types are not supported, or the plan is one of another
        table.
    """
    refuse_float8("a multi-slice", x)
    check_dim("multi_slice", x, dim)
    check_indices("multi_slice", indices)
    if plan is not None:
        check_plan("multi_slice", builder, plan, x.shape, dim, x.dtype)
    table = PlannedTable.of(builder, x, dim)
    offsets = flat_indices(builder, indices)
    if plan is None and (table is None or _is_copied(builder, table.plan, x, offsets)):
        in_order = x if table is None else row_major_copy(builder, x, "rearrange")
        rows = as_rows(builder, in_order, dim, "rearrange")
        out = grouped_slice(builder, rows, offsets)
        return out.reshape(*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :])
    if table is not None and plan in (None, table.plan):
        base = table.base
    else:
        base = _as_one_group(builder, x, dim)
    followed = plan or (table.plan if table is not None else None)
    assert followed is not None
    others = (*x.shape[:dim], *x.shape[dim + 1 :])
    slices = _planned_slice(
        builder,
        base,
        followed,
        offsets,
        follows_plan=plan is not None,
        in_blocks=_is_view_in_blocks(followed, indices, others),
    )
    result = of_table(slices, indices.shape, others, dim)
    assert isinstance(result, Tensor)
    return result


def _is_copied(builder: Builder, plan: EmbeddingPlan, x: View, indices: Tensor) -> bool:
    """Return whether a planned table is best copied, so that its look-ups are split otherwise.

    Many look-ups in few rows take longer where the columns lie than a copy and look-ups on all
    tiles.
    """
    machine, sizes, dtype = builder.tiles.machine, plan.shape, x.dtype
    shape = SliceShape(1, indices.shape[1], sizes.n_rows, sizes.n_columns, dtype.n_bytes)
    n_elements = np.array([-(-x.n_elements // machine.n_tiles)])
    width = np.minimum(np.diff(plan.column_edges)[:1], n_elements)
    n_rows = -(-n_elements // width)
    received = n_elements * dtype.n_bytes
    copied = copy_cycles(n_rows, width, (dtype.kind, dtype.n_bytes), machine)
    copied += exchange_cycles(received, 0 * received, np.array(machine.n_tiles), machine, n_rows)
    return (
        int(copied[0]) + plan_slice(shape, machine).cycles
        < _cheapest_split(builder, shape, plan, x.variables[0]).cycles
    )


def _as_one_group(builder: Builder, x: View, dim: int) -> Matrices:
    """Return a tensor with its rows along a dimension; copy it unless it has one stride each."""
    matrix = as_table(x, dim)
    if matrix is None:
        others = [d for d in range(len(x.shape)) if d != dim]
        matrix = row_major_copy(builder, x.dim_shuffle(dim, *others), "rearrange")
        matrix = matrix.reshape(x.shape[dim], -1)
    return Matrices.of(as_rows(builder, matrix, 0, "rearrange"))


def _is_view_in_blocks(plan: EmbeddingPlan, indices: View, others: Sequence[int]) -> bool:
    """Return whether slices in blocks of columns are a tensor of the result's shape."""
    blocks_of_columns = ColumnBlocks(indices.n_elements, plan.column_edges)
    return blocks_of_columns.is_even and blocks_of_columns.divides(others)


@checked
def grouped_multi_slice(builder: Builder, x: View, indices: View, dim: int = 0) -> Tensor:
    """Return slices of every group of a tensor at the group's own positions.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Any layout; the first dimension is that of groups.
    indices
        Positions, int32, shape (groups, …); as for `multi_slice`.
    dim
        The sliced dimension of a group, counted without that of groups.

    Returns
    -------
    Tensor
        The shape of `x` with that of a group's indices in place of the dimension.

    Raises
    ------
    BadGraph
        If the dimension or the indices of a group do not exist, or the types are not supported.
    """
    refuse_float8("a multi-slice", x)
    check_groups("grouped_multi_slice", x, indices, dim)
    n_groups = x.shape[0]
    other_dims = [d for d in range(1, len(x.shape)) if d != dim + 1]
    turned = in_one(builder, x).dim_shuffle(0, dim + 1, *other_dims)
    rows = as_rows(builder, turned, 1, "rearrange")
    slices = grouped_slice(builder, rows, flat_indices(builder, indices, n_groups))
    shape, n_index = [x.shape[d] for d in other_dims], len(indices.shape) - 1
    grouped_slices = slices.reshape(n_groups, *indices.shape[1:], *shape)
    first = [1 + n_index + d for d in range(len(shape))]
    return grouped_slices.dim_shuffle(0, *first[:dim], *range(1, 1 + n_index), *first[dim:])


def check_groups(subject: str, x: View, indices: View, dim: int) -> None:
    """Raise BadGraph unless groups have a dimension, and positions of their own.

    Raises
    ------
    BadGraph
        If they have not.
    """
    if not 0 <= dim < len(x.shape) - 1:
        raise BadGraph(
            f"{subject}: the groups of {x.name!r} of shape {x.shape} have no dimension {dim}"
            + (f": use 0 to {len(x.shape) - 2}" if len(x.shape) > 1 else "")
        )
    check_indices(subject, indices)
    if not indices.shape or indices.shape[0] != x.shape[0]:
        raise BadGraph(
            f"{subject}: {indices.name!r} has shape {indices.shape}: expected positions for each of"
            f" the {x.shape[0]} groups of {x.name!r}"
        )


def grouped_slice(builder: Builder, base: Tensor, indices: Tensor) -> Tensor:
    """Return rows of every group.

    Parameters
    ----------
    base
        Shape (groups, rows, columns), one stride each.
    indices
        Shape (groups, lookups), or (1, lookups) for all groups, one stride each.

    Returns
    -------
    Tensor
        Shape (groups, lookups, columns), row-major.
    """
    n_groups, n_rows, n_columns = base.shape
    shape = SliceShape(n_groups, indices.shape[1], n_rows, n_columns, base.dtype.n_bytes)
    split, layout = plan_slice(shape, builder.tiles.machine), None
    in_place = _where_columns_lie(builder, base, shape)
    # A plan that moves the rows takes at least the time in which their tiles send them.
    if in_place is not None:
        moved_cycles = max(split.cycles, _sent_cycles(builder, base.variable))
        split, layout = in_place if in_place[0].cycles <= moved_cycles else (split, None)
    if layout is None:
        grain = vector_elements(builder.tiles.machine, base.dtype)
        n_parts = min(split.columns, -(-n_columns // grain))
        layout = _layout_of(builder, shape, split, edges_of(n_columns, n_parts, grain))
    build = _call(builder, shape, indices, split)
    out = _Slices(build, Matrices.of(base), shape, indices, layout).build()
    assert isinstance(out, Tensor)
    return out


def _planned_slice(
    builder: Builder,
    base: Matrices,
    plan: EmbeddingPlan,
    indices: Tensor,
    *,
    follows_plan: bool,
    in_blocks: bool,
) -> View:
    """Return rows of a table that has a plan, shape (lookups, columns).

    Parameters
    ----------
    base
        One group. Its columns are in the plan's blocks, or it lies in any other way.
    plan
        The plan.
    indices
        Shape (1, lookups), one stride.
    follows_plan
        Whether to take the plan's split even if another one is predicted to take less time.
    in_blocks
        Whether the result's columns are in the plan's blocks, or row-major.
    """
    machine, sizes = builder.tiles.machine, plan.shape
    item_bytes = base.variable.dtype.n_bytes
    shape = SliceShape(1, indices.shape[1], sizes.n_rows, sizes.n_columns, item_bytes)
    split = split_of_plan(shape, machine, plan)
    if not follows_plan:
        split = _cheapest_split(builder, shape, plan, base.variable)
    layout = _layout_of(builder, shape, split, plan.column_edges)
    build = _call(builder, shape, indices, split)
    stages = _Slices(
        build, base, shape, indices, layout, in_blocks=in_blocks, follows_plan=follows_plan
    )
    out = stages.build()
    return out if in_blocks else out.reshape(shape.n_lookups, shape.n_columns)


def _cheapest_split(
    builder: Builder, shape: SliceShape, plan: EmbeddingPlan, base: Variable
) -> SliceSplit:
    """Return the plan's split, or one into the same columns that takes less time."""
    machine = builder.tiles.machine
    split, moved = split_of_plan(shape, machine, plan), plan_slice(shape, machine, plan)
    # A plan that moves the rows takes at least the time in which their tiles send them.
    return moved if max(moved.cycles, _sent_cycles(builder, base)) < split.cycles else split


def _call(builder: Builder, shape: SliceShape, indices: Tensor, split: SliceSplit) -> Builder:
    """Return the builder of a multi-slice."""
    base = [shape.n_groups, shape.n_rows, shape.n_columns]
    detail = {"base": base, "indices": list(indices.shape), "split": split.detail()}
    return builder.inside("multiSlice", "popops.multiSlice", detail, flops=0)


def _where_columns_lie(
    builder: Builder, base: Tensor, shape: SliceShape
) -> tuple[SliceSplit, _Layout] | None:
    """Return the plan that slices every column on its tile; None if a tile lacks some rows.

    No row moves; every tile of the base looks all offsets up.
    """
    columns = columns_of(base)
    if columns is None or not builder.tiles.has(columns.tile):
        return None
    n_runs = columns.tile.size // shape.n_groups
    if n_runs * shape.n_groups != columns.tile.size:
        return None
    first = columns.first.reshape(shape.n_groups, n_runs)
    if (first != first[0]).any():
        return None
    machine = builder.tiles.machine
    n_lookups = np.full_like(columns.count, shape.n_lookups)
    every = np.ones(columns.count.size)
    cycles = multi_slice_cycles(n_lookups, columns.count, every, shape.item_bytes, machine)
    places = builder.tiles.places(columns.tile)
    by_tile = np.bincount(places, cycles, machine.n_tiles)
    n_groups = np.bincount(places, minlength=machine.n_tiles)
    offsets = n_groups * shape.n_lookups * INT32.n_bytes
    total = int(by_tile.max()) + exchange_cycles_of_tiles(offsets, n_groups, 0 * offsets, machine)
    edges = (
        np.arange(shape.n_groups + 1),
        np.array([0, shape.n_lookups]),
        np.array([0, shape.n_rows]),
        np.append(first[0], shape.n_columns),
    )
    layout = _Layout(edges, columns.tile.reshape(shape.n_groups, 1, 1, n_runs))
    return SliceSplit(shape.n_groups, 1, 1, n_runs, total), layout


def _sent_cycles(builder: Builder, variable: Variable) -> int:
    """Return how long the fullest tile of a base takes to send it."""
    machine = builder.tiles.machine
    lengths = variable.map_end - variable.map_start
    held = np.bincount(variable.map_tile, lengths) * variable.dtype.n_bytes
    return int(bus_cycles(float(held.max()), machine))


class _Layout(NamedTuple):
    """Starts and ends of the parts of groups, lookups, rows and columns, and tiles by part."""

    edges: tuple[Counts, Counts, Counts, Counts]
    tile: NDArray[np.int32]


def _layout_of(builder: Builder, shape: SliceShape, split: SliceSplit, columns: Counts) -> _Layout:
    """Return the parts of a split, on the first tiles.

    Parameters
    ----------
    columns : ndarray of int64
        Starts of the parts of columns, and the end.
    """
    lookups = equal_edges(shape.n_lookups, split.lookups)
    rows = equal_edges(shape.n_rows, split.rows)
    edges = (edges_of(shape.n_groups, split.groups), lookups, rows, columns)
    counts = [edge.size - 1 for edge in edges]
    return _Layout(edges, builder.tiles.ids[: prod(counts)].reshape(counts))


class _Slices:
    """The stages of a multi-slice: see `grouped_slice` and `_planned_slice`."""

    def __init__(
        self,
        builder: Builder,
        base: Matrices,
        shape: SliceShape,
        indices: Tensor,
        layout: _Layout,
        *,
        in_blocks: bool = False,
        follows_plan: bool = False,
    ) -> None:
        self._follows_plan = follows_plan
        self._builder, self._base, self._shape, self._indices = builder, base, shape, indices
        self._edges, self._tile = layout
        self._groups, self._lookups, self._rows, self._columns = layout.edges
        self._blocks = ColumnBlocks(shape.n_lookups, self._columns) if in_blocks else None

    @property
    def _n_elements(self) -> int:
        """Elements of all slices."""
        return self._shape.n_groups * self._shape.n_lookups * self._shape.n_columns

    def build(self) -> View:
        """Add the stages and return the slices."""
        n_parts = self._rows.size - 1
        out = self._results("out" if n_parts == 1 else "partials")
        self._first(out, "slice" if n_parts == 1 else "stage0")
        if n_parts > 1:
            out = self._second(out)
        if self._blocks is not None:
            return self._blocks.view(out.variable)
        return Tensor(out.variable, 0, row_major(out.variable.shape))

    def _results(self, name: str) -> Matrices:
        """Add a variable for the slices of every part of the rows, on the tiles of the parts."""
        builder, dtype, shape = self._builder, self._base.variable.dtype, self._shape
        n_parts = self._rows.size - 1
        tile = self._tile.transpose(2, 0, 1, 3)
        if self._blocks is not None:
            by_part = [self._blocks.intervals(self._lookups, of_part[0]) for of_part in tile]
            start = [part * self._n_elements + starts for part, (starts, _) in enumerate(by_part)]
            mapping = np.concatenate(start), np.concatenate([tiles for _, tiles in by_part])
            out = self._blocks.new(builder, dtype, name, mapping, n_parts)
            return Matrices.in_blocks(out.variable, self._blocks)
        sizes: tuple[int, ...] = (shape.n_groups, shape.n_lookups, shape.n_columns)
        edges = [self._groups, self._lookups, self._columns]
        if n_parts > 1:
            sizes, edges = (n_parts, *sizes), [np.arange(n_parts + 1), *edges]
        out = builder.graph.add_variable(dtype, sizes, name, builder.debug)
        map_parts(builder, out, edges, tile if n_parts > 1 else tile[0])
        return Matrices.of(Tensor(out.variable, 0, out.dims[-3:]))

    def _offsets(self, offsets: Tensor, at: Sequence[Counts], sizes: Sequence[Counts]) -> Regions:
        """Return regions of offsets, or of what is computed from them, at groups and lookups."""
        by_group, by_lookup = strides_of(offsets)
        by_group *= offsets.shape[0] > 1
        group, lookup = at
        start = offsets.offset + group * by_group + lookup * by_lookup
        return blocks(offsets.variable, start, [*sizes], [by_group, by_lookup], group.size)

    def _first(self, partials: Matrices, name: str) -> None:
        """Slice every part of the rows into partials [row part, group, lookup, column]."""
        at, size = grid_of(self._edges)
        (group, lookup, row, column), (n_group, n_lookup, n_row, n_column) = at, size
        part = np.indices(self._tile.shape)[2].reshape(-1)
        base, n = self._base, group.size
        fields = {
            "base": blocks(
                base.variable,
                base.start(group, row, column),
                [n_group, n_row, n_column],
                base.strides_at(column),
                n,
            ),
            "offsets": self._offsets(self._indices, at[:2], size[:2]),
            "sub": blocks(
                partials.variable,
                part * self._n_elements + partials.start(group, lookup, column),
                [n_group, n_lookup, n_column],
                partials.strides_at(column),
                n,
            ),
        }
        scalars = {"base_offset": row, "n_entries": self._shape.n_rows}
        compute_set = self._builder.compute_set(name)
        tile = self._tile.reshape(-1)
        self._builder.vertices(compute_set, MULTI_SLICE, tile, fields, scalars)

    def _second(self, partials: Matrices) -> Matrices:
        """Choose between the row parts; the tiles of a row part take a share of the lookups."""
        builder, n_parts = self._builder, self._rows.size - 1
        lookups, of_lookups, of_rows = second_stage(self._lookups, n_parts)
        tile = self._tile[:, of_lookups, of_rows]
        out = self._chosen(lookups, tile)
        at, size = grid_of((self._groups, lookups, self._columns))
        part_of = binary(builder, "divide", self._divided(), self._part_rows())
        start, strides, n = partials.start(*at), partials.strides_at(at[2]), at[0].size
        fields = {
            "base": blocks(
                partials.variable, start, [n_parts, *size], [self._n_elements, *strides], n
            ),
            "offsets": self._offsets(part_of, at[:2], size[:2]),
            "sub": blocks(out.variable, out.start(*at), size, out.strides_at(at[2]), n),
        }
        compute_set = builder.compute_set("stage1")
        builder.vertices(compute_set, MULTI_SLICE_PARTS, tile.reshape(-1), fields)
        return out

    def _divided(self) -> Tensor:
        """Return the indices, spread over more tiles if a tile has more than its workers divide.

        PopLibs divides them where they lie, and so does a plan that is followed.
        """
        builder, indices = self._builder, self._indices
        machine = builder.tiles.machine
        of_tile = np.bincount(indices.variable.tile_of(_elements(indices)), minlength=1).max()
        spread = -(-indices.n_elements // machine.n_tiles)
        if self._follows_plan or of_tile <= max(spread, machine.n_worker_contexts):
            return indices
        copy = builder.graph.add_variable(INT32, indices.shape, "indices", builder.debug)
        builder.spread(copy)
        copy_to(builder, indices, copy, "spreadIndices")
        return copy

    def _part_rows(self) -> Tensor:
        """Return the rows of a part: every part but the last has as many."""
        builder = self._builder
        n_rows = np.array([[self._rows[1]]], np.int32)
        tensor = builder.graph.add_constant(n_rows, "partRows", debug=builder.debug)
        builder.graph.set_tile_mapping(tensor, [0], builder.tiles.ids[:1])
        return tensor

    def _chosen(self, lookups: Counts, tile: NDArray[np.int32]) -> Matrices:
        """Add a variable for the slices, on the tiles of the second stage."""
        builder, dtype, shape = self._builder, self._base.variable.dtype, self._shape
        if self._blocks is not None:
            mapping = self._blocks.intervals(lookups, tile[0])
            out = self._blocks.new(builder, dtype, "out", mapping)
            return Matrices.in_blocks(out.variable, self._blocks)
        sizes = (shape.n_groups, shape.n_lookups, shape.n_columns)
        out = builder.graph.add_variable(dtype, sizes, "out", builder.debug)
        map_parts(builder, out, (self._groups, lookups, self._columns), tile)
        return Matrices.of(out)


def _elements(indices: Tensor) -> Counts:
    """Return the elements of the variable that indices (groups, lookups) are."""
    by_group, by_lookup = strides_of(indices)
    groups, lookups = (np.arange(size) for size in indices.shape)
    return np.asarray(indices.offset + groups[:, None] * by_group + lookups * by_lookup).reshape(-1)
