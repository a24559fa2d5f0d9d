"""Operators that repeat or add elements, and cumulative sums along an axis."""

from __future__ import annotations

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import Operation, Operator
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.library.popops.reduction.cumulative_sum import cumulative_sum
from tilescope.engine.library.popops.slicing.padding import pad
from tilescope.engine.lower import Lowering

__all__ = ["CUMULATIVE_SUM", "EXPAND", "RECORDS"]


def _lower_expand(lowering: Lowering, op: Operation) -> Tensor:
    x = lowering.tensor(op.operand(0))
    wide = x.broadcast_to(op.output.shape)
    return x if wide == x else row_major_copy(lowering.builder, wide, "expand")


def _lower_tile(lowering: Lowering, op: Operation) -> Tensor:
    x = op.operand(0)
    if op.version < 6:
        raise BadModel(f"{op}: Tile of opset {op.version} repeats one axis; use opset 6 or later")
    repeats = [int(n) for n in op.known(1, "the repeats").reshape(-1)]
    view = lowering.tensor(x)
    apart = [size for size_ in x.shape for size in (1, size_)]
    many = [size for size_, n in zip(x.shape, repeats, strict=True) for size in (n, size_)]
    wide = view.reshape(*apart).broadcast_to(many)
    return row_major_copy(lowering.builder, wide, "tile").reshape(*op.output.shape)


def _lower_pad(lowering: Lowering, op: Operation) -> Tensor:
    x = op.operand(0)
    rank, value = len(x.shape), 0.0
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
    padded = pad(lowering.builder, lowering.tensor(x), before, after, op.attributes["mode"], value)
    return in_one(lowering.builder, padded, "pad")


def _lower_cumulative_sum(lowering: Lowering, op: Operation) -> Tensor:
    x = op.operand(0)
    axis = op.axis(int(op.known(1, "the axis").reshape(-1)[0]), len(x.shape))
    exclusive, reverse = (bool(op.attributes[name]) for name in ("exclusive", "reverse"))
    return cumulative_sum(
        lowering.builder, lowering.tensor(x), axis, exclusive=exclusive, reverse=reverse
    )


EXPAND = Operator(name="Expand", lower=_lower_expand, known_operands=(1,))

CUMULATIVE_SUM = Operator(name="CumSum", lower=_lower_cumulative_sum, known_operands=(1,))

RECORDS = (
    CUMULATIVE_SUM,
    EXPAND,
    Operator(name="Pad", lower=_lower_pad, known_operands=(1, 2, 3)),
    Operator(name="Tile", lower=_lower_tile, known_operands=(1,)),
)
