"""Where the entries of a value that count lie in a result: the rules of families of operators.

See `Operator.carries`. A rule returns None where the operator needs all entries at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tilescope.engine.ir import Node

__all__ = ["along_other_axes", "elementwise", "reshaped", "rows", "same_axis"]

Axes = Mapping[int, int]
Shape = tuple[int, ...]


def elementwise(node: Node, axes: Axes, shape: Shape) -> int | None:
    """Return the axis if operands that are not counted have one entry along it."""
    from_end = {len(node.operand(i).shape) - axis for i, axis in axes.items()}
    if len(from_end) != 1:
        return None
    back = from_end.pop()
    for i, value in enumerate(node.inputs):
        if value is None or i in axes or len(value.shape) < back:
            continue
        if value.shape[-back] != 1:
            return None
    return len(shape) - back


def reshaped(node: Node, axes: Axes, shape: Shape) -> int | None:
    """Return the axis if other dimensions are joined, divided, added or dropped."""
    if set(axes) != {0}:
        return None
    input_shape, axis = node.operand(0).shape, axes[0]
    for d, size in enumerate(shape):
        if size == input_shape[axis] and prod(shape[:d]) == prod(input_shape[:axis]):
            return d
    return None


def same_axis(_: Node, axes: Axes, __: Shape) -> int | None:
    """Return the axis of the first operand, which alone is counted."""
    return axes[0] if set(axes) == {0} else None


def along_other_axes(node: Node, axes: Axes, shape: Shape) -> int | None:
    """Return the axis where an operator works along others only."""
    axis = same_axis(node, axes, shape)
    input_shape = node.operand(0).shape
    keeps = axis is not None and len(shape) == len(input_shape) and shape[axis] == input_shape[axis]
    return axis if keeps else None


def rows(node: Node, axes: Axes, shape: Shape) -> int | None:
    """Return the axis of a product, whose rows are those of its left operand."""
    if set(axes) != {0}:
        return None
    rank = len(node.operand(0).shape)
    is_row = axes[0] < rank - 1 and len(shape) == rank and not node.attributes.get("transA", 0)
    return axes[0] if is_row else None
