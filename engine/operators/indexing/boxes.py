"""NonMaxSuppression: the best boxes, without those that overlap a better one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.non_maximum_suppression import non_maximum_suppression
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.indexing.compaction import compacted
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.quantisation import as_type

__all__ = ["RECORDS"]

Array = NDArray[Any]


def _best_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    scores = node.operand(1)
    return [((*scores.shape[:2], node.attributes["n_best"]), "int32")]


def _best_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Return the indices of boxes, -1 after the last one."""
    corners, scores = arrays
    attributes = node.attributes
    result = np.full(_best_type(node)[0][0], -1, np.int32)
    low, high = corners[..., :2], corners[..., 2:]
    area = np.prod(high - low, axis=-1)
    for batch, kind in np.ndindex(*scores.shape[:2]):
        left = scores[batch, kind].astype(np.float64).copy()
        for k in range(attributes["n_best"]):
            best = int(left.argmax())
            if not left[best] > attributes["least_score"]:
                break
            result[batch, kind, k] = best
            sides = np.minimum(high[batch], high[batch, best]) - np.maximum(
                low[batch], low[batch, best]
            )
            shared = np.prod(np.maximum(sides, 0), axis=-1)
            union = area[batch] + area[batch, best] - shared
            left[shared > attributes["most_overlap"] * union] = -np.inf
            left[best] = -np.inf
    return [result]


def _lower_best(lowering: Lowering, op: Operation) -> Tensor:
    attributes = op.attributes
    return non_maximum_suppression(
        lowering.builder,
        lowering.tensor(op.operand(0)),
        lowering.tensor(op.operand(1)),
        attributes["n_best"],
        most_overlap=attributes["most_overlap"],
        least_score=attributes["least_score"],
    )


BEST_BOXES = Operator(
    name="non_maximum_suppression",
    domain=ENGINE_DOMAIN,
    infer=_best_type,
    evaluate=_best_array,
    lower=_lower_best,
    no_gradient="its results are positions",
)


def _corners(node: Node, expansion: Expansion, boxes: Value) -> Value:
    """Emit the lower corner of boxes, then the upper one."""
    first, second = along(expansion, boxes, 2, 0, 2), along(expansion, boxes, 2, 2, 4)
    if node.attributes.get("center_point_box", 0):
        half = binary(expansion, "multiply", second, scalar(expansion, 0.5, second))
        low, high = (binary(expansion, f, first, half) for f in ("subtract", "add"))
    else:
        low, high = (binary(expansion, f, first, second) for f in ("minimum", "maximum"))
    return joined(expansion, [low, high], 2)


def _number(node: Node, index: int, subject: str, usual: float) -> float:
    if node.optional(index) is None:
        return usual
    return float(node.known(index, subject).reshape(-1)[0])


def _suppression_axes(node: Node) -> tuple[int | None, ...]:
    is_known = node.operand(0).known is not None and node.operand(1).known is not None
    return () if is_known or not _most(node) else (0,)


def _most(node: Node) -> int:
    """Return how many boxes of a class are selected at most."""
    max_boxes = int(_number(node, 2, "the number of boxes", 0))
    return max(0, min(max_boxes, node.operand(0).shape[1]))


def _suppression(node: Node, expansion: Expansion) -> Value | tuple[Value, Value] | None:
    """Emit batch, class and box of every selected box, class by class.

    Raises
    ------
    BadModel
        When boxes and scores do not fit.
    """
    boxes, scores = node.operand(0), node.operand(1)
    fits = len(boxes.shape) == len(scores.shape) == 3 and boxes.shape[2] == 4
    if not fits or (boxes.shape[0], boxes.shape[1]) != (scores.shape[0], scores.shape[2]):
        raise BadModel(
            f"{node}: boxes of shape {boxes.shape} and scores of shape {scores.shape} do not fit:"
            " expected (batch, boxes, 4) and (batch, classes, boxes)"
        )
    if boxes.known is not None and scores.known is not None:
        return None
    max_boxes = _most(node)
    if not max_boxes:
        return expansion.constant(np.zeros((0, 3), np.int64))
    best = expansion.emit(
        BEST_BOXES,
        _corners(node, expansion, boxes),
        scores,
        n_best=max_boxes,
        most_overlap=_number(node, 3, "the largest overlap", 0.0),
        least_score=_number(node, 4, "the least score", float("-inf")),
    )
    n_batches, n_classes, n = best.shape
    flat = reshape(expansion, best, (n_batches * n_classes * n, 1))
    positions = np.indices((n_batches, n_classes, n))[:2].reshape(2, -1).T
    rows = joined(expansion, [expansion.constant(positions.astype(np.int32), "places"), flat], 1)
    is_box = binary(expansion, "greater_equal", flat, scalar(expansion, 0, flat))
    rows_, number = compacted(expansion, rows, reshape(expansion, is_box, (flat.shape[0],)))
    return as_type(expansion, rows_, "int64"), number


RECORDS = (
    BEST_BOXES,
    Operator(
        name="NonMaxSuppression",
        decompose=_suppression,
        counted=_suppression_axes,
        known_operands=(2, 3, 4),
    ),
)
