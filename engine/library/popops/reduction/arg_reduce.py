"""Positions of the largest or smallest elements along a dimension.

Every tile chooses candidates among its own elements of a row; then candidates of a row are compared
in one or more stages, on tiles that hold some of them.
Source: graphcore/poplibs sdk-release-3.4, include/popnn/Loss.hpp, argMax, argMin, maxAndArgMax and
minAndArgMin; lib/popnn/codelets/ReduceMaxClassGather.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.arg_reduce import ARG_GATHER, ARG_SPARSE
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, DType, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.mapping.mapping import tile_mapping_of
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import cast, copy_to, vector_elements
from tilescope.engine.library.popops.elementwise.partition import as_rows, strides_of

__all__ = ["arg_max", "arg_min", "max_and_arg_max", "min_and_arg_min"]

Counts = NDArray[np.int64]

#: Rows in shorter intervals on a tile are copied first: every interval is a vertex.
_SHORTEST_INTERVAL = 4  # Assumption: shorter ones cost more state than a copy.
#: Fewest elements of a worker: one more candidate costs as much in the next stage as one element.
_LEAST_SHARE = 8  # Assumption: as many as the start of a worker costs.
#: Most candidates that one vertex chooses from.
_MOST_CANDIDATES = 64  # Assumption: then a further stage costs less than the loop.


@checked
def arg_max(builder: Builder, x: View, dim: int, *, last: bool = False) -> Tensor:
    """Return the positions of the largest elements along a dimension, which the result lacks.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16, float32 or int32, any layout.
    dim
        The dimension.
    last
        Whether the last of equal elements is chosen; otherwise the first.

    Returns
    -------
    Tensor
        int32; one dimension fewer than `x`.

    Raises
    ------
    BadGraph
        If the dimension does not exist, or the type is not supported.
    """
    return _chosen(builder, "argMax", "max", (x, dim, last))[1]


@checked
def arg_min(builder: Builder, x: View, dim: int, *, last: bool = False) -> Tensor:
    """Return the positions of the smallest elements along a dimension, as `arg_max`.

    Raises
    ------
    BadGraph
        As for `arg_max`.
    """
    return _chosen(builder, "argMin", "min", (x, dim, last))[1]


@checked
def max_and_arg_max(
    builder: Builder, x: View, dim: int, *, last: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the largest elements along a dimension and their positions, as `arg_max`.

    Raises
    ------
    BadGraph
        As for `arg_max`.
    """
    values, indices = _chosen(builder, "maxAndArgMax", "max", (x, dim, last))
    return values if values.dtype == x.dtype else cast(builder, values, x.dtype), indices


@checked
def min_and_arg_min(
    builder: Builder, x: View, dim: int, *, last: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the smallest elements along a dimension and their positions, as `arg_max`.

    Raises
    ------
    BadGraph
        As for `arg_max`.
    """
    values, indices = _chosen(builder, "minAndArgMin", "min", (x, dim, last))
    return values if values.dtype == x.dtype else cast(builder, values, x.dtype), indices


@dataclass(frozen=True)
class _Candidates:
    """Candidates of rows, row by row.

    Parameters
    ----------
    values, indices
        Shape (n,).
    count : ndarray of int64, shape (n_rows,)
        Candidates per row.
    tile : ndarray of int32, shape (n,)
        Tile of every candidate.
    """

    values: Tensor
    indices: Tensor
    count: Counts
    tile: NDArray[np.int32]


def _chosen(
    builder: Builder, name: str, operation: str, call: tuple[View, int, bool]
) -> tuple[Tensor, Tensor]:
    """Return values, halves as floats, and positions."""
    x, dim, last = call
    check_dim(name, x, dim)
    if x.dtype not in (FLOAT16, FLOAT32, INT32):
        raise BadGraph(
            f"{name}: {x.name!r} is {x.dtype}: expected float16, float32 or int32; cast it"
        )
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    detail = {"shape": list(x.shape), "dim": dim, "last": last}
    n_rows = x.n_elements // x.shape[dim]
    flops = (x.n_elements - n_rows) * x.dtype.is_float
    build = builder.inside(name, f"popnn.{name}", detail, flops=flops)
    candidates = _gathered(build, operation, _rows_of(build, x, dim), last=last)
    stage = 0
    while stage == 0 or candidates.values.n_elements > n_rows:
        candidates = _compared(build, operation, candidates, f"reduce{stage}", last=last)
        stage += 1
    return candidates.values.reshape(*shape), candidates.indices.reshape(*shape)


def _rows_of(builder: Builder, x: View, dim: int) -> Tensor:
    """Return (rows, elements), copied if rows are in short intervals on the tiles."""
    n = x.shape[dim]
    order = [d for d in range(len(x.shape)) if d != dim]
    turned = x.dim_shuffle(*order, dim)
    rows = as_rows(builder, turned, len(order), "rearrange")
    rows = rows.reshape(rows.shape[0], n)
    n_intervals = tile_mapping_of(rows).start.size
    if n_intervals <= rows.shape[0] or n_intervals * _SHORTEST_INTERVAL <= rows.n_elements:
        return rows
    tensor = builder.graph.add_variable(x.dtype, rows.shape, "rows", builder.debug)
    is_whole = rows.shape[0] >= builder.tiles.ids.size
    builder.spread(tensor, grain=n if is_whole else vector_elements(builder.tiles.machine, x.dtype))
    copy_to(builder, rows, tensor, "rowsCopy")
    return tensor


def _gathered(builder: Builder, operation: str, rows: Tensor, *, last: bool) -> _Candidates:
    """Return the candidates of every interval of a row, on its own tile."""
    n_rows, n = rows.shape
    mapping = tile_mapping_of(rows)
    order = np.argsort(mapping.start)
    starts, tiles = mapping.start[order], mapping.tile[order]
    cuts = np.union1d(starts, np.arange(n_rows, dtype=np.int64) * n)
    tile = tiles[np.searchsorted(starts, cuts, side="right") - 1]
    size = np.diff(np.append(cuts, rows.n_elements))
    share = np.maximum(-(-size // builder.tiles.machine.n_worker_contexts), _LEAST_SHARE)
    count = -(-size // share)
    row, first = cuts // n, cuts % n
    by_row, by_element = strides_of(rows)
    first_of_group = np.cumsum(count) - count
    dtype = FLOAT32 if rows.dtype == FLOAT16 else rows.dtype
    owner = np.repeat(tile, count)
    values, indices = _added(builder, "candidate", dtype, owner)
    start = rows.offset + row * by_row + first * by_element
    fields = {
        "x": blocks(rows.variable, start, [size], [by_element], size.size),
        "values": blocks(values.variable, first_of_group, [count], [1], size.size),
        "indices": blocks(indices.variable, first_of_group, [count], [1], size.size),
    }
    scalars = {"offset": first, "share": share, "is_last": int(last)}
    compute_set = builder.compute_set("gather")
    builder.vertices(compute_set, ARG_GATHER[operation], tile, fields, scalars)
    by_rows = np.bincount(row, count, n_rows).astype(np.int64)
    return _Candidates(values, indices, by_rows, owner)


def _compared(
    builder: Builder, operation: str, candidates: _Candidates, name: str, *, last: bool
) -> _Candidates:
    """Return one candidate per group of those of a row; one per row if they are few."""
    few = candidates.count <= _MOST_CANDIDATES
    groups = np.where(few, 1, [isqrt(int(count)) for count in candidates.count])
    row = np.repeat(np.arange(groups.size), groups)
    nth = np.arange(row.size) - np.repeat(np.cumsum(groups) - groups, groups)
    before = np.cumsum(candidates.count) - candidates.count
    start = before[row] + nth * candidates.count[row] // groups[row]
    size = before[row] + (nth + 1) * candidates.count[row] // groups[row] - start
    tile = candidates.tile[start]
    values, indices = _added(builder, name, candidates.values.dtype, tile)
    position = np.arange(row.size)
    fields = {
        "values": blocks(candidates.values.variable, start, [size], [1], row.size),
        "indices": blocks(candidates.indices.variable, start, [size], [1], row.size),
        "value": blocks(values.variable, position, [1], [1], row.size),
        "index": blocks(indices.variable, position, [1], [1], row.size),
    }
    compute_set = builder.compute_set(name)
    scalars = {"is_last": int(last)}
    builder.vertices(compute_set, ARG_SPARSE[operation], tile, fields, scalars)
    return _Candidates(values, indices, groups, tile)


def _added(
    builder: Builder, name: str, dtype: DType, tile: NDArray[np.int32]
) -> tuple[Tensor, Tensor]:
    """Return variables for values and positions, one of each on every tile given."""
    batches = []
    for kind, suffix in ((dtype, "Values"), (INT32, "Indices")):
        variable = builder.graph.add_variable(kind, (tile.size,), name + suffix, builder.debug)
        builder.graph.set_tile_mapping(variable, np.arange(tile.size), tile)
        batches.append(variable)
    return batches[0], batches[1]
