"""Cumulative sums along a dimension, in segments over the tiles.

Every segment is summed on its tile; the sums of the segments are summed in the same way, and added
to the segments after them (G. Blelloch, Prefix Sums and Their Applications, CMU-CS-90-190, 1990).
PopLibs has no such function: PopART (willow/src/popx/op/cumsumx.cpp) multiplies by a triangular
matrix, which takes n² elements for rows of n.
"""

from __future__ import annotations

import math
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.cumulative_sum import ADD_CARRY, CUMULATIVE_SUM
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import cast, in_one, row_major_copy
from tilescope.engine.library.popops.elementwise.partition import strides_of
from tilescope.engine.machine import Machine

__all__ = ["cumulative_sum"]

Counts = NDArray[np.int64]

#: Shortest segment: shorter ones save less than the additional step costs.
_SHORTEST = 32  # Assumption: 32 elements take a worker 576 tile cycles, about one exchange


@checked
def cumulative_sum(
    builder: Builder, x: View, dim: int = 0, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Return the sums of the elements up to every one along a dimension.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16, float32 or int32; halves are summed as floats.
    dim
        The dimension.
    exclusive
        Whether an element's own value is left out.
    reverse
        Whether sums run from the end.

    Raises
    ------
    BadGraph
        If the dimension does not exist, or the type is not supported.
    """
    check_dim("cumulative_sum", x, dim)
    if x.dtype not in (FLOAT16, FLOAT32, INT32):
        raise BadGraph(
            f"cumulative_sum: {x.name!r} is {x.dtype}: expected float16, float32 or int32; cast it"
        )
    detail = {"shape": list(x.shape), "dim": dim, "exclusive": exclusive, "reverse": reverse}
    flops = x.n_elements * x.dtype.is_float
    build = builder.inside("cumulativeSum", "tilescope.cumulativeSum", detail, flops=flops)
    contiguous = in_one(build, x)
    if x.dtype == FLOAT16:
        contiguous = cast(build, contiguous, FLOAT32)
    if reverse:
        contiguous = contiguous.reverse(dim)
    other_dims = [d for d in range(len(x.shape)) if d != dim]
    turned = contiguous.dim_shuffle(*other_dims, dim)
    rows = _as_rows(build, turned, x.shape[dim])
    out = _scan(build, rows, is_exclusive=exclusive)
    sums = out.reshape(*turned.shape).dim_shuffle(*np.argsort([*other_dims, dim]).tolist())
    if reverse:
        sums = sums.reverse(dim)
    return cast(build, sums, x.dtype) if x.dtype == FLOAT16 else sums


def _as_rows(builder: Builder, turned: Tensor, n: int) -> Tensor:
    """Return a tensor as (rows, n) with one stride each; copy it if it needs to be."""
    shape = (prod(turned.shape[:-1]), n)
    if turned.can_reshape(*shape):
        rows = turned.reshape(*shape)
        if all(len(atom_list) == 1 for atom_list in rows.dims):
            return rows
    return row_major_copy(builder, turned, "rearrange").reshape(*shape)


def _segment(n_rows: int, n: int, machine: Machine) -> int:
    """Return the elements of a segment: one per worker, within limits.

    Rows stay whole where the busiest tile takes no longer then. Rows in segments take vertices of
    their own, one after the other: one for the equal segments of a tile, one for a shorter last.
    """
    n_tiles, n_workers = machine.n_tiles, machine.n_worker_contexts
    share = -(-n_rows * n // (n_tiles * n_workers))
    segment = min(n, max(share, min(math.isqrt(n - 1) + 1, 4 * _SHORTEST), _SHORTEST))
    n_segments = -(-n // segment)
    tiles_of_row = max(1, min(n_tiles // n_rows, n_segments))
    turns = -(-n_segments // (tiles_of_row * n_workers))
    of_segments = -(-n_rows // n_tiles) * (turns * segment + n % segment)
    return n if -(-n_rows // (n_tiles * n_workers)) * n <= of_segments else segment


def _scan(builder: Builder, x: Tensor, *, is_exclusive: bool) -> Tensor:
    """Return cumulative sums of the rows of (rows, n), row-major."""
    n_rows, n = x.shape
    machine = builder.tiles.machine
    segment = _segment(n_rows, n, machine)
    n_segments = -(-n // segment)
    graph = builder.graph
    out = graph.add_variable(x.dtype, (n_rows, n), "out", builder.debug)
    totals = graph.add_variable(x.dtype, (n_rows, n_segments), "totals", builder.debug)
    n_parts = min(n_rows * n_segments, machine.n_tiles)
    edges = np.arange(n_parts + 1, dtype=np.int64) * (n_rows * n_segments) // n_parts
    first = edges[:-1]
    first_element = first // n_segments * n + first % n_segments * segment
    graph.set_tile_mapping(out, first_element, builder.tiles.ids[:n_parts])
    graph.set_tile_mapping(totals, first, builder.tiles.ids[:n_parts])
    lengths = (segment, n - (n_segments - 1) * segment)
    start, count, columns, tile = _stretches(edges, n_segments, lengths, builder.tiles.ids)
    row, column = start // n_segments, start % n_segments
    size: list[Counts | int] = [1, count, columns] if n_segments > 1 else [count, 1, columns]
    by_row, by_element = strides_of(x)
    from_x = x.offset + row * by_row + column * segment * by_element
    to = row * n + column * segment
    held = blocks(out.variable, to, size, [n, segment, 1], start.size)
    strides = [by_row, segment * by_element, by_element]
    fields = {
        "x": blocks(x.variable, from_x, size, strides, start.size),
        "out": held,
        "total": blocks(totals.variable, start, size[:2], [n_segments, 1], start.size),
    }
    scalars = {"is_exclusive": int(is_exclusive)}
    builder.vertices(builder.compute_set("sum"), CUMULATIVE_SUM, tile, fields, scalars)
    if n_segments > 1:
        carry = _scan(builder, totals, is_exclusive=True)
        before = blocks(carry.variable, start, size[:2], [n_segments, 1], start.size)
        fields = {"out": held, "carry": before}
        builder.vertices(builder.compute_set("addCarry"), ADD_CARRY, tile, fields)
    return out


def _stretches(
    edges: Counts, n_segments: int, n_columns: tuple[int, int], ids: NDArray[np.int32]
) -> tuple[Counts, Counts, Counts, NDArray[np.int32]]:
    """Return first segments, numbers of segments, their elements, and tiles: ndarrays of int64.

    A stretch consists of segments of a row, of equal length, or of whole rows of one segment.

    Parameters
    ----------
    edges : ndarray of int64
        First segment of every tile, and the end.
    n_segments
        Segments of a row.
    n_columns
        Elements of a segment, and of the last one of a row.
    ids
        The tiles.
    """
    cuts = edges[:-1]
    if n_segments > 1:
        last = np.arange(n_segments - 1, edges[-1], n_segments, dtype=np.int64)
        cuts = np.union1d(np.union1d(cuts, last), last + 1)
        cuts = cuts[cuts < edges[-1]]
    count = np.diff(np.append(cuts, edges[-1]))
    columns = np.where(cuts % n_segments == n_segments - 1, n_columns[1], n_columns[0])
    return cuts, count, columns, ids[np.searchsorted(edges, cuts, side="right") - 1]
