"""Rows of sparse tables that change their pattern: look-ups, and updates of the values they have.

As in graphcore/poplibs sdk-release-3.4, lib/popsparse/Embedding.cpp: the tile of a part of the
table compares its rows with all look-ups, and parts of rows are put together afterwards.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tilescope.engine.codelets.popsparse.look_up import LOOK_UP, UPDATE
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import INT32, Regions, Stage, Tensor, View, concat
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.dynamic_sparse import DynamicSparseTensor
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import cast, copy_together
from tilescope.engine.library.popops.reduction.reduce import reduce_with_output
from tilescope.engine.library.popops.slicing.multi_slice import flat_indices
from tilescope.engine.library.popsparse.fully_connected import pass_back, pass_buckets

__all__ = ["embedding_slice", "embedding_update_add"]


@checked
def embedding_slice(
    builder: Builder, table: DynamicSparseTensor, indices: View, name: str = "embeddingSlice"
) -> Tensor:
    """Return rows of a sparse table, with their zeros.

    Parameters
    ----------
    builder
        Target of the program.
    table
        Of `create_fully_connected_weights`, shape (n_outputs, n_inputs), of single values.
    indices
        Rows to look up, int32, one dimension. One out of range gives zeros.
    name
        Name of the call.

    Returns
    -------
    Tensor
        Shape (n_indices, n_inputs), a view.

    Raises
    ------
    BadGraph
        If the table has blocks, or the indices are not such.
    """
    build, parts, lookups = _call(builder, table, indices, name, "popsparse.embeddingSlice")
    plan, n_lookups = table.plan, int(lookups.shapes[0][0, 0])
    n_columns = plan.shape.n_columns
    shape = (plan.x_parts, n_lookups * n_columns)
    sums = build.graph.add_variable(table.values.dtype, shape, "partials", build.debug)
    slices = parts.slices(sums, n_lookups, by_rows=True)
    build.graph.set_tile_mapping(sums, slices.start, parts.tile)
    fill(build, sums, 0)

    def look_up(body: Builder, moved: list[Tensor]) -> None:
        values, places = (parts.bucket(tensor) for tensor in moved)
        fields = {"values": values, "places": places, "lookups": lookups, "slices": slices}
        vertices = body.compute_set("lookUp", Stage.COMPUTE)
        body.vertices(vertices, LOOK_UP, parts.tile, fields, parts.scalars)

    buckets = [table.values, table.places]
    look_up(build, buckets)
    pass_buckets(build, table.steps, buckets, [], look_up)
    if plan.x_parts == 1:
        out = sums.reshape(shape[1])
    else:
        out = build.graph.add_variable(table.values.dtype, shape[1:], "slices", build.debug)
        reduce_with_output(build, "sum", sums, out, [0])
    rows = concat(parts.by_columns(out, n_lookups), 1)
    if isinstance(rows, Tensor):
        return rows
    whole = build.graph.add_variable(rows.dtype, rows.shape, "rows", build.debug)
    build.spread(whole, grain=n_columns)
    copy_together(build, [(rows, whole)], "rows")
    return whole


@checked
def embedding_update_add(
    builder: Builder,
    table: DynamicSparseTensor,
    slices: View,
    indices: View,
    scale: Tensor | float,
    name: str = "embeddingUpdateAdd",
) -> None:
    """Add rows, times a scale, to the values that the rows of a sparse table have.

    Parameters
    ----------
    builder
        Target of the program.
    table, indices, name
        As for `embedding_slice`. A row that is there several times is added to several times.
    slices
        Shape (n_indices, n_inputs), of the type of the table. What the table has no value for is
        left out.
    scale
        A number, or a tensor of one float.

    Raises
    ------
    BadGraph
        If the table has blocks, or the operands are not such.
    """
    wanted = (indices.shape[0] if indices.shape else 0, table.params.n_inputs)
    if tuple(slices.shape) != wanted or slices.dtype != table.values.dtype:
        raise BadGraph(
            f"{name}: {slices.name!r} is {slices.dtype} of shape {tuple(slices.shape)}: expected"
            f" {table.values.dtype} of shape {wanted}"
        )
    build, parts, lookups = _call(builder, table, indices, name, "popsparse.embeddingUpdateAdd")
    n_lookups = wanted[0]
    flat = build.graph.add_variable(slices.dtype, (slices.n_elements,), "slices", build.debug)
    regions = parts.slices(flat, n_lookups, by_rows=False)
    is_first = parts.x == 0
    build.graph.set_tile_mapping(flat, regions.start[is_first], parts.tile[is_first])
    targets = parts.by_columns(flat, n_lookups)
    edges = np.cumsum([0, *(target.shape[1] for target in targets)]).tolist()
    sources = [slices.slice(1, *pair) for pair in pairwise(edges)]
    copy_together(build, list(zip(sources, targets, strict=True)), "slices")
    factor = scale if isinstance(scale, Tensor) else build.constant([float(scale)], "scale")
    if factor.dtype.name != "float32":
        factor = cast(build, factor, "float32")
    of_scale = blocks(factor.variable, factor.offset, [1], [1], parts.tile.size)

    def update(body: Builder, moved: list[Tensor]) -> None:
        places, values = (parts.bucket(tensor) for tensor in moved)
        fields = {
            "values": values,
            "places": places,
            "lookups": lookups,
            "slices": regions,
            "scale": of_scale,
        }
        vertices = body.compute_set("update", Stage.COMPUTE)
        body.vertices(vertices, UPDATE, parts.tile, fields, parts.scalars)

    update(build, [table.places, table.values])
    passing = pass_buckets(build, table.steps, [table.places], [table.values], update)
    if passing is not None:
        pass_back(passing, table.steps, [table.values])


class _Parts:
    """The first tile of every part of a table, and what it reads."""

    def __init__(self, build: Builder, table: DynamicSparseTensor) -> None:
        self._plan = plan = table.plan
        self.x, self._y = np.indices((plan.x_parts, plan.y_parts)).reshape(2, -1)
        self._part = np.arange(plan.n_parts)
        self.tile = np.asarray(build.tiles.ids)[self._part * plan.z_parts]
        ends = np.minimum(np.arange(1, plan.y_parts + 1) * plan.columns, plan.shape.n_columns)
        self._widths = np.diff(ends, prepend=0)

    @property
    def scalars(self) -> dict[str, object]:
        """Of the vertices."""
        return {
            "part": self._part,
            "first_row": self.x * self._plan.rows,
            "width": self._widths[self._y],
        }

    def bucket(self, of: Tensor) -> Regions:
        """Return the bucket of every part."""
        size = of.n_elements // self._plan.n_parts
        return blocks(of.variable, of.offset + self._part * size, [size], [1], self._part.size)

    def slices(self, of: Tensor, n_lookups: int, *, by_rows: bool) -> Regions:
        """Return the columns of all look-ups of every part; of every part of rows if wanted."""
        start = self._y * self._plan.columns * n_lookups
        if by_rows:
            start = start + self.x * n_lookups * self._plan.shape.n_columns
        size = self._widths[self._y] * n_lookups
        return blocks(of.variable, start, [size], [1], self._part.size)

    def by_columns(self, flat: Tensor, n_lookups: int) -> list[View]:
        """Return the rows of look-ups in parts of columns, which are after each other."""
        ends = np.cumsum(self._widths) * n_lookups
        return [
            flat.slice(0, int(end - width * n_lookups), int(end)).reshape(n_lookups, int(width))
            for end, width in zip(ends, self._widths, strict=True)
        ]


def _call(
    builder: Builder, table: DynamicSparseTensor, indices: View, name: str, operation: str
) -> tuple[Builder, _Parts, Regions]:
    """Return the builder of a call, the parts of its table, and the look-ups of every part.

    Raises
    ------
    BadGraph
        If the table has blocks, or the indices are not such.
    """
    size = table.plan.shape.block_size
    if size != 1:
        raise BadGraph(
            f"{name}: {table.values.name!r} has blocks of {size} x {size}: only tables of single"
            " values are supported; use a block_size of 1"
        )
    if indices.dtype != INT32 or len(indices.shape) != 1 or not indices.shape[0]:
        raise BadGraph(
            f"{name}: {indices.name!r} is {indices.dtype} of shape {tuple(indices.shape)}: expected"
            " int32 of one dimension, one at least"
        )
    detail = {"table": list(table.plan.shape.grid), "indices": list(indices.shape)}
    build = builder.inside(name, operation, detail)
    flat, parts = flat_indices(build, indices), _Parts(build, table)
    ((_, step),) = flat.dims[1]
    if step != 1 and flat.shape[1] > 1:
        raise BadGraph(f"{name}: {indices.name!r} has a stride: copy it first")
    lookups = blocks(flat.variable, flat.offset, [flat.shape[1]], [1], parts.tile.size)
    return build, parts, lookups
