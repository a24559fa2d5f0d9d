"""Tensors mapped for slices along one dimension: a tile holds all rows of its columns.

Source: graphcore/poplibs sdk-release-3.4, include/popops/DynamicSlice.hpp, createSliceableTensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_count
from tilescope.engine.codelets.popops.slicing.dynamic_update import DYNAMIC_UPDATE
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import DType, Tensor, View, dtype_of
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import vector_elements
from tilescope.engine.library.popops.elementwise.partition import as_rows, edges_of, map_parts
from tilescope.engine.library.popops.slicing.column_blocks import Matrices
from tilescope.engine.library.popops.slicing.embedding import (
    PlannedTable,
    check_plan,
    create_planned_table,
    tiles_of,
)
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.embedding import (
    LEAST_INDICES,
    EmbeddingPlan,
    EmbeddingShape,
    equal_edges,
    grain_of,
    plan_table,
)

__all__ = [
    "columns_of",
    "create_by_columns",
    "create_indices_tensor",
    "create_sliceable_tensor",
    "is_sliceable",
    "update_columns",
]


@checked
def create_sliceable_tensor(
    builder: Builder,
    dtype: Any,
    shape: Sequence[int],
    dim: int = 0,
    name: str = "sliceable",
    plan: EmbeddingPlan | None = None,
) -> View:
    """Add a variable whose slices along a dimension are spread over as many tiles as possible.

    `dynamic_slice` and `dynamic_update` along that dimension then move no rows between tiles, nor
    do `multi_slice` and `multi_update`. A table of which a tile cannot hold all rows is planned for
    one look-up.

    Parameters
    ----------
    builder
        Its graph and tiles.
    dtype
        Element type.
    shape
        Shape of the tensor.
    dim
        Dimension to slice.
    name
        Name of the variable.
    plan
        That of `plan_embedding` for this table, which then lies by it: rows are split as well as
        columns.

    Raises
    ------
    BadGraph
        If the dimension does not exist, the type or the shape is invalid, or the plan is one of
        another table.
    """
    sizes = [a_count("A size of create_sliceable_tensor", size, 1) for size in shape]
    if not 0 <= dim < len(sizes):
        raise BadGraph(
            f"create_sliceable_tensor: dim is {dim}: expected 0 to {len(sizes) - 1} for shape"
            f" {tuple(sizes)}"
        )
    kind = dtype_of(dtype)
    if plan is not None:
        check_plan("create_sliceable_tensor", builder, plan, sizes, dim, kind)
    elif len(sizes) == 2 and dim == 0:
        plan = _default_plan(builder, kind, sizes[0], sizes[1])
    if plan is not None:
        table = create_planned_table(builder, kind, sizes, dim, name, plan)
        if table is not None:
            return table
    return create_by_columns(builder, kind, sizes, dim, name)


def create_by_columns(
    builder: Builder, dtype: DType, sizes: Sequence[int], dim: int, name: str
) -> Tensor:
    """Add a row-major variable whose columns, along all other dimensions, lie on as many tiles."""
    outer, inner = prod(sizes[:dim]), prod(sizes[dim + 1 :])
    tensor = builder.graph.add_variable(dtype, (outer, sizes[dim], inner), name, builder.debug)
    grain = vector_elements(builder.tiles.machine, dtype)
    n_outer_parts, n_column_parts = _n_parts(builder, dtype, outer, inner)
    edges = (
        edges_of(outer, n_outer_parts),
        np.array([0, sizes[dim]]),
        edges_of(inner, n_column_parts, grain),
    )
    tile = builder.tiles.ids[: n_outer_parts * n_column_parts]
    map_parts(builder, tensor, edges, tile.reshape(n_outer_parts, 1, n_column_parts))
    return tensor.reshape(*sizes)


def _default_plan(builder: Builder, dtype: DType, n_rows: int, n_columns: int) -> EmbeddingPlan:
    """Return the split of columns; of a table too large for that, the plan of one look-up."""
    machine = builder.tiles.machine
    grain = grain_of(dtype.n_bytes)
    n_parts = min(machine.n_tiles, -(-n_columns // grain))
    edges = equal_edges(n_columns, n_parts, grain)
    stored_bytes = n_rows * int(edges[1]) * dtype.n_bytes
    shape = EmbeddingShape(n_rows, n_columns, 1, dtype.n_bytes)
    if stored_bytes > AVAILABLE_MEMORY_PROPORTION * machine.bytes_per_tile:
        return plan_table(shape, machine)
    return EmbeddingPlan(shape, 1, 1, edges.size - 1, grain, stored_bytes, 0)


def _n_parts(builder: Builder, dtype: DType, outer: int, inner: int) -> tuple[int, int]:
    """Return the parts of outer dimensions and of columns, on a tile each."""
    machine = builder.tiles.machine
    n_column_parts = min(machine.n_tiles, -(-inner // vector_elements(machine, dtype)))
    return min(outer, machine.n_tiles // n_column_parts), n_column_parts


def is_sliceable(builder: Builder, x: Tensor, dim: int) -> bool:
    """Return whether a tensor lies as one of `create_sliceable_tensor`, on as many tiles."""
    table = PlannedTable.of(builder, x, dim)
    if table is not None:
        return table.plan.rows * table.plan.lookups == 1
    outer, inner = prod(x.shape[:dim]), prod(x.shape[dim + 1 :])
    if not x.can_reshape(outer, x.shape[dim], inner):
        return False
    columns = columns_of(x.reshape(outer, x.shape[dim], inner))
    if columns is None:
        return False
    return np.unique(columns.tile).size >= prod(_n_parts(builder, x.dtype, outer, inner))


@checked
def create_indices_tensor(builder: Builder, shape: Sequence[int], name: str = "indices") -> Tensor:
    """Add a variable for indices of `multi_slice` and `multi_update`: int32, spread evenly.

    A tile has at least 32 of them, so that those who read them read from few tiles.

    Parameters
    ----------
    builder
        Its graph and tiles.
    shape
        Shape of the tensor.
    name
        Name of the variable.

    Raises
    ------
    BadGraph
        If a size is less than 1.
    """
    sizes = [a_count("A size of create_indices_tensor", size, 1) for size in shape]
    tensor = builder.graph.add_variable("int32", sizes, name, builder.debug)
    builder.spread(tensor, minimum=LEAST_INDICES)
    return tensor


@dataclass(frozen=True)
class _Columns:
    """Runs of columns of (outer, rows, columns) with all rows on one tile."""

    outer: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    tile: NDArray[np.int32]


def columns_of(rows: Tensor) -> _Columns | None:
    """Return the runs of columns of a mapped row-major tensor; None if a tile lacks some rows."""
    outer, n_rows, n_columns = rows.shape
    variable = rows.variable
    if rows.n_elements != variable.n_elements or not rows.is_contiguous or not variable.is_mapped:
        return None
    starts, tiles = variable.map_start, variable.map_tile
    # An interval that crosses a row's end is cut there.
    cuts = np.union1d(starts, np.arange(0, variable.n_elements, n_columns, dtype=np.int64))
    tile = tiles[np.searchsorted(starts, cuts, side="right") - 1]
    row, column = cuts // n_columns, cuts % n_columns
    per_row = np.bincount(row, minlength=outer * n_rows).reshape(outer, n_rows)
    if (per_row != per_row[:, :1]).any():
        return None
    first_of = np.cumsum(per_row.reshape(-1)) - per_row.reshape(-1)
    results: list[tuple[int, NDArray[np.int64], NDArray[np.int32]]] = []
    for group in range(outer):
        n = int(per_row[group, 0])
        offset = slice(int(first_of[group * n_rows]), int(first_of[group * n_rows]) + n * n_rows)
        columns, owners = column[offset].reshape(n_rows, n), tile[offset].reshape(n_rows, n)
        if (columns != columns[0]).any() or (owners != owners[0]).any():
            return None
        results.append((group, columns[0], owners[0]))
    return _Columns(
        np.concatenate([np.full(first.size, group) for group, first, _ in results]),
        np.concatenate([first for _, first, _ in results]),
        np.concatenate([np.diff(np.append(first, n_columns)) for _, first, _ in results]),
        np.concatenate([owners for _, _, owners in results]),
    )


def update_columns(builder: Builder, x: View, update: View, offset: Tensor, dim: int) -> bool:
    """Replace a slice where every tile holds all rows of its columns; else do nothing.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Target of the update.
    update
        The slice: the shape of `x`, except in the sliced dimension.
    offset
        First row, int32; one element.
    dim
        The sliced dimension.

    Returns
    -------
    bool
        Whether the program was added.
    """
    placed = _placed_columns(builder, x, dim)
    if placed is None:
        return False
    columns, base = placed
    size = update.shape[dim]
    new = as_rows(builder, update, dim, "rearrange")
    by_outer, by_row, by_column = (atom_list[0][1] if atom_list else 0 for atom_list in new.dims)
    n = columns.tile.size
    fields = {
        "base": blocks(
            base.variable,
            base.start(columns.outer, np.zeros_like(columns.outer), columns.first),
            [1, x.shape[dim], columns.count],
            base.strides_at(columns.first),
            n,
        ),
        "offset": blocks(offset.variable, offset.offset, [1], [1], n),
        "sub": blocks(
            new.variable,
            new.offset + columns.outer * by_outer + columns.first * by_column,
            [1, size, columns.count],
            [by_outer, by_row, by_column],
            n,
        ),
    }
    builder.vertices(builder.compute_set("update"), DYNAMIC_UPDATE, columns.tile, fields)
    return True


def _placed_columns(builder: Builder, x: View, dim: int) -> tuple[_Columns, Matrices] | None:
    """Return columns whose rows are all on one tile, and where they are; None if some are not."""
    table = PlannedTable.of(builder, x, dim)
    if table is not None:
        if table.plan.rows * table.plan.lookups > 1:
            return None
        edges = table.plan.column_edges
        tile = tiles_of(builder, table.plan)[0, 0, : edges.size - 1]
        columns = _Columns(np.zeros_like(edges[:-1]), edges[:-1], np.diff(edges), tile)
        return columns, table.base
    shape = (prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :]))
    if not isinstance(x, Tensor) or not x.can_reshape(*shape):
        return None
    rows = x.reshape(*shape)
    whole = columns_of(rows)
    return None if whole is None else (whole, Matrices.of(rows))
