"""What operations are on parts of a batch: the rules of families of operators.

See `Operator.parts`. A rule takes a node, the axes along which its operands are in parts, by
position, and the number of parts; it returns None where the operator needs the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from tilescope.engine.ir import Node, Operation, Parts, PartsRule

__all__ = [
    "Axes",
    "along_others",
    "broadcast",
    "by_entry",
    "divided",
    "entries",
    "images",
    "parts_of",
    "reshaped_parts",
    "rows",
    "window",
]

#: The axes along which operands are in parts, by position.
Axes = Mapping[int, int]


def parts_of(operation: Operation, axes: Axes, n_parts: int) -> Parts | None:
    """Return what an operation is on equal parts; None where it needs the whole.

    Parameters
    ----------
    operation
        On the whole.
    axes
        By position: the axis along which an operand is in parts; without any, it needs the whole.
    n_parts
        Number of parts.
    """
    rule = operation.operator.parts
    found = (
        None if rule is None or operation.regions or not axes else rule(operation, axes, n_parts)
    )
    if found is None:
        return None
    divided_ = [(operation.operand(i), axis) for i, axis in found.cut.items()]
    pairs = zip(operation.outputs, found.axes, strict=False)
    divided_ += [(value, axis) for value, axis in pairs if value is not None]
    return found if all(value.shape[axis] % n_parts == 0 for value, axis in divided_) else None


def broadcast(node: Node, axes: Axes, _: int) -> Parts | None:
    """Return the parts of an operator that broadcasts its operands, element by element."""
    shapes = [None if value is None else value.shape for value in node.inputs]
    return broadcast_parts(shapes, axes)


def broadcast_parts(shapes: Sequence[tuple[int, ...] | None], axes: Axes) -> Parts | None:
    """Return the parts of what broadcasts operands of such shapes, None for those left out."""
    from_end = {len(shapes[i] or ()) - axis for i, axis in axes.items()}
    if len(from_end) != 1:
        return None
    (back,) = from_end
    size = {(shapes[i] or ())[axis] for i, axis in axes.items()}
    if len(size) != 1:
        return None
    cut = {}
    for i, shape in enumerate(shapes):
        if i not in axes and shape is not None and len(shape) >= back and shape[-back] != 1:
            cut[i] = len(shape) - back
    rank = max(len(shape) for shape in shapes if shape is not None)
    return Parts((rank - back,), cut=cut)


def divided(shape: Sequence[int], axis: int, n_parts: int) -> tuple[int, ...]:
    """Return a shape with its size along an axis divided."""
    return (*shape[:axis], shape[axis] // n_parts, *shape[axis + 1 :])


def by_entry(operands: Mapping[int, int], results: Sequence[int]) -> PartsRule:
    """Return the rule of an operator that computes entry by entry along one axis.

    Parameters
    ----------
    operands
        Axes of operands by position; those that are given and not in parts are cut.
    results
        Axes of the results.
    """

    def rule(node: Node, axes: Axes, _: int) -> Parts | None:
        return entries(node, axes, operands, results)

    return rule


def entries(
    node: Node, axes: Axes, operands: Mapping[int, int], results: Sequence[int]
) -> Parts | None:
    """Return the parts of a node that computes entry by entry along an axis of each operand."""
    if any(operands.get(i) != axis for i, axis in axes.items()):
        return None
    given = {i: axis for i, axis in operands.items() if node.optional(i) is not None}
    cut = {i: axis for i, axis in given.items() if i not in axes}
    return Parts(tuple(results), cut=cut)


#: Rules of operators on images, and on rows: one operand along its first axis.
images = by_entry({0: 0}, (0,))


def rows(n_operands: int, n_results: int = 1) -> PartsRule:
    """Return the rule of an operator on the rows of its first operands."""
    return by_entry(dict.fromkeys(range(n_operands), 0), (0,) * n_results)


def window(_node: Node, axes: Axes, _: int) -> Parts | None:
    """Return the parts of a pool: of images, or of their channels."""
    axis = axes.get(0, 2)
    return Parts((axis,)) if axis < 2 and set(axes) == {0} else None


def along_others(worked_along: Callable[[Node], Collection[int]], n_results: int = 1) -> PartsRule:
    """Return the rule of an operator that keeps the axes of its operand and works along some."""

    def rule(node: Node, axes: Axes, _: int) -> Parts | None:
        axis = axes.get(0)
        if set(axes) != {0} or axis is None or axis in worked_along(node):
            return None
        return Parts((axis,) * n_results)

    return rule


def reshaped_parts(
    own: Sequence[int], axis: int, shape: Sequence[int], n_parts: int
) -> tuple[int, tuple[int, ...]] | None:
    """Return the axis of a reshaped operand's parts, and the shape of one; None without one."""
    before = prod(own[:axis])
    for d, size in enumerate(shape):
        if prod(shape[:d]) == before and size and size % n_parts == 0:
            return d, divided(shape, d, n_parts)
    return None
