"""Operations of two reports side by side: one figure of every operation, totals by kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilescope.analyser.diff.pairs import Pair, pairs, size_changes
from tilescope.analyser.operations import KindTotal, Operation, Operations

__all__ = ["MEASURES", "Measure", "OperationChange", "kind_changes", "operation_changes"]


@dataclass(frozen=True)
class Measure:
    """A figure of an operation that a comparison may be about."""

    label: str
    unit: str
    value: Callable[[Operation], int]


#: What a comparison of operations may be about.
MEASURES: dict[str, Measure] = {
    "cycles": Measure("Cycles", "cycles", lambda operation: operation.cycles),
    "flops": Measure("FLOPs", "", lambda operation: operation.flops),
    "always": Measure("Always live", "bytes", lambda operation: operation.always_live_bytes),
    "temporary": Measure("Temporary", "bytes", lambda operation: operation.temporary_bytes),
    "code": Measure("Code", "bytes", lambda operation: operation.code_bytes),
}


@dataclass(frozen=True)
class OperationChange:
    """An operation's figure on the sides that have it; ``key`` as in `Operations.by_key`."""

    key: str
    name: str
    operation: str
    baseline: int | None
    candidate: int | None
    delta: int


def operation_changes(
    baseline: Operations, candidate: Operations, measure: str
) -> tuple[OperationChange, ...]:
    """Return one figure of two reports' operations, the largest change first.

    Parameters
    ----------
    baseline, candidate
        Operations of the same layer.
    measure
        A name in ``MEASURES``.
    """
    value = MEASURES[measure].value
    sides = baseline.by_key, candidate.by_key
    known = {pair.key: pair.known for pair in pairs(*sides)}
    sizes = [{key: value(operation) for key, operation in side.items()} for side in sides]
    return tuple(
        OperationChange(
            change.key,
            known[change.key].name,
            known[change.key].operation,
            change.baseline,
            change.candidate,
            change.delta,
        )
        for change in size_changes(*sizes)
    )


def kind_changes(baseline: Operations, candidate: Operations) -> tuple[Pair[KindTotal], ...]:
    """Return the totals of two reports by kind of operation, in the order of the baseline."""
    baseline_by_kind, candidate_by_kind = (
        {total.operation: total for total in side.kinds} for side in (baseline, candidate)
    )
    return pairs(baseline_by_kind, candidate_by_kind)
