"""Rows of a tensor at positions that another tensor holds: embedding look-ups, gathers.

As in graphcore/poplibs sdk-release-3.4, lib/popops/DynamicSlice.cpp, multiSlicePlanned: lookups,
rows and columns of the base are split over tiles, and the exchange does not depend on data. If rows
are split, every part looks all its offsets up, and a second stage chooses the part with the row.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.slicing.multi_slice import (
    MULTI_SLICE,
    MULTI_SLICE_PARTS,
    multi_slice_cycles,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import INT32, Tensor, View, blocks
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.popops.elementwise.operations import (
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
from tilescope.engine.library.popops.slicing.sliceable import columns_of
from tilescope.engine.machine.exchange_law import bus_cycles
from tilescope.engine.planner.exchange import exchange_cycles_of_tiles
from tilescope.engine.planner.multi_slice import SliceShape, SliceSplit, plan_slice

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
def multi_slice(builder: Builder, x: View, indices: View, dim: int = 0) -> Tensor:
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

    Returns
    -------
    Tensor
        The shape of `x` with that of `indices` in place of the dimension.

    Raises
    ------
    BadGraph
        If the dimension does not exist, or the types are not supported.
    """
    refuse_float8("a multi-slice", x)
    check_dim("multi_slice", x, dim)
    check_indices("multi_slice", indices)
    rows = as_rows(builder, x, dim, "rearrange")
    out = grouped_slice(builder, rows, flat_indices(builder, indices))
    return out.reshape(*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :])


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
        moved_cycles = max(split.cycles, _sent_cycles(builder, base))
        split, layout = in_place if in_place[0].cycles <= moved_cycles else (split, None)
    detail = {"base": list(base.shape), "indices": list(indices.shape), "split": split.detail()}
    build = builder.inside("multiSlice", "popops.multiSlice", detail, flops=0)
    return _Slices(build, base, indices, split, layout).build()


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
    by_tile = np.bincount(columns.tile, cycles, machine.n_tiles)
    n_groups = np.bincount(columns.tile, minlength=machine.n_tiles)
    offsets = n_groups * shape.n_lookups * INT32.n_bytes
    total = int(by_tile.max()) + exchange_cycles_of_tiles(offsets, n_groups, 0 * offsets, machine)
    edges = np.append(first[0], shape.n_columns)
    layout = _Layout(edges, columns.tile.reshape(shape.n_groups, 1, 1, n_runs))
    return SliceSplit(shape.n_groups, 1, 1, n_runs, total), layout


def _sent_cycles(builder: Builder, base: Tensor) -> int:
    """Return how long the fullest tile of a base takes to send it."""
    variable, machine = base.variable, builder.tiles.machine
    lengths = variable.map_end - variable.map_start
    held = np.bincount(variable.map_tile, lengths, machine.n_tiles) * base.dtype.n_bytes
    return int(bus_cycles(float(held.max()), machine))


class _Layout(NamedTuple):
    """First columns and end of every part, and tiles by part of groups, lookups, rows, columns."""

    columns: Counts
    tile: NDArray[np.int32]


class _Slices:
    """The stages of a multi-slice: see `grouped_slice`."""

    def __init__(
        self,
        builder: Builder,
        base: Tensor,
        indices: Tensor,
        split: SliceSplit,
        layout: _Layout | None,
    ) -> None:
        self._builder, self._base, self._indices, self._split = builder, base, indices, split
        n_groups, n_rows, n_columns = base.shape
        grain = vector_elements(builder.tiles.machine, base.dtype)
        n_parts = min(split.columns, -(-n_columns // grain))
        self._groups = edges_of(n_groups, split.groups)
        self._lookups = edges_of(indices.shape[1], split.lookups)
        self._rows = edges_of(n_rows, split.rows)
        self._columns = edges_of(n_columns, n_parts, grain) if layout is None else layout.columns
        #: Tiles by part of groups, lookups, rows and columns.
        counts = [edges.size - 1 for edges in self._edges]
        self._tile = (
            builder.tiles.ids[: prod(counts)].reshape(counts) if layout is None else layout.tile
        )

    @property
    def _edges(self) -> tuple[Counts, Counts, Counts, Counts]:
        return self._groups, self._lookups, self._rows, self._columns

    def build(self) -> Tensor:
        """Add the stages and return the slices."""
        builder, base = self._builder, self._base
        shape = (base.shape[0], self._indices.shape[1], base.shape[2])
        if self._split.rows == 1:
            out = builder.graph.add_variable(base.dtype, shape, "out", builder.debug)
            map_parts(builder, out, (*self._edges[:2], self._columns), self._tile[:, :, 0])
            self._first(out.reshape(1, *shape), "slice")
            return out
        partials = builder.graph.add_variable(
            base.dtype, (self._split.rows, *shape), "partials", builder.debug
        )
        each_row = np.arange(self._split.rows + 1)
        edges = (each_row, *self._edges[:2], self._columns)
        map_parts(builder, partials, edges, self._tile.transpose(2, 0, 1, 3))
        self._first(partials, "stage0")
        return self._second(partials)

    def _offsets(self, group: Counts, lookup: Counts) -> Counts:
        by_group, by_lookup = strides_of(self._indices)
        by_group *= self._indices.shape[0] > 1
        return np.asarray(self._indices.offset + group * by_group + lookup * by_lookup)

    def _first(self, partials: Tensor, name: str) -> None:
        """Slice every part of the rows into partials [row part, group, lookup, column]."""
        base, indices = self._base, self._indices
        part = [grid.reshape(-1) for grid in np.indices(self._tile.shape)]
        first = [edge[index] for edge, index in zip(self._edges, part, strict=True)]
        size = [
            edge[index + 1] - edge[index] for edge, index in zip(self._edges, part, strict=True)
        ]
        (group, lookup, row, column), (n_group, n_lookup, n_row, n_column) = first, size
        n = group.size
        strides = strides_of(base)
        start = base.offset + group * strides[0] + row * strides[1] + column * strides[2]
        by_group = strides_of(indices)[0] * (indices.shape[0] > 1)
        by_part, by_out, by_lookup, _ = strides_of(partials)
        to = part[2] * by_part + group * by_out + lookup * by_lookup + column
        fields = {
            "base": blocks(base.variable, start, [n_group, n_row, n_column], strides, n),
            "offsets": blocks(
                indices.variable,
                self._offsets(group, lookup),
                [n_group, n_lookup],
                [by_group, strides_of(indices)[1]],
                n,
            ),
            "sub": blocks(
                partials.variable, to, [n_group, n_lookup, n_column], [by_out, by_lookup, 1], n
            ),
        }
        scalars = {"base_offset": row, "n_entries": base.shape[1]}
        compute_set = self._builder.compute_set(name)
        tile = self._tile.reshape(-1)
        self._builder.vertices(compute_set, MULTI_SLICE, tile, fields, scalars)

    def _second(self, partials: Tensor) -> Tensor:
        """Choose between the row parts; the tiles of a row part take a share of the lookups."""
        builder, indices = self._builder, self._indices
        n_parts, *shape = partials.shape
        within = [
            low + edges_of(high - low, n_parts)
            for low, high in zip(self._lookups[:-1], self._lookups[1:], strict=True)
        ]
        lookups = np.stack(within)  # by lookup part and row part
        part = [grid.reshape(-1) for grid in np.indices(self._tile.shape)]
        lookup, end = lookups[part[1], part[2]], lookups[part[1], part[2] + 1]
        kept_parts = np.flatnonzero(end > lookup)
        part = [index[kept_parts] for index in part]
        lookup, n_lookup = lookup[kept_parts], (end - lookup)[kept_parts]
        tile = self._tile.reshape(-1)[kept_parts]
        group, column = self._groups[part[0]], self._columns[part[3]]
        n_group = self._groups[part[0] + 1] - group
        n_column = self._columns[part[3] + 1] - column
        n = kept_parts.size

        out = builder.graph.add_variable(partials.dtype, shape, "out", builder.debug)
        edges = np.unique(lookups.reshape(-1))
        self._map_out(out, edges, (part, lookup, tile))
        by_part, by_group, by_lookup, _ = strides_of(partials)
        element = group * by_group + lookup * by_lookup + column
        offset_stride = strides_of(indices)[0] * (indices.shape[0] > 1)
        fields = {
            "base": blocks(
                partials.variable,
                element,
                [n_parts, n_group, n_lookup, n_column],
                [by_part, by_group, by_lookup, 1],
                n,
            ),
            "offsets": blocks(
                indices.variable,
                self._offsets(group, lookup),
                [n_group, n_lookup],
                [offset_stride, strides_of(indices)[1]],
                n,
            ),
            "sub": blocks(
                out.variable, element, [n_group, n_lookup, n_column], [by_group, by_lookup, 1], n
            ),
        }
        scalars = {"n_entries": self._base.shape[1], "n_parts": n_parts}
        builder.vertices(builder.compute_set("stage1"), MULTI_SLICE_PARTS, tile, fields, scalars)
        return out

    def _map_out(
        self, out: Tensor, edges: Counts, parts: tuple[list[Counts], Counts, NDArray[np.int32]]
    ) -> None:
        """Map the slices to the tiles of the second stage."""
        part, lookup, tile = parts
        grid = np.zeros((self._tile.shape[0], edges.size - 1, self._tile.shape[3]), np.int32)
        grid[part[0], np.searchsorted(edges, lookup), part[3]] = tile
        map_parts(self._builder, out, (self._groups, edges, self._columns), grid)
