"""Non-maximum suppression: the best boxes of every class, without those that overlap a better one.

One round of a loop selects a box of every class at once and lowers the scores of those that overlap
it. PopLibs has no such function; everything here is a call of functions that it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT32, Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    copy_to,
    row_major_copy,
    select,
    unary,
)
from tilescope.engine.library.popops.reduction.arg_reduce import max_and_arg_max
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_update
from tilescope.engine.library.popops.slicing.gather import gather_nd
from tilescope.engine.program import Repeat, Sequence

__all__ = ["non_maximum_suppression"]


@dataclass(frozen=True)
class _Boxes:
    """Boxes of a batch.

    Parameters
    ----------
    corners
        Shape (batch, boxes, 4): the lower corner, then the upper one.
    area
        Shape (batch, 1, boxes).
    places
        Number of every box, shape (1, 1, boxes).
    """

    corners: Tensor
    area: Tensor
    places: Tensor

    def side(self, d: int) -> View:
        """Return a coordinate of all boxes, shape (batch, 1, boxes)."""
        n_batches, n, _ = self.corners.shape
        return self.corners.slice(2, d, d + 1).reshape(n_batches, n, 1).dim_shuffle(0, 2, 1)


@checked
def non_maximum_suppression(
    builder: Builder,
    corners: View,
    scores: View,
    n_best: int,
    *,
    most_overlap: float = 0.0,
    least_score: float = float("-inf"),
) -> Tensor:
    """Return the numbers of the best boxes of every class, best first, and -1 after the last one.

    Parameters
    ----------
    builder
        Target of the program.
    corners
        Shape (batch, boxes, 4), float32: the lower corner of every box, then its upper one.
    scores
        Shape (batch, classes, boxes), float32.
    n_best
        Number of boxes that are selected of a class at most.
    most_overlap
        Largest share that two selected boxes have in common: intersection over union.
    least_score
        Score that a selected box exceeds.

    Returns
    -------
    Tensor
        Shape (batch, classes, n_best), int32.

    Raises
    ------
    BadGraph
        If shapes or types do not fit, or `n_best` is not between 1 and the number of boxes.
    """
    _check(corners, scores, n_best)
    n_batches, n_classes, _ = scores.shape
    detail = {"boxes": list(corners.shape), "scores": list(scores.shape), "nBest": n_best}
    build = builder.inside("nonMaximumSuppression", "tilescope.nonMaximumSuppression", detail)
    boxes = _prepared(build, corners)
    left = row_major_copy(build, scores, "scores")
    counter = _constant(build, np.zeros(1, np.int32), "counter", is_variable=True)
    fill(build, counter, 0)
    selected = build.graph.add_variable(
        "int32", (n_best, n_batches * n_classes), "found", build.debug
    )
    build.spread(selected, grain=n_batches * n_classes)
    body = Sequence("body", debug=build.debug)
    inside = replace(build, sequence=body)
    chosen = _round(inside, boxes, left, most_overlap, least_score)
    row = chosen.reshape(1, n_batches * n_classes)
    dynamic_update(inside, selected, row, counter, [0])
    binary_in_place(inside, "add", counter, _constant(build, np.ones(1, np.int32), "one"))
    build.sequence.add(Repeat(n_best, body, "boxes", debug=build.debug))
    return selected.reshape(n_best, n_batches, n_classes).dim_shuffle(1, 2, 0)


def _check(corners: View, scores: View, n_best: int) -> None:
    """Raise BadGraph unless shapes, types and the number fit."""
    fits = len(corners.shape) == len(scores.shape) == 3 and corners.shape[2] == 4
    if not fits or (corners.shape[0], corners.shape[1]) != (scores.shape[0], scores.shape[2]):
        raise BadGraph(
            f"non_maximum_suppression: boxes {corners.shape} and scores {scores.shape}: expected"
            " (batch, boxes, 4) and (batch, classes, boxes)"
        )
    for view in (corners, scores):
        if view.dtype != FLOAT32:
            raise BadGraph(f"non_maximum_suppression: {view.name!r} is {view.dtype}: cast it first")
    if not 1 <= n_best <= scores.shape[2]:
        raise BadGraph(
            f"non_maximum_suppression: n_best is {n_best}: expected 1 to {scores.shape[2]}"
        )


def _constant(
    builder: Builder, values: np.ndarray[Any, Any], name: str, *, is_variable: bool = False
) -> Tensor:
    """Return a small constant, or a variable of its shape, on one tile."""
    graph = builder.graph
    if is_variable:
        tensor = graph.add_variable(values.dtype.name, values.shape, name, builder.debug)
    else:
        tensor = graph.add_constant(values, name, debug=builder.debug)
    graph.set_tile_mapping(tensor, [0], builder.tiles.ids[:1])
    return tensor


def _prepared(builder: Builder, corners: View) -> _Boxes:
    """Add the areas of the boxes, and their numbers."""
    row_major = row_major_copy(builder, corners, "corners")
    n_batches, n, _ = row_major.shape
    sides = binary(builder, "subtract", row_major.slice(2, 2, 4), row_major.slice(2, 0, 2))
    area = binary(builder, "multiply", sides.slice(2, 0, 1), sides.slice(2, 1, 2))
    numbers = builder.graph.add_constant(
        np.arange(n, dtype=np.int32).reshape(1, 1, n), "places", debug=builder.debug
    )
    builder.spread(numbers, grain=2)
    flat = row_major_copy(builder, area, "areas").reshape(n_batches, 1, n)
    return _Boxes(row_major, flat, numbers)


def _round(
    builder: Builder, boxes: _Boxes, left: Tensor, most_overlap: float, least_score: float
) -> Tensor:
    """Add the choice of a box of every class, which lowers the scores of those that overlap it."""
    n_batches, n_classes, _ = left.shape
    best, index = max_and_arg_max(builder, left, 2)
    least_score_tensor = _constant(builder, np.full(1, least_score, np.float32), "leastScore")
    is_box = binary(builder, "greater", best, least_score_tensor, best.shape)
    none = _constant(builder, np.full(1, -1, np.int32), "none")
    chosen = select(builder, index, none.broadcast_to(index.shape), is_box)
    best_corners = gather_nd(builder, boxes.corners, index.reshape(n_batches, n_classes, 1), 1)
    shared, area = _overlap(builder, boxes, best_corners)
    union = binary(builder, "subtract", binary(builder, "add", boxes.area, area), shared)
    share = _constant(builder, np.full((1, 1, 1), most_overlap, np.float32), "mostOverlap")
    is_over = binary(builder, "greater", shared, binary(builder, "multiply", union, share))
    is_self = binary(builder, "equal", boxes.places, index.reshape(n_batches, n_classes, 1))
    is_done = binary(builder, "logical_or", is_over, is_self)
    lowest = _constant(builder, np.full((1, 1, 1), -np.inf, np.float32), "lowest")
    copy_to(builder, select(builder, lowest, left, is_done), left, "left")
    return chosen


def _overlap(builder: Builder, boxes: _Boxes, corners: Tensor) -> tuple[Tensor, Tensor]:
    """Return what all boxes share with one of every class, and the area of that one."""
    lengths, sides = [], []
    for d in range(2):
        low, high = corners.slice(2, d, d + 1), corners.slice(2, d + 2, d + 3)
        begin = binary(builder, "maximum", boxes.side(d), low)
        end = binary(builder, "minimum", boxes.side(d + 2), high)
        lengths.append(unary(builder, "relu", binary(builder, "subtract", end, begin)))
        sides.append(binary(builder, "subtract", high, low))
    shared = binary(builder, "multiply", lengths[0], lengths[1])
    return shared, binary(builder, "multiply", sides[0], sides[1])
