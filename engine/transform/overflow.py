"""Overflow counted: how many values of a training step are beyond half, by pass.

A value that an operation computes in half counts where it is infinite or not a number. What only
moves values is not counted again. The counts of a step, or of a micro-batch, are outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import (
    Expansion,
    IrBuilder,
    Model,
    Node,
    Operation,
    TrainingPass,
    Value,
)
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.elementwise.mapped import MAP, call, operand
from tilescope.engine.operators.movement.dynamic_slicing import DYNAMIC_SLICE, DYNAMIC_UNSLICE
from tilescope.engine.operators.movement.layout import BROADCAST, RESHAPE, TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import CONCAT, SLICE, UNSLICE
from tilescope.engine.operators.movement.take import TAKE
from tilescope.engine.operators.reduction import reduced

__all__ = ["COUNTED_PASSES", "OVERFLOW", "count_overflows"]

#: Before the name of a pass, in that of the output that has its count.
OVERFLOW = "Overflows___"

#: Passes whose results are counted: activations, their gradients, and those of weights.
COUNTED_PASSES = (
    TrainingPass.FORWARD,
    TrainingPass.DATA_GRADIENT,
    TrainingPass.WEIGHT_GRADIENT,
)

#: Operators that move values and compute none.
_MOVES = frozenset(
    operator.key
    for operator in (
        BROADCAST,
        CONCAT,
        DYNAMIC_SLICE,
        DYNAMIC_UNSLICE,
        RESHAPE,
        SLICE,
        TAKE,
        TRANSPOSE,
        UNSLICE,
    )
)


def count_overflows(model: Model) -> Model:
    """Return the model with the counts of its passes as outputs, if it is to count them.

    An output is a float32 scalar called `OVERFLOW` and the name of the pass; a pass that computes
    nothing in half has none.

    Raises
    ------
    BadOption
        When the model computes nothing in half.
    """
    if not model.counts_overflows:
        return model
    counter = _Counter(model.name)
    for operation in model.operations:
        counter.operations.append(operation)
        counter.count(operation)
    if not counter.totals:
        raise BadOption(
            f"{model.name!r} computes nothing in half, so that no overflow can be counted: compute"
            " in half, or count none"
        )
    counts = tuple((OVERFLOW + kind, total) for kind, total in counter.totals.items())
    return replace(
        model,
        operations=tuple(counter.operations),
        outputs=(*model.outputs, *counts),
        counts_overflows=False,
    )


class _Counter(IrBuilder):
    """Counts what operations compute, right behind them.

    Attributes
    ----------
    totals
        Counts so far, by pass.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.totals: dict[TrainingPass, Value] = {}
        self._counted: Operation | None = None

    def count(self, operation: Operation) -> None:
        """Add up the overflows in the results of an operation."""
        kind = operation.training_pass
        if kind not in COUNTED_PASSES or operation.operator.key in _MOVES:
            return
        self._counted = operation
        for value in operation.results:
            if value.dtype != "float16" or not prod(value.shape):
                continue
            node = Node(operator=MAP, name=operation.name, source="Overflow", inputs=())
            expansion = Expansion(self, node, OVERFLOW + value.name)
            number = _number_beyond(expansion, value)
            total = self.totals.get(kind)
            self.totals[kind] = number if total is None else binary(expansion, "add", total, number)

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        counted = self._counted
        assert counted is not None
        origin = counted.origin or counted
        return super().add(
            replace(node, origin=origin, training_pass=counted.training_pass), outputs
        )


def _number_beyond(expansion: Expansion, value: Value) -> Value:
    """Emit the number of elements of a value that are infinite or no numbers: a float32 scalar."""
    # A comparison with what is no number does not hold.
    is_within = call("less_equal", call("absolute", operand(0)), float(np.finfo(np.float16).max))
    marks = expansion.emit(MAP, value, expression=call("select", 0.0, 1.0, is_within))
    wide = expansion.emit(CAST, marks, dtype="float32")
    if not value.shape:
        return wide
    return reshape(expansion, reduced(expansion, "sum", wide, range(len(value.shape))), ())
