"""Tables that are allocated, looked up and updated by one plan, as embeddings are.

Source: graphcore/poplibs sdk-release-2.0, lib/popops/DynamicSlice.cpp: embedding::plan,
createSliceableTensor and createSliceTensor with a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_count
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import DType, View, dtype_of
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.slicing.column_blocks import ColumnBlocks, Matrices
from tilescope.engine.options.available_memory import is_proportion
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.embedding import (
    EmbeddingPlan,
    EmbeddingShape,
    equal_edges,
    plan_table,
    second_stage,
)
from tilescope.engine.planner.multi_slice import SliceShape, plan_slice

__all__ = [
    "PlannedTable",
    "add_constant_table",
    "as_table",
    "check_plan",
    "create_planned_table",
    "create_slice_tensor",
    "of_table",
    "plan_embedding",
    "slice_layout",
    "tiles_of",
]

Counts = NDArray[np.int64]

#: Bytes on a tile from which constants fill the tiles. Source: graphcore/poplibs,
#: lib/poputil/TileMapping.cpp, minBytesPerTile
_LEAST_BYTES = 128


@checked
def plan_embedding(
    builder: Builder,
    dtype: Any,
    shape: Sequence[int],
    n_lookups: int,
    dim: int = 0,
    *,
    is_updated: bool = True,
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION,
) -> EmbeddingPlan:
    """Return the plan that the allocator, the look-ups and the updates of a table share.

    It takes the least memory, always live memory before temporary memory, of the splits whose
    temporary data fit.

    Parameters
    ----------
    builder
        Its tiles.
    dtype, shape, dim
        As for `create_sliceable_tensor`.
    n_lookups
        Most slices that are looked up, or updated, at once.
    is_updated
        Whether the table is updated as well.
    available_memory_proportion
        Largest share of a tile for temporary data, above 0 and at most 1.

    Raises
    ------
    BadGraph
        If a size, the dimension or the share is invalid.
    """
    n_rows, others = _sizes("plan_embedding", shape, dim)
    n_lookups = a_count("n_lookups of plan_embedding", n_lookups, 1)
    if not is_proportion(available_memory_proportion):
        raise BadGraph(
            "plan_embedding: available_memory_proportion is"
            f" {available_memory_proportion}: expected a share above 0, at most 1"
        )
    sizes = EmbeddingShape(n_rows, prod(others), n_lookups, dtype_of(dtype).n_bytes, is_updated)
    return plan_table(sizes, builder.tiles.machine, float(available_memory_proportion))


def _sizes(subject: str, shape: Sequence[int], dim: int) -> tuple[int, tuple[int, ...]]:
    """Return the rows, and the sizes of the other dimensions.

    Raises
    ------
    BadGraph
        If a size or the dimension is invalid.
    """
    sizes = tuple(a_count(f"A size of {subject}", size, 1) for size in shape)
    if not 0 <= dim < len(sizes):
        raise BadGraph(f"{subject}: dim is {dim}: expected 0 to {len(sizes) - 1} for shape {sizes}")
    return sizes[dim], (*sizes[:dim], *sizes[dim + 1 :])


def check_plan(
    subject: str,
    builder: Builder,
    plan: EmbeddingPlan,
    shape: Sequence[int],
    dim: int,
    dtype: DType,
) -> None:
    """Raise BadGraph unless a plan is one of a table of that shape, and has its tiles.

    Raises
    ------
    BadGraph
        If it is not, or needs more tiles than there are.
    """
    n_rows, others = _sizes(subject, shape, dim)
    sizes = plan.shape
    if (sizes.n_rows, sizes.n_columns, sizes.item_bytes) != (n_rows, prod(others), dtype.n_bytes):
        raise BadGraph(
            f"{subject}: the plan is for {sizes.n_rows} rows of {sizes.n_columns} elements of"
            f" {sizes.item_bytes} bytes, but the table has {n_rows} rows of {prod(others)} elements"
            f" of {dtype.n_bytes}: plan it with plan_embedding"
        )
    if plan.n_tiles > builder.tiles.ids.size:
        raise BadGraph(
            f"{subject}: the plan has parts for {plan.n_tiles} tiles, but the builder has"
            f" {builder.tiles.ids.size}: plan it for this builder"
        )


def as_table(x: View, dim: int) -> View | None:
    """Return a tensor as (rows, columns), its rows along a dimension; None if it is no view."""
    others = [d for d in range(len(x.shape)) if d != dim]
    turned = x.dim_shuffle(dim, *others) if dim else x
    shape = (x.shape[dim], prod(x.shape[d] for d in others))
    if turned.shape == shape:  # a reshape would take joined blocks apart
        return turned
    return turned.reshape(*shape) if turned.can_reshape(*shape) else None


def of_table(matrix: View, rows: Sequence[int], others: Sequence[int], dim: int) -> View:
    """Return (rows, columns) as a tensor whose rows have the dimensions from `dim` on.

    Parameters
    ----------
    rows, others
        Sizes of the dimensions of the rows, and of the other ones.

    Raises
    ------
    BadGraph
        If that is not a view.
    """
    n, shape = len(rows), (*rows, *others)
    by_row = matrix if matrix.shape == shape else matrix.reshape(*shape)
    first = [n + d for d in range(len(others))]
    return by_row.dim_shuffle(*first[:dim], *range(n), *first[dim:]) if dim else by_row


@dataclass(frozen=True)
class PlannedTable:
    """A table that a plan has allocated.

    Parameters
    ----------
    plan
        Its plan.
    blocks
        Order of its elements.
    base
        Where its rows are.
    """

    plan: EmbeddingPlan
    blocks: ColumnBlocks
    base: Matrices

    @classmethod
    def of(cls, builder: Builder, x: View, dim: int) -> PlannedTable | None:
        """Return the table that a tensor is, its rows along a dimension; None if it is none."""
        variable = x.variables[0]
        plan = variable.allocated_for[0] if variable.allocated_for is not None else None
        if not isinstance(plan, EmbeddingPlan) or plan.n_tiles > builder.tiles.ids.size:
            return None
        matrix = as_table(x, dim)
        blocks = ColumnBlocks(plan.shape.n_rows, plan.column_edges)
        if matrix is None or not blocks.is_order_of(matrix):
            return None
        return cls(plan, blocks, Matrices.in_blocks(variable, blocks))


def tiles_of(builder: Builder, plan: EmbeddingPlan) -> NDArray[np.int32]:
    """Return the tiles of a plan: ndarray of int32, shape (lookups, rows, columns)."""
    return builder.tiles.ids[: plan.n_tiles].reshape(plan.lookups, plan.rows, plan.columns)


def create_planned_table(
    builder: Builder, dtype: DType, shape: Sequence[int], dim: int, name: str, plan: EmbeddingPlan
) -> View | None:
    """Add a table that lies by its plan; None if its blocks do not divide the dimensions.

    With several parts of look-ups, their tiles share a part of the table evenly.
    """
    blocks = ColumnBlocks(plan.shape.n_rows, plan.column_edges)
    others = (*shape[:dim], *shape[dim + 1 :])
    if not blocks.divides(others):
        return None
    variable = blocks.new(builder, dtype, name, _table_mapping(builder, plan, blocks)).variable
    variable.allocated_for = plan, None
    return of_table(blocks.view(variable), (shape[dim],), others, dim)


def add_constant_table(
    builder: Builder, values: NDArray[Any], name: str, n_lookups: int
) -> View | None:
    """Add a table of constants for look-ups; None where moving its rows is predicted to be faster.

    Small tables, which do not fill the tiles, are left to move as well.

    Parameters
    ----------
    builder
        Its graph and tiles.
    values
        Shape (rows, columns).
    name
        Name of the variable.
    n_lookups
        Rows that are looked up at once.
    """
    (n_rows, n_columns), machine = values.shape, builder.tiles.machine
    item_bytes = dtype_of(values.dtype).n_bytes
    if values.size * item_bytes < _LEAST_BYTES * machine.n_tiles:
        return None
    sizes = EmbeddingShape(n_rows, n_columns, n_lookups, item_bytes, is_updated=False)
    plan = plan_table(sizes, machine)
    shape = SliceShape(1, n_lookups, n_rows, n_columns, item_bytes)
    if plan_slice(shape, machine).cycles <= plan_slice(shape, machine, plan).cycles:
        return None
    blocks = ColumnBlocks(n_rows, plan.column_edges)
    table = builder.graph.add_constant(blocks.in_order(values), name, debug=builder.debug)
    builder.graph.set_tile_mapping(table, *_table_mapping(builder, plan, blocks))
    table.variable.allocated_for = plan, None
    return blocks.view(table.variable)


def _table_mapping(
    builder: Builder, plan: EmbeddingPlan, blocks: ColumnBlocks
) -> tuple[Counts, NDArray[np.int32]]:
    """Return the starts and tiles of a table's intervals."""
    tiles = tiles_of(builder, plan)
    starts, _ = blocks.intervals(plan.row_edges, tiles[0])
    sizes = np.diff(np.append(starts, blocks.n_rows * blocks.n_columns))
    n_grains = -(-sizes // plan.grain)
    share = -(-n_grains // plan.lookups) * plan.grain
    begins = share * np.arange(plan.lookups)[:, None]
    # By part of columns and of rows, then by part of look-ups.
    exists = (begins < sizes).T
    tile = tiles.transpose(2, 1, 0).reshape(-1, plan.lookups)
    return (starts + begins).T[exists], tile[exists]


def slice_layout(
    builder: Builder, plan: EmbeddingPlan, n_lookups: int
) -> tuple[ColumnBlocks, tuple[Counts, NDArray[np.int32]]]:
    """Return the order and the mapping of slices of a plan: on the tiles of their last stage."""
    lookups = equal_edges(n_lookups, plan.lookups)
    edges, of_lookups, of_rows = second_stage(lookups, plan.rows)
    tile = tiles_of(builder, plan)[of_lookups, of_rows]
    blocks = ColumnBlocks(n_lookups, plan.column_edges)
    return blocks, blocks.intervals(edges, tile)


@checked
def create_slice_tensor(
    builder: Builder,
    dtype: Any,
    shape: Sequence[int],
    n_lookups: int,
    plan: EmbeddingPlan,
    dim: int = 0,
    name: str = "slices",
) -> View:
    """Add a variable for slices of a table that has a plan: look-ups give it, updates take it.

    Parameters
    ----------
    builder
        Its graph and tiles.
    dtype, shape, dim
        Those of the table.
    n_lookups
        Number of slices.
    plan
        The table's plan.
    name
        Name of the variable.

    Returns
    -------
    View
        The shape of the table with the slices in place of its rows.

    Raises
    ------
    BadGraph
        If a size is invalid, the plan is one of another table, or its blocks of columns do not
        divide the dimensions.
    """
    kind = dtype_of(dtype)
    n_lookups = a_count("n_lookups of create_slice_tensor", n_lookups, 1)
    check_plan("create_slice_tensor", builder, plan, shape, dim, kind)
    blocks, mapping = slice_layout(builder, plan, n_lookups)
    others = (*shape[:dim], *shape[dim + 1 :])
    if not blocks.divides(others):
        raise BadGraph(
            f"create_slice_tensor: blocks of {blocks.width[0]} columns do not divide the dimensions"
            f" {others}: look rows up with multi_slice, whose result any update takes"
        )
    variable = blocks.new(builder, kind, name, mapping).variable
    return of_table(blocks.view(variable), (n_lookups,), others, dim)
