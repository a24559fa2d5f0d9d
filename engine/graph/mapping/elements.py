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
        tensors = [tensor for tensor in target.pieces if tensor.variable is variable]
        is_broadcast = any(
            stride == 0 for tensor in tensors for size, stride in tensor.atoms if size > 1
        )
        tensor_runs = (
            [runs_of(tensor) for tensor in tensors] if len(tensors) > 1 and not is_broadcast else []
        )
        first = (
            np.concatenate([runs for runs, _ in tensor_runs])
            if tensor_runs
            else np.zeros(0, np.int64)
        )
        order = np.argsort(first)
        end = np.concatenate([runs + n for runs, n in tensor_runs])[order] if tensor_runs else first
        if is_broadcast or (first[order][1:] < end[:-1]).any():
            raise BadGraph(
                f"{where} aliases elements of {variable.name!r}: none can be written twice"
            )


def share_elements(first: View, second: View) -> bool:
    """Return whether two views have an element in common."""
    shared = {*first.variables} & {*second.variables}
    return any(
        left.variable is right.variable and _meet(left, right)
        for left in first.pieces
        if left.variable in shared
        for right in second.pieces
    )


def _meet(item: Tensor, second: Tensor) -> bool:
    """Return whether two views on one variable have an element in common."""
    spans = []
    for tensor in (item, second):
        steps = [(size - 1) * stride for size, stride in tensor.atoms]
        low = tensor.offset + sum(min(step, 0) for step in steps)
        spans.append((low, tensor.offset + sum(max(step, 0) for step in steps)))
    if max(spans[0][0], spans[1][0]) > min(spans[0][1], spans[1][1]):
        return False
    (first, length), (start, size) = runs_of(item), runs_of(second)
    first = np.unique(first)
    # The last run that begins before another one ends must itself end before that one begins.
    before = np.searchsorted(first, start + size, side="left") - 1
    return bool((first[np.maximum(before, 0)] + length > start)[before >= 0].any())
