"""Operators that repeat or add elements, and cumulative sums along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import Expansion, Node, Operation, Operator, Parts, Value
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.library.popops.reduction.cumulative_sum import cumulative_sum
from tilescope.engine.library.popops.slicing.padding import pad
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import full, reshape
from tilescope.engine.operators.movement.slicing import UNSLICE, part
from tilescope.engine.operators.movement.take import put_back
from tilescope.engine.operators.parts import along_others, divided

__all__ = ["CUMULATIVE_SUM", "EXPAND", "RECORDS"]


def _lower_expand(lowering: Lowering, op: Operation) -> Tensor:
    x = lowering.tensor(op.operand(0))
    wide = x.broadcast_to(op.output.shape)
    return x if wide == x else row_major_copy(lowering.builder, wide, "expand")


def _tile(node: Node, expansion: Expansion) -> Value:
    """Emit a view with a dimension for the copies before every other, and join the two."""
    x = node.operand(0)
    if node.version < 6:
        raise BadModel(
            f"{node}: Tile of opset {node.version} repeats one axis; use opset 6 or later"
        )
    repeats = [int(n) for n in node.known(1, "the repeats").reshape(-1)]
    if len(repeats) != len(x.shape) or min(repeats, default=0) < 0:
        raise BadModel(
            f"{node}: repeats {repeats}: expected a number of at least 0 for every dimension of"
            f" {x.name!r}, shape {x.shape}"
        )
    pairs = list(zip(repeats, x.shape, strict=True))
    apart = reshape(expansion, x, tuple(size for _, n in pairs for size in (1, n)))
    wide = full(expansion, apart, tuple(size for pair in pairs for size in pair))
    return reshape(expansion, wide, tuple(n * size for n, size in pairs))


def _padding(op: Node) -> tuple[list[int], list[int], str, float]:
    """Return what is added before and after every dimension, how, and the constant."""
    rank, value = len(op.operand(0).shape), 0.0
    if op.version < 11:
        numbers = list(op.attributes["pads" if op.version > 1 else "paddings"])
        value = float(op.attributes.get("value", 0))
    else:
        numbers = [int(n) for n in op.known(1, "the padding").reshape(-1)]
        if op.optional(2) is not None:
            value = float(op.known(2, "the constant").reshape(-1)[0])
    axes = list(range(rank))
    if op.optional(3) is not None:
        axes = [op.axis(int(a), rank) for a in op.known(3, "the axes").reshape(-1)]
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = numbers[i], numbers[i + len(axes)]
    return before, after, op.attributes["mode"], value


def _lower_pad(lowering: Lowering, op: Operation) -> Tensor:
    before, after, mode, value = _padding(op)
    x = lowering.tensor(op.operand(0))
    return in_one(lowering.builder, pad(lowering.builder, x, before, after, mode, value), "pad")


def _lower_cumulative_sum(lowering: Lowering, op: Operation) -> Tensor:
    x = op.operand(0)
    axis = op.axis(int(op.known(1, "the axis").reshape(-1)[0]), len(x.shape))
    exclusive, reverse = (bool(op.attributes[name]) for name in ("exclusive", "reverse"))
    return cumulative_sum(
        lowering.builder, lowering.tensor(x), axis, exclusive=exclusive, reverse=reverse
    )


def _expand_parts(node: Node, axes: Mapping[int, int], n_parts: int) -> Parts | None:
    """Return the parts of what is broadcast to a shape that is known."""
    if set(axes) != {0}:
        return None
    shape = [int(n) for n in node.known(1, "the shape").reshape(-1)]
    own, axis = node.operand(0).shape, axes[0]
    place = len(shape) - len(own) + axis
    known = {}
    if place >= 0 and shape[place] != 1:
        known[1] = np.array(divided(shape, place, n_parts), np.int64)
    return Parts((max(place, axis),), known=known)


def _padded_along(node: Node) -> list[int]:
    before, after, *_ = _padding(node)
    return [d for d, sides in enumerate(zip(before, after, strict=True)) if any(sides)]


def _summed_along(node: Node) -> list[int]:
    rank = len(node.operand(0).shape)
    return [node.axis(int(node.known(1, "the axis").reshape(-1)[0]), rank)]


Gradients = Sequence[Value | None]


def _expand_gradient(op: Operation, expansion: Expansion, gradients: Gradients) -> Gradients:
    """Return the gradient as it is: what was broadcast is summed."""
    return full(expansion, gradients[0], op.output.shape), None


def _pad_gradient(op: Operation, expansion: Expansion, gradients: Gradients) -> Gradients:
    """Return the gradients of elements, and of their copies in the padding."""
    before, after, *_ = _padding(op)
    mode = op.attributes["mode"]
    gradient = full(expansion, gradients[0], op.output.shape)
    shape = op.operand(0).shape
    kept = [(max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, shape, strict=True)]
    if mode == "constant":
        starts = [max(0, b) for b in before]
        stops = [start + stop - begin for start, (begin, stop) in zip(starts, kept, strict=True)]
        inside = part(expansion, gradient, starts, stops)
        if min(before + after) >= 0:
            return [inside]
        slices = tuple(slice(begin, stop, 1) for begin, stop in kept)
        return [expansion.emit(UNSLICE, inside, shape=shape, slices=(slices,))]
    for axis, (begin, stop) in enumerate(kept):
        sides = (max(0, before[axis]), max(0, after[axis]))
        positions = np.pad(np.arange(begin, stop), sides, mode)
        if positions.tolist() != list(range(shape[axis])):
            gradient = put_back(expansion, [(gradient, positions.tolist())], shape[axis], axis)
    return [gradient]


def _cumulative_gradient(op: Operation, expansion: Expansion, gradients: Gradients) -> Gradients:
    gradient = full(expansion, gradients[0], op.output.shape)
    exclusive, reverse = op.attributes["exclusive"], op.attributes["reverse"]
    return (
        expansion.emit(
            CUMULATIVE_SUM, gradient, op.operand(1), exclusive=exclusive, reverse=1 - reverse
        ),
        None,
    )


EXPAND = Operator(
    name="Expand",
    lower=_lower_expand,
    known_operands=(1,),
    gradient=_expand_gradient,
    parts=_expand_parts,
)

CUMULATIVE_SUM = Operator(
    name="CumSum",
    lower=_lower_cumulative_sum,
    known_operands=(1,),
    gradient=_cumulative_gradient,
    parts=along_others(_summed_along),
)

RECORDS = (
    CUMULATIVE_SUM,
    EXPAND,
    Operator(
        name="Pad",
        lower=_lower_pad,
        known_operands=(1, 2, 3),
        gradient=_pad_gradient,
        parts=along_others(_padded_along),
    ),
    Operator(name="Tile", decompose=_tile, known_operands=(1,)),
)
