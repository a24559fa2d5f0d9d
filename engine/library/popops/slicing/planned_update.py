"""Updates of tables that a plan has allocated: every tile updates its rows of its columns.

Where look-ups are split, their parts sum into partial tables of floats, whose sum is added to the
table. Source: graphcore/poplibs sdk-release-2.0, lib/popops/DynamicSlice.cpp,
generatePlannedMultiUpdateAdd.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import CAST, CAST_BLOCK
from tilescope.engine.codelets.popops.slicing.multi_slice import MULTI_UPDATE_OP
from tilescope.engine.graph import FLOAT32, INT32, ComputeSet, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.tensor.tensor import row_major
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import apply_to, cast, copy_to
from tilescope.engine.library.popops.elementwise.partition import strides_of
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.reduce import reduce_with_output
from tilescope.engine.library.popops.slicing.column_blocks import Matrices, grid_of
from tilescope.engine.library.popops.slicing.embedding import (
    PlannedTable,
    slice_layout,
    tiles_of,
)
from tilescope.engine.planner.embedding import EmbeddingPlan, equal_edges

__all__ = ["can_update", "planned_update"]

Counts = NDArray[np.int64]

#: Parts of rows from which updates are copied to the tiles of slices before all parts read them.
#: Source: DynamicSlice.cpp, slicesBroadcastDestRearrangeThreshold
_REARRANGED_FROM = 4


def can_update(table: PlannedTable, codelet: Codelet) -> bool:
    """Return whether a table can be updated by its plan: only sums of floats are split."""
    is_sum = codelet is MULTI_UPDATE_OP["add"] and table.base.variable.dtype.is_float
    return table.plan.lookups == 1 or is_sum


def planned_update(
    builder: Builder,
    table: PlannedTable,
    indices: Tensor,
    updates: View,
    codelet: Codelet,
    scale: float | None,
) -> None:
    """Update rows of a table by its plan.

    Parameters
    ----------
    builder
        Target of the program, inside the call.
    table
        The table; it must be one that `can_update`.
    indices
        Shape (1, lookups), one stride.
    updates
        Shape (lookups, columns); on other variables than the table.
    codelet, scale
        Vertex of the update, and its factor; None if it takes none.
    """
    n_lookups = indices.shape[1]
    lookups = equal_edges(n_lookups, table.plan.lookups)
    is_split = lookups.size > 2
    slices = _operand(builder, table, updates, needs_blocks=is_split)
    if is_split:
        _update_by_partials(builder, table, indices, slices, 1.0 if scale is None else scale)
        return
    row_bytes = int(table.blocks.width[0]) * updates.dtype.n_bytes + INT32.n_bytes
    machine = builder.tiles.machine
    fits = int(table.plan.available_memory_proportion * machine.bytes_per_tile) // row_bytes
    n_steps = -(-n_lookups // max(fits, 1))
    for step in range(n_steps):
        compute_set = builder.compute_set("update" if n_steps == 1 else f"update{step}")
        some = np.array([step, step + 1]) * n_lookups // n_steps
        operands = table.base, indices, slices
        _add_vertices(builder, compute_set, table.plan, operands, some, (codelet, scale))


def _operand(
    builder: Builder, table: PlannedTable, updates: View, *, needs_blocks: bool
) -> Matrices:
    """Return updates as the vertices read them: as they lie, or copied to the tiles of slices.

    Updates that few parts of rows read are not copied first.
    """
    order, mapping = slice_layout(builder, table.plan, updates.shape[0])
    is_read_in_place = table.plan.rows < _REARRANGED_FROM
    if order.is_order_of(updates) and (is_read_in_place or order.holds(updates, mapping)):
        return Matrices.in_blocks(updates.variables[0], order)
    if is_read_in_place and not needs_blocks and isinstance(updates, Tensor):
        rows = updates.reshape(1, *updates.shape)
        if all(len(atoms) == 1 for atoms in rows.dims):
            return Matrices.of(rows)
    variable = order.new(builder, updates.dtype, "slicesRearranged", mapping).variable
    copy_to(builder, updates, order.view(variable), "rearrangeSlices")
    return Matrices.in_blocks(variable, order)


def _add_vertices(
    builder: Builder,
    compute_set: ComputeSet,
    plan: EmbeddingPlan,
    operands: tuple[Matrices, Tensor, Matrices],
    lookups: Counts,
    update: tuple[Codelet, float | None],
) -> None:
    """Add the vertices that update a table, or one for every part of the look-ups.

    Parameters
    ----------
    operands
        Table or tables, indices and updates.
    lookups : ndarray of int64
        Starts of the parts of look-ups, and the end.
    update
        Codelet, and its factor.
    """
    (table, indices, slices), (codelet, scale) = operands, update
    edges = (lookups, plan.row_edges, plan.column_edges)
    tile = tiles_of(builder, plan)[: lookups.size - 1, : edges[1].size - 1, : edges[2].size - 1]
    (lookup, row, column), (n_lookup, n_row, n_column) = grid_of(edges)
    part = np.indices(tile.shape)[0].reshape(-1)
    n, zero = lookup.size, np.zeros_like(lookup)
    by_lookup = strides_of(indices)[1]
    n_elements = plan.shape.n_rows * plan.shape.n_columns
    base = part * n_elements + table.start(zero, row, column)
    sub = slices.start(zero, lookup, column)
    fields = {
        "base": blocks(table.variable, base, [1, n_row, n_column], table.strides_at(column), n),
        "offsets": blocks(
            indices.variable, indices.offset + lookup * by_lookup, [1, n_lookup], [0, by_lookup], n
        ),
        "sub": blocks(slices.variable, sub, [1, n_lookup, n_column], slices.strides_at(column), n),
    }
    scalars: Mapping[str, Any] = {"base_offset": row, "n_entries": plan.shape.n_rows}
    if scale is not None:
        scalars = {**scalars, "scale": scale}
    builder.vertices(compute_set, codelet, tile.reshape(-1), fields, scalars)


def _update_by_partials(
    builder: Builder, table: PlannedTable, indices: Tensor, slices: Matrices, scale: float
) -> None:
    """Sum every part of the look-ups into a table of floats, and add these to the table."""
    plan, order = table.plan, table.blocks
    lookups = equal_edges(indices.shape[1], plan.lookups)
    n_parts, n_elements = lookups.size - 1, order.n_rows * order.n_columns
    by_part = [order.intervals(plan.row_edges, tile) for tile in tiles_of(builder, plan)[:n_parts]]
    start = [part * n_elements + starts for part, (starts, _) in enumerate(by_part)]
    mapping = np.concatenate(start), np.concatenate([tiles for _, tiles in by_part])
    partials = order.new(builder, FLOAT32, "partials", mapping, n_parts)
    whole = Tensor(slices.variable, 0, row_major(slices.variable.shape))
    if whole.dtype != FLOAT32:
        whole = cast(builder, whole, FLOAT32)
        slices = replace(slices, variable=whole.variable)
    fill(builder, partials, 0)
    operands = Matrices.in_blocks(partials.variable, order), indices, slices
    compute_set = builder.compute_set("update")
    _add_vertices(builder, compute_set, plan, operands, lookups, (MULTI_UPDATE_OP["add"], 1.0))

    variable = table.base.variable
    base = Tensor(variable, 0, row_major((n_elements,)))
    total = builder.graph.add_variable(FLOAT32, (n_elements,), "sumUpdates", builder.debug)
    total.variable.map_like(variable)
    reduce_with_output(builder, "sum", partials.reshape(n_parts, n_elements), total, [0])
    if variable.dtype == FLOAT32:
        scaled_add(builder, base, total, scale)
        return
    as_float = cast(builder, base, FLOAT32)
    scaled_add(builder, as_float, total, scale)
    apply_to(builder, "castBack", CAST, CAST_BLOCK, as_float, base)
