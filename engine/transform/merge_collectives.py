"""Sums over replicas that travel together: the steps of a ring take long however little is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tilescope.engine.ir import Model, Operation, TrainingPass, Value, read_from_outside
from tilescope.engine.operators.collectives import ALL_REDUCE

__all__ = ["merge_collectives"]

#: Bytes of an IPU that sums travel with, at most: larger ones take as long apart, and the parts of
#: all that travel together take memory. Links carry that much in some 50 steps of a ring.
_MOST_BYTES = 1 << 24


def merge_collectives(model: Model) -> Model:
    """Return a model in which sums over replicas that follow each other are one operation.

    The sums of all IPUs travel at the same time. What reads a sum comes after all that travel with
    it: updates that lie between sums are held back.
    """
    operations = _merged(model.operations, is_staged=model.is_pipelined)
    closing = _merged(model.closing, is_staged=False)
    if operations is model.operations and closing is model.closing:
        return model
    return replace(model, operations=operations, closing=closing)


def _merged(operations: tuple[Operation, ...], *, is_staged: bool) -> tuple[Operation, ...]:
    """Return operations with sums together, of one stage where stages run at different times."""
    if sum(operation.operator is ALL_REDUCE for operation in operations) < 2:
        return operations
    done: list[Operation] = []
    waiting: list[Operation] = []
    held_back: list[Operation] = []
    late: set[Value] = set()

    def go() -> None:
        if waiting:
            done.append(waiting[0] if len(waiting) == 1 else _joined(waiting))
        done.extend(held_back)
        for pending in (waiting, held_back, late):
            pending.clear()

    for operation in operations:
        is_late = not late.isdisjoint(read_from_outside(operation))
        if operation.operator is ALL_REDUCE:
            if is_late or (waiting and not _may_join(waiting, operation, is_staged=is_staged)):
                go()
            waiting.append(operation)
            late.update(operation.results)
        elif is_late and operation.training_pass is TrainingPass.UPDATE:
            held_back.append(operation)
            late.update(operation.results)
        else:
            if is_late:
                go()
            done.append(operation)
    go()
    return tuple(done)


def _may_join(waiting: Sequence[Operation], operation: Operation, *, is_staged: bool) -> bool:
    """Return whether an operation is like those that wait, and an IPU has room for it."""
    first, ipu = waiting[0], operation.placement.ipu
    is_like = (
        first.attributes == operation.attributes
        and first.operand(0).dtype == operation.operand(0).dtype
        and not (is_staged and first.placement.stage != operation.placement.stage)
        and first.training_pass == operation.training_pass
    )
    beside = sum(_bytes_of(other) for other in waiting if other.placement.ipu == ipu)
    return is_like and beside + _bytes_of(operation) <= _MOST_BYTES


def _bytes_of(operation: Operation) -> int:
    def of(value: Value) -> int:
        return prod(value.shape) * np.dtype(value.dtype).itemsize

    return sum(map(of, operation.operands))


def _joined(waiting: Sequence[Operation]) -> Operation:
    first = waiting[0]
    return replace(
        first,
        name=f"{first.name}+{len(waiting) - 1}",
        inputs=tuple(value for operation in waiting for value in operation.inputs),
        outputs=tuple(value for operation in waiting for value in operation.outputs),
    )
