"""Operations of two reports side by side: one figure of every operation, totals by kind."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from itertools import count

from tilescope.analyser.diff.alignment.calls import align_calls
from tilescope.analyser.diff.alignment.pairs import Pair, pairs
from tilescope.analyser.program.call_tree import CallTree
from tilescope.analyser.program.contexts import DebugContext
from tilescope.analyser.program.operations import KindTotal, Operation, Operations
from tilescope.analyser.quantities import per_run, percent_of

__all__ = [
    "MEASURES",
    "Measure",
    "OperationChange",
    "kind_changes",
    "operation_changes",
    "operation_pairs",
]


@dataclass(frozen=True)
class Measure:
    """A figure of an operation that a comparison may be about.

    ``is_sum_of_runs`` says that it grows with the number of recorded runs; it is compared per run.
    """

    label: str
    unit: str
    value: Callable[[Operation], int]
    is_sum_of_runs: bool = False


#: What a comparison of operations may be about.
MEASURES: dict[str, Measure] = {
    "cycles": Measure("Cycles", "cycles", lambda operation: operation.cycles, True),
    "flops": Measure("FLOPs", "", lambda operation: operation.flops, True),
    "always": Measure("Always live", "bytes", lambda operation: operation.always_live_bytes),
    "temporary": Measure("Temporary", "bytes", lambda operation: operation.temporary_bytes),
    "code": Measure("Code", "bytes", lambda operation: operation.code_bytes),
}


@dataclass(frozen=True)
class OperationChange:
    """An operation's figure on the sides that have it.

    Attributes
    ----------
    key
        That of the baseline in `Operations.by_key`; of an operation that only the candidate has,
        its key there, with a number if that is taken.
    name
        Name in the baseline, else in the candidate.
    candidate_name
        Name in the candidate, which may have been renamed; None if it does not have it.
    """

    key: str
    name: str
    operation: str
    baseline: int | float | None
    candidate: int | float | None
    delta: int | float
    candidate_name: str | None = None

    @property
    def percent_of_baseline(self) -> float | None:
        """Change in percent of the baseline; None if that is missing or 0."""
        return percent_of(self.baseline, self.delta)


def operation_pairs(baseline: Operations, candidate: Operations) -> tuple[Pair[Operation], ...]:
    """Return the operations of two reports, aligned by structure; the order of the baseline first.

    Parameters
    ----------
    baseline, candidate
        Operations of the same layer.
    """
    pairs = align_calls(*(_tree(side) for side in (baseline, candidate))).pairs
    candidate_operations = {
        operation.debug_context_id: operation for operation in candidate.operations
    }
    pairs_, known = [], set()
    for key, operation in baseline.by_key.items():
        partner = candidate_operations.pop(pairs.get(operation.debug_context_id, -1), None)
        pairs_.append(Pair(key, operation, partner))
        known.add(key)
    for key, operation in candidate.by_key.items():
        if operation.debug_context_id in candidate_operations:
            free = _free_key(key, operation.name, known)
            known.add(free)
            pairs_.append(Pair(free, None, operation))
    return tuple(pairs_)


def _free_key(key: str, name: str, known: Container[str]) -> str:
    """Return a key that is not taken."""
    numbers = count(2)
    while key in known:
        key = f"{name}#{next(numbers)}"
    return key


def _tree(side: Operations) -> CallTree:
    """Return the calls of a side; without any, its operations as calls without arguments."""
    if side.calls is not None:
        return side.calls
    ordered = sorted(side.operations, key=lambda operation: operation.debug_context_id)
    return CallTree(
        {
            item.debug_context_id: DebugContext(
                item.debug_context_id, None, side.layer, item.name, item.operation, "{}"
            )
            for item in ordered
        }
    )


def operation_changes(
    baseline: Operations, candidate: Operations, measure: str
) -> tuple[OperationChange, ...]:
    """Return one figure of two reports' operations, the largest change first; sums of runs per run.

    Parameters
    ----------
    baseline, candidate
        Operations of the same layer.
    measure
        A name in ``MEASURES``.
    """
    figure = MEASURES[measure]
    runs = [side.n_runs if figure.is_sum_of_runs else 0 for side in (baseline, candidate)]
    changes = []
    for pair in operation_pairs(baseline, candidate):
        sizes = [
            None if side is None else per_run(figure.value(side), n_runs)
            for side, n_runs in zip((pair.baseline, pair.candidate), runs, strict=True)
        ]
        changes.append(
            OperationChange(
                pair.key,
                pair.known.name,
                pair.known.operation,
                sizes[0],
                sizes[1],
                (sizes[1] or 0) - (sizes[0] or 0),
                None if pair.candidate is None else pair.candidate.name,
            )
        )
    return tuple(sorted(changes, key=lambda change: -abs(change.delta)))


def kind_changes(baseline: Operations, candidate: Operations) -> tuple[Pair[KindTotal], ...]:
    """Return the totals of two reports by kind of operation, in the order of the baseline."""
    baseline_by_kind, candidate_by_kind = (
        {total.operation: total for total in side.kinds} for side in (baseline, candidate)
    )
    return pairs(baseline_by_kind, candidate_by_kind)
