"""Element sets of views: whether two views overlap, and whether one aliases elements."""

from __future__ import annotations

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.mapping.mapping import runs_of
from tilescope.engine.graph.tensor.joined import View
from tilescope.engine.graph.tensor.tensor import Tensor

__all__ = ["check_each_once", "share_elements"]


def check_each_once(where: str, target: View) -> None:
    """Raise BadGraph when a write target aliases elements.

    Raises
    ------
    BadGraph
        When the tensor is broadcast, or joins views that overlap.
    """
    for variable in target.variables:
        pieces = [piece for piece in target.pieces if piece.variable is variable]
        is_broadcast = any(
            stride == 0 for piece in pieces for size, stride in piece.atoms if size > 1
        )
        found = [runs_of(piece) for piece in pieces] if len(pieces) > 1 and not is_broadcast else []
        first = np.concatenate([runs for runs, _ in found]) if found else np.zeros(0, np.int64)
        order = np.argsort(first)
        end = np.concatenate([runs + n for runs, n in found])[order] if found else first
        if is_broadcast or (first[order][1:] < end[:-1]).any():
            raise BadGraph(
                f"{where} aliases elements of {variable.name!r}: none can be written twice"
            )


def share_elements(one: View, other: View) -> bool:
    """Return whether two views have an element in common."""
    shared = {*one.variables} & {*other.variables}
    return any(
        left.variable is right.variable and _meet(left, right)
        for left in one.pieces
        if left.variable in shared
        for right in other.pieces
    )


def _meet(one: Tensor, other: Tensor) -> bool:
    """Return whether two views on one variable have an element in common."""
    spans = []
    for tensor in (one, other):
        steps = [(size - 1) * stride for size, stride in tensor.atoms]
        low = tensor.offset + sum(min(step, 0) for step in steps)
        spans.append((low, tensor.offset + sum(max(step, 0) for step in steps)))
    if max(spans[0][0], spans[1][0]) > min(spans[0][1], spans[1][1]):
        return False
    (first, length), (start, size) = runs_of(one), runs_of(other)
    first = np.unique(first)
    # The last run that begins before another one ends must itself end before that one begins.
    before = np.searchsorted(first, start + size, side="left") - 1
    return bool((first[np.maximum(before, 0)] + length > start)[before >= 0].any())
