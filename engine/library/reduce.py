"""Reductions over dimensions, in one stage or two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tilescope.engine.codelets.reduce import REDUCE
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import BOOL, Tensor, View, blocks
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.elementwise import in_one, row_major_copy
from tilescope.engine.library.walk import cut_rows, joint_walk

__all__ = ["reduce"]

#: Reductions of more elements per vertex are split over several tiles first.
_SPLIT_ABOVE = 256


@checked
def reduce(
    builder: Builder, operation: str, x: View, dims: Sequence[int], scale: float = 1.0
) -> Tensor:
    """Reduce over `dims` and multiply by `scale`; the reduced dimensions keep size 1.

    Parameters
    ----------
    operation
        ``sum``, ``maximum``, ``minimum`` or ``product``.
    x
        Any layout.
    dims
        Dimensions to reduce.
    scale
        Factor of the result, for means.

    Raises
    ------
    BadGraph
        If the operation or a dimension is unknown, or the type is not supported.
    """
    refuse_float8("a reduction", x)
    if operation not in REDUCE:
        raise BadGraph(f"Unknown reduction {operation!r}; use one of {', '.join(REDUCE)}")
    if operation == "sum" and x.dtype == BOOL:
        raise BadGraph(f"{x.name!r} is bool: cast it to int32 first to count true values")
    detail = {"operation": operation, "shape": list(x.shape), "dims": list(dims), "scale": scale}
    reduced = sorted(dims)
    kept = [d for d in range(len(x.shape)) if d not in reduced]
    n_reduced = prod(x.shape[d] for d in reduced)
    n_kept = prod(x.shape[d] for d in kept)
    flops = n_kept * (n_reduced - 1 + (scale != 1)) * x.dtype.is_float
    build = builder.inside("reduce", "popops.reduce", detail, flops=flops)
    x = in_one(build, x)
    shape = [1 if d in reduced else size for d, size in enumerate(x.shape)]
    flat = x.dim_shuffle(*kept, *reduced)
    view = flat.reshape(n_kept, n_reduced)
    out = _stages(build, operation, view, scale)
    return out.reshape(*shape)


def _stages(builder: Builder, operation: str, x: Tensor, scale: float) -> Tensor:
    """Reduce the second dimension of [kept, reduced]; a long sum uses partial sums."""
    n_kept, n_reduced = x.shape
    parts = _split(x, builder.tiles.n_tiles)
    if parts > 1:
        partial_view = x.reshape(n_kept * parts, n_reduced // parts)
        partials = _one_stage(builder, "reduceStage1", operation, partial_view, 1.0)
        x = partials.reshape(n_kept, parts)
        return _one_stage(builder, "reduceStage2", operation, x, scale)
    return _one_stage(builder, "reduce", operation, x, scale)


def _split(x: Tensor, n_tiles: int) -> int:
    """Return the number of parts of a reduction that avoids idle tiles."""
    n_kept, n_reduced = x.shape
    if n_reduced <= _SPLIT_ABOVE or n_kept * 2 > n_tiles:
        return 1
    wanted = min(n_tiles // n_kept, int(np.sqrt(n_reduced)))
    return max(
        part
        for part in range(1, wanted + 1)
        if n_reduced % part == 0 and x.can_reshape(n_kept * part, n_reduced // part)
    )


def _one_stage(builder: Builder, name: str, operation: str, x: Tensor, scale: float) -> Tensor:
    n_kept = x.shape[0]
    reduced_atoms = replace(x, dims=x.dims[1:]).atoms
    if len(reduced_atoms) > 2:
        x = row_major_copy(builder, x, f"{name}/rearrange")
        reduced_atoms = replace(x, dims=x.dims[1:]).atoms
    outer, inner = ([(1, 0)] * 2 + list(reduced_atoms))[-2:]
    out = builder.graph.add_variable(x.dtype, (n_kept,), name, builder.debug)
    builder.spread(out)
    first = Tensor(x.variable, x.offset, (x.dims[0],))
    walk = joint_walk([first], out)
    if walk is None:  # the strides of single dimensions are always compatible
        raise AssertionError(x.dims)
    pieces = cut_rows(out.variable, walk.sizes[-1], 1)
    source, target = walk.starts(pieces.start)
    n = pieces.n_pieces
    fields = {
        "x": blocks(
            x.variable,
            source,
            [pieces.n_columns, outer[0], inner[0]],
            [walk.strides[0][-1], outer[1], inner[1]],
            n,
        ),
        "out": blocks(out.variable, target, [pieces.n_columns], [1], n),
    }
    compute_set = builder.compute_set(name)
    builder.vertices(compute_set, REDUCE[operation], pieces.tile, fields, {"scale": scale})
    return out
