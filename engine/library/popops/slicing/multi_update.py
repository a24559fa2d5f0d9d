"""Writes to rows of a tensor at positions that another tensor holds, in place.

As in graphcore/poplibs sdk-release-3.4, lib/popops/DynamicSlice.cpp, every tile updates the rows
that it holds from all updates, so that the exchange does not depend on data. Where all updates
together do not fit beside the rows, they go in several steps (``lookupSerialSplit`` there).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.slicing.multi_slice import MULTI_UPDATE, MULTI_UPDATE_OP
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Regions, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.mapping.elements import check_each_once, share_elements
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.intervals.runs import group_pieces
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.popops.elementwise.operations import copy_to, row_major_copy
from tilescope.engine.library.popops.elementwise.partition import as_rows, strides_of
from tilescope.engine.library.popops.slicing.embedding import PlannedTable, check_plan
from tilescope.engine.library.popops.slicing.multi_slice import (
    check_groups,
    check_indices,
    flat_indices,
)
from tilescope.engine.library.popops.slicing.planned_update import can_update, planned_update
from tilescope.engine.library.walk import cut_rows
from tilescope.engine.planner.embedding import EmbeddingPlan

__all__ = [
    "grouped_multi_update",
    "grouped_update",
    "multi_update",
    "multi_update_add",
    "multi_update_op",
]

Counts = NDArray[np.int64]

#: Share of a tile's memory for the updates of one step.
_MEMORY_SHARE = 0.3  # Assumption: half of the default share of a planned operation


@checked
def multi_update(
    builder: Builder,
    x: View,
    indices: View,
    updates: View,
    dim: int = 0,
    plan: EmbeddingPlan | None = None,
) -> None:
    """Replace slices of a tensor at several positions along a dimension.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Target of the updates; a view without aliased elements.
    indices
        Positions, of any shape, int32. One out of range changes nothing; of equal ones the last
        counts.
    updates
        The shape of `x` with that of `indices` in place of the dimension.
    dim
        The sliced dimension.
    plan
        That of `plan_embedding` for `x`. A table that it has allocated is updated by it in any
        case; others are updated where they lie.

    Raises
    ------
    BadGraph
        If the dimension does not exist, types or shapes are incompatible, or the plan is one of
        another table.
    """
    _update(builder, "multiUpdate", (x, indices, updates, dim), MULTI_UPDATE, None, plan=plan)


@checked
def multi_update_add(
    builder: Builder,
    x: View,
    indices: View,
    updates: View,
    scale: float = 1.0,
    dim: int = 0,
    plan: EmbeddingPlan | None = None,
) -> None:
    """Add `scale` times the updates to slices of a tensor: see `multi_update`.

    Updates of equal positions add up.

    Raises
    ------
    BadGraph
        As for `multi_update`; or if an integer is scaled.
    """
    if scale != 1 and not x.dtype.is_float:
        raise BadGraph(f"{x.name!r} is {x.dtype}: a scaled update takes float16 or float32")
    operands, codelet = (x, indices, updates, dim), MULTI_UPDATE_OP["add"]
    _update(builder, "multiUpdateAdd", operands, codelet, scale, plan=plan)


@checked
def multi_update_op(
    builder: Builder, operation: str, x: View, indices: View, updates: View, dim: int = 0
) -> None:
    """Combine slices of a tensor with updates: see `multi_update`.

    Parameters
    ----------
    operation
        ``add``, ``multiply``, ``maximum`` or ``minimum``.

    Raises
    ------
    BadGraph
        As for `multi_update`; or if the operation is unknown.
    """
    if operation not in MULTI_UPDATE_OP:
        raise BadGraph(
            f"Unknown update operation {operation!r}; use one of {', '.join(MULTI_UPDATE_OP)}"
        )
    codelet = MULTI_UPDATE_OP[operation]
    _update(builder, "multiUpdateOp", (x, indices, updates, dim), codelet, 1.0)


@checked
def grouped_multi_update(  # as `multi_update_op`, with groups
    builder: Builder,
    operation: str,
    x: View,
    indices: View,
    updates: View,
    *,
    scale: float = 1.0,
    dim: int = 0,
) -> None:
    """Update slices of every group of a tensor at the group's own positions: see `multi_update`.

    Parameters
    ----------
    builder
        Target of the program.
    operation
        ``none`` to replace, ``add``, ``multiply``, ``maximum`` or ``minimum``.
    x
        Target of the updates; the first dimension is that of groups.
    indices
        Positions, int32, shape (groups, …).
    updates
        The shape of `x` with that of a group's indices in place of the dimension.
    scale
        Factor of what is added.
    dim
        The sliced dimension of a group, counted without that of groups.

    Raises
    ------
    BadGraph
        As for `multi_update_op` and `multi_update_add`; or if anything but a sum is scaled, or if
        the indices are not those of the groups.
    """
    check_groups("grouped_multi_update", x, indices, dim)
    if operation != "none" and operation not in MULTI_UPDATE_OP:
        raise BadGraph(
            f"Unknown update operation {operation!r}; use none, {', '.join(MULTI_UPDATE_OP)}"
        )
    if scale != 1 and (operation != "add" or not x.dtype.is_float):
        raise BadGraph(
            f"grouped_multi_update: the scale is {scale} for {operation!r} of {x.dtype}: only sums"
            " of floats are scaled"
        )
    shape = (*x.shape[: dim + 1], *indices.shape[1:], *x.shape[dim + 2 :])
    _check_updates("grouped_multi_update", x, updates, shape)
    n_index = len(indices.shape) - 1
    other_dims = [d for d in range(1, len(x.shape)) if d != dim + 1]
    looked_up = range(dim + 1, dim + 1 + n_index)
    rest = [d for d in range(1, len(shape)) if d not in looked_up]
    turned = x.dim_shuffle(0, dim + 1, *other_dims) if dim else x
    ordered = updates.dim_shuffle(0, *looked_up, *rest) if dim else updates
    is_sum = scale if operation != "none" else None
    codelet = MULTI_UPDATE if operation == "none" else MULTI_UPDATE_OP[operation]
    name = f"groupedMultiUpdate{'' if operation == 'none' else operation.capitalize()}"
    _update(builder, name, (turned, indices, ordered, 1), codelet, is_sum, n_groups=x.shape[0])


def _check_updates(name: str, x: View, updates: View, shape: tuple[int, ...]) -> None:
    if updates.dtype != x.dtype or updates.shape != shape:
        raise BadGraph(
            f"{name}: the updates {updates.name!r} are {updates.dtype} of shape {updates.shape}:"
            f" expected {x.dtype} of shape {shape}"
        )


def _update(
    builder: Builder,
    name: str,
    operands: tuple[View, View, View, int],
    codelet: Codelet,
    scale: float | None,
    n_groups: int | None = None,
    plan: EmbeddingPlan | None = None,
) -> None:
    """Check the operands, and update a row-major tensor, or a copy of any other one.

    Groups are the first dimension of all operands, checked by the caller; rows are the second then.
    """
    x, indices, updates, dim = operands
    refuse_float8("a multi-update", x)
    check_dim(name, x, dim)
    check_indices(name, indices)
    check_each_once("The target of an update", x)
    if n_groups is None:
        _check_updates(name, x, updates, (*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :]))
    if plan is not None:
        check_plan(name, builder, plan, x.shape, dim, x.dtype)
    table = PlannedTable.of(builder, x, dim) if n_groups is None else None
    detail: dict[str, Any] = {"target": [*x.shape], "indices": [*indices.shape], "dim": dim}
    if table is not None:
        detail["split"] = table.plan.detail()
    per_element = 0 if scale is None else 1 + (scale != 1)
    flops = per_element * updates.n_elements * x.dtype.is_float
    build = builder.inside(name, f"popops.{name}", detail, flops=flops)
    if table is not None and can_update(table, codelet):
        slices = _by_lookup(build, x, indices, updates, dim)
        planned_update(build, table, flat_indices(build, indices), slices, codelet, scale)
        return
    flat = updates.reshape(*_shape_of_rows(x, dim, indices.n_elements // (n_groups or 1)))
    if share_elements(x, updates):
        flat = row_major_copy(build, flat, "copy")
    rows = as_rows(build, flat, 1, "rearrange")
    offsets = flat_indices(build, indices, n_groups or 1)
    is_whole = isinstance(x, Tensor) and x.is_contiguous
    if is_whole and x.n_elements == x.variable.n_elements:  # type: ignore[union-attr]
        full = x
    else:
        full = row_major_copy(build, x, "target")
    base = as_rows(build, full, dim, "target")
    grouped_update(build, base, offsets, rows, codelet, scale)
    if full is not x:
        copy_to(build, full, x, "copyBack")


def _by_lookup(builder: Builder, x: View, indices: View, updates: View, dim: int) -> View:
    """Return updates as (lookups, columns), on other variables than their target."""
    n = len(indices.shape)
    looked_up = [*range(dim, dim + n)]
    order = [*looked_up, *(d for d in range(len(updates.shape)) if d not in looked_up)]
    turned = updates.dim_shuffle(*order) if dim else updates
    shape = (indices.n_elements, x.n_elements // x.shape[dim])
    if share_elements(x, updates) or not (turned.shape == shape or turned.can_reshape(*shape)):
        turned = row_major_copy(builder, turned, "copy")
    return turned if turned.shape == shape else turned.reshape(*shape)


def _shape_of_rows(x: View, dim: int, n_lookups: int) -> tuple[int, int, int]:
    n_outer = int(np.prod(x.shape[:dim], dtype=np.int64))
    return n_outer, n_lookups, x.n_elements // (n_outer * x.shape[dim])


def grouped_update(
    builder: Builder,
    base: Tensor,
    indices: Tensor,
    updates: Tensor,
    codelet: Codelet,
    scale: float | None,
) -> None:
    """Update rows of every group.

    Parameters
    ----------
    builder
        Target of the program, inside the call.
    base
        A whole row-major variable as (groups, rows, columns).
    indices
        Shape (groups, lookups), or (1, lookups) for all groups, one stride each.
    updates
        Shape (groups, lookups, columns), one stride each.
    codelet, scale
        Vertex of the update, and its factor; None if it takes none.
    """
    base.variable.check_mapped()
    rectangles = _BaseRectangles.of(base)
    machine = builder.tiles.machine
    n_lookups = indices.shape[1]
    per_lookup = rectangles.bytes_per_lookup(base.dtype.n_bytes, machine.n_tiles)
    fits = int(_MEMORY_SHARE * machine.allocatable_bytes) // max(per_lookup, 1)
    n_steps = -(-n_lookups // max(fits, 1))
    for step in range(n_steps):
        low, high = step * n_lookups // n_steps, (step + 1) * n_lookups // n_steps
        some, rows = indices.slice(1, low, high), updates.slice(1, low, high)
        fields = {
            "base": rectangles.base(base),
            "offsets": rectangles.offsets(some),
            "sub": rectangles.updates(rows),
        }
        scalars: Mapping[str, Any] = {"base_offset": rectangles.row, "n_entries": base.shape[1]}
        if scale is not None:
            scalars = {**scalars, "scale": scale}
        compute_set = builder.compute_set("update" if n_steps == 1 else f"update{step}")
        builder.vertices(compute_set, codelet, rectangles.tile, fields, scalars)


class _BaseRectangles:
    """What every tile holds of a base: rectangles of rows and columns, in evenly spaced groups.

    Attributes
    ----------
    tile, group, row, column, n_groups, n_rows, n_columns, spacing : ndarrays of int64, shape (n,)
        Tile, first group, row and column, extents, and groups between two of a rectangle's.
    """

    def __init__(self, base: Tensor, columns: Mapping[str, Counts]) -> None:
        self._shape = base.shape
        self.tile, self.group = columns["tile"], columns["group"]
        self.row, self.column = columns["row"], columns["column"]
        self.n_groups, self.n_rows = columns["n_groups"], columns["n_rows"]
        self.n_columns, self.spacing = columns["n_columns"], columns["spacing"]

    @classmethod
    def of(cls, base: Tensor) -> _BaseRectangles:
        """Return the rectangles of a whole row-major variable."""
        _, n_rows, n_columns = base.shape
        cut = cut_rows(base.variable, n_columns, n_rows)
        order = np.argsort(cut.tile, kind="stable")
        start, tile = cut.start[order], cut.tile[order]
        rows, columns = cut.n_rows[order], cut.n_columns[order]
        start, tile, rows, columns = _stacked(start, tile, rows, columns, (n_rows, n_columns))
        in_group = start % (n_rows * n_columns)
        # Rectangles of one group have equal extents and lie at equal places of their groups.
        _, key = np.unique(np.stack([in_group, rows, columns]), axis=1, return_inverse=True)
        group = start // (n_rows * n_columns)
        first, count, spacing = group_pieces(
            tile, key.reshape(-1).astype(np.int64), np.stack([group, group])
        )
        facts: dict[str, Any] = {
            "tile": tile[first],
            "group": group[first],
            "row": in_group[first] // n_columns,
            "column": in_group[first] % n_columns,
            "n_groups": count,
            "n_rows": rows[first],
            "n_columns": columns[first],
            "spacing": spacing[:, 0],
        }
        return cls(base, facts)

    def bytes_per_lookup(self, item_bytes: int, n_tiles: int) -> int:
        """Return the bytes of one lookup's updates and offsets on the busiest tile."""
        n_bytes = self.n_groups * (self.n_columns * item_bytes + 4)
        return int(np.bincount(self.tile, n_bytes, n_tiles).max())

    def base(self, base: Tensor) -> Regions:
        """Return the rectangles."""
        _, n_rows, n_columns = self._shape
        group = n_rows * n_columns
        start = self.group * group + self.row * n_columns + self.column
        sizes = [self.n_groups, self.n_rows, self.n_columns]
        n = self.tile.size
        return blocks(base.variable, start, sizes, [self.spacing * group, n_columns, 1], n)

    def offsets(self, indices: Tensor) -> Regions:
        """Return the offsets of the groups."""
        by_group, by_lookup = strides_of(indices)
        by_group *= indices.shape[0] > 1
        start = indices.offset + self.group * by_group
        sizes = [self.n_groups, np.full_like(self.group, indices.shape[1])]
        n = self.tile.size
        return blocks(indices.variable, start, sizes, [self.spacing * by_group, by_lookup], n)

    def updates(self, updates: Tensor) -> Regions:
        """Return the updates of the groups' columns."""
        by_group, by_lookup, by_column = strides_of(updates)
        start = updates.offset + self.group * by_group + self.column * by_column
        sizes: list[Counts] = [
            self.n_groups,
            np.full_like(self.group, updates.shape[1]),
            self.n_columns,
        ]
        strides: list[Counts | int] = [self.spacing * by_group, by_lookup, by_column]
        return blocks(updates.variable, start, sizes, strides, self.tile.size)


def _stacked(
    start: Counts,
    tile: NDArray[np.int32],
    rows: Counts,
    columns: Counts,
    shape: tuple[int, int],
) -> tuple[Counts, NDArray[np.int32], Counts, Counts]:
    """Return rectangles with those of a tile joined that hold the same columns of adjacent rows.

    Parameters
    ----------
    start, tile, rows, columns
        First element, tile and extents of every rectangle.
    shape
        Rows and columns of a group.
    """
    n_rows, n_columns = shape
    row, column = start // n_columns, start % n_columns
    order = np.lexsort((row, columns, column, row // n_rows, tile))
    row, column = row[order], column[order]
    start, tile, rows, columns = start[order], tile[order], rows[order], columns[order]
    goes_on = (
        (tile[1:] == tile[:-1])
        & (column[1:] == column[:-1])
        & (columns[1:] == columns[:-1])
        & (row[1:] == row[:-1] + rows[:-1])
        & (row[1:] // n_rows == row[:-1] // n_rows)
    )
    first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    return start[first], tile[first], np.add.reduceat(rows, first), columns[first]
