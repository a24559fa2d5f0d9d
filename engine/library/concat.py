"""Tensors joined along a dimension, by a copy: a tensor is a view on one variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.codelets.copy import COPY, COPY_BLOCK
from engine.errors import BadGraph
from engine.graph import ComputeSet, Tensor, Variable
from engine.graph.tensor import row_major
from engine.library.builder import Builder
from engine.library.elementwise import row_major_copy
from engine.library.spread import joint_walk

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
    # The joined dimension lies outermost, so that each part is one interval of the result.
    row = [parts[0].shape[d] for d in others]
    total = sum(part.shape[dim] for part in parts)
    dtype = parts[0].dtype
    made = build.graph.add_variable(dtype, [total, *row], "out", build.debug)
    build.graph.map_linearly(made, grain=max(1, 8 // dtype.n_bytes))
    turned = [part.dim_shuffle(dim, *others) for part in parts]
    ready = []
    for part in turned:
        window = _window(made.variable, 0, part.shape)
        is_ready = joint_walk([part], window) is not None
        ready.append(part if is_ready else row_major_copy(build, part, "rearrange"))
    compute_set = build.compute_set("concat")
    first = 0
    for part in ready:
        _copy_into(build, compute_set, part, made.variable, first)
        first += part.n_elements
    return made.dim_shuffle(*np.argsort([dim, *others]).tolist())


def _window(variable: Variable, first: int, shape: Sequence[int]) -> Tensor:
    """Return a tensor on its own that stands for the elements of a variable from `first` on."""
    window = replace(variable, shape=tuple(shape))
    last = first + window.n_elements
    low = int(np.searchsorted(variable.map_start, first, side="right")) - 1
    high = int(np.searchsorted(variable.map_start, last, side="left"))
    window.map_start = np.maximum(variable.map_start[low:high] - first, 0)
    window.map_tile = variable.map_tile[low:high]
    return Tensor(window, 0, row_major(shape))


def _copy_into(
    builder: Builder, compute_set: ComputeSet, part: Tensor, variable: Variable, first: int
) -> None:
    """Add the vertices that copy a part to the elements of a variable from `first` on."""
    walk = joint_walk([part], _window(variable, first, part.shape))
    if walk is None:
        raise BadGraph(f"{part.variable.name!r} cannot be walked in the order of the result")
    for is_block, tiles, (source, target) in walk.batches():
        shifted = replace(target, variable=variable, start=target.start + first)
        codelet = COPY_BLOCK if is_block else COPY
        builder.vertices(compute_set, codelet, tiles, {"x": source, "out": shifted})
