"""Tensors joined along a dimension, by a copy: a tensor is a view on one variable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.codelets.copy import COPY, COPY_BLOCK
from engine.errors import BadGraph
from engine.graph import Tensor
from engine.library.builder import Builder
from engine.library.elementwise import row_major_copy
from engine.library.spread import joint_walk
from engine.library.vertex_choice import choose_vertices

__all__ = ["concat"]


def concat(builder: Builder, parts: Sequence[Tensor], dim: int) -> Tensor:
    """Return a new tensor that holds the parts one after the other along a dimension.

    Parameters
    ----------
    parts
        Of one type, and of one shape but for that dimension; any layouts.
    dim
        The dimension, from 0.

    Raises
    ------
    BadGraph
        When there are no parts, or they do not agree.
    """
    if not parts:
        raise BadGraph("There is nothing to concatenate: give at least one tensor")
    rank = len(parts[0].shape)
    if not 0 <= dim < rank:
        raise BadGraph(f"Tensors of shape {parts[0].shape} have no dimension {dim} to join along")
    others = [d for d in range(rank) if d != dim]
    for part in parts:
        same = len(part.shape) == rank and all(part.shape[d] == parts[0].shape[d] for d in others)
        if not same or part.dtype != parts[0].dtype:
            raise BadGraph(
                f"{part.dtype} {part.shape} cannot be joined to {parts[0].dtype}"
                f" {parts[0].shape} along dimension {dim}"
            )
    shapes = [list(part.shape) for part in parts]
    build = builder.inside("concat", "popops.concat", {"shapes": shapes, "dim": dim})
    before = build.inside("arrange", "popops.copy")
    # The joined dimension lies outermost, so that each part is one interval of the result.
    row = [parts[0].shape[d] for d in others]
    total = sum(part.shape[dim] for part in parts)
    dtype = parts[0].dtype
    made = build.graph.add_variable(dtype, [total, *row], "out", build.debug)
    build.graph.map_linearly(made, grain=max(1, 8 // dtype.n_bytes))
    compute_set = build.compute_set("concat")
    first = 0
    for part in parts:
        turned = part.dim_shuffle(dim, *others)
        target = made.slice(0, first, first + part.shape[dim])
        walk = joint_walk([turned], target)
        if walk is None:
            turned = row_major_copy(before, turned, "rearrange")
            walk = joint_walk([turned], target)
        if walk is None:
            raise BadGraph(f"{part.variable.name!r} cannot be walked in the order of the result")
        for is_block, tiles, regions in walk.batches():
            codelet = COPY_BLOCK if is_block else COPY
            machine = build.graph.machine
            for chosen, where, fields in choose_vertices(
                "concat", codelet, tiles, regions, machine
            ):
                build.vertices(compute_set, chosen, where, fields)
        first += part.shape[dim]
    return made.dim_shuffle(*np.argsort([dim, *others]).tolist())
