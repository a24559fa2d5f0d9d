"""Program steps added, removed and changed, aligned by the calls that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.diff.alignment.align import align_in_turn
from tilescope.analyser.program.call_tree import relative_name
from tilescope.analyser.program.plans import stage_names
from tilescope.analyser.quantities import per_run
from tilescope.analyser.time.execution import costs, execution, steps
from tilescope.analyser.validation import require_below
from tilescope.reports import schema

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from tilescope.analyser.diff.alignment.calls import CallPairs
    from tilescope.reports import Report

__all__ = [
    "StepChange",
    "StepChanges",
    "StepPairs",
    "align_steps",
    "no_step_changes",
    "step_changes",
    "step_contexts",
]


@dataclass(frozen=True)
class StepChange:
    """A step on the sides that have it; None is the side without it.

    Cycles are on the critical path, of one run on average or of one execution; the owner says.
    """

    name: str
    kind: str
    baseline_step_id: int | None
    candidate_step_id: int | None
    baseline_cycles: int | float | None
    candidate_cycles: int | float | None
    delta_cycles: int | float


@dataclass(frozen=True)
class StepChanges:
    """Changes of steps, the largest change of cycles first in each list.

    ``basis`` is ``runs`` when cycles are those of a recorded run, ``estimate`` when a report
    has none and cycles are of one execution on the slowest IPU. ``delta_cycles`` adds up all
    three lists.
    """

    basis: Literal["runs", "estimate"]
    added: tuple[StepChange, ...]
    removed: tuple[StepChange, ...]
    changed: tuple[StepChange, ...]
    n_same: int
    delta_cycles: int | float


@dataclass(frozen=True)
class StepPairs:
    """Which steps of two reports are the same, by id.

    ``cycles`` are of every step on both sides, summed over ``n_runs`` runs (1 if a report has
    none); ``is_same`` holds for pairs that cost the same per run and work alike.
    """

    pairs: tuple[tuple[int, int], ...]
    removed: tuple[int, ...]
    added: tuple[int, ...]
    cycles: tuple[NDArray[np.int64], NDArray[np.int64]]
    is_same: tuple[bool, ...]
    has_runs: bool
    n_runs: tuple[int, int]


def align_steps(baseline: Report, candidate: Report, calls: CallPairs) -> StepPairs:
    """Return which steps of two reports are the same.

    A step follows its call: within it, by name and kind, then by kind and stage of the plan. A step
    outside of calls is aligned by name and kind; a renamed one by what it does.
    """
    has_runs = execution(baseline).n_runs > 0 and execution(candidate).n_runs > 0
    sides = baseline, candidate
    works = [_work(report, len(steps(report))) for report in sides]
    rounds = [_rounds(report, calls, side, works[side]) for side, report in enumerate(sides)]
    pairs, removed, added = align_in_turn(zip(*rounds, strict=True), *works)
    cycles = _cycles(baseline, has_runs), _cycles(candidate, has_runs)
    n_runs = (execution(baseline).n_runs, execution(candidate).n_runs) if has_runs else (1, 1)
    return StepPairs(
        tuple(pairs),
        tuple(removed),
        tuple(added),
        cycles,
        tuple(
            int(cycles[0][before]) * n_runs[1] == int(cycles[1][after]) * n_runs[0]
            and works[0][before] == works[1][after]
            for before, after in pairs
        ),
        has_runs,
        n_runs,
    )


def step_changes(baseline: Report, candidate: Report, aligned: StepPairs) -> StepChanges:
    """Return how the steps of two reports differ; an equal step costs the same and works alike."""
    every = steps(baseline), steps(candidate)

    def change(first: int | None, second: int | None) -> StepChange:
        side, index = (0, first) if second is None else (1, second)
        assert index is not None
        before = (
            None if first is None else per_run(int(aligned.cycles[0][first]), aligned.n_runs[0])
        )
        after = (
            None if second is None else per_run(int(aligned.cycles[1][second]), aligned.n_runs[1])
        )
        return StepChange(
            every[side].name[index],
            every[side].kind[index],
            first,
            second,
            before,
            after,
            (after or 0) - (before or 0),
        )

    changed = [
        change(first, second)
        for (first, second), is_same in zip(aligned.pairs, aligned.is_same, strict=True)
        if not is_same
    ]
    gone = [change(index, None) for index in aligned.removed]
    come = [change(None, index) for index in aligned.added]
    return StepChanges(
        "runs" if aligned.has_runs else "estimate",
        _sorted(come),
        _sorted(gone),
        _sorted(changed),
        len(aligned.pairs) - len(changed),
        sum(change.delta_cycles for change in (*come, *gone, *changed)),
    )


def no_step_changes(report: Report) -> StepChanges:
    """Return what is said of two reports with the same steps."""
    basis: Literal["runs", "estimate"] = "runs" if execution(report).n_runs else "estimate"
    return StepChanges(basis, (), (), (), len(steps(report)), 0)


@cached
def step_contexts(report: Report) -> NDArray[np.int64]:
    """Return the debug context of every step, -1 for none: int64, shape (n_steps,)."""
    result = np.full(len(steps(report)), -1, np.int64)
    rows = report.rows(schema.program, "step_id", "debug_context_id")
    rows = [row for row in rows if None not in row]
    if rows:
        numbers = np.array(rows, np.int64)
        require_below(report, numbers[:, 0], len(result), "step")
        result[numbers[:, 0]] = numbers[:, 1]
    return result


def _rounds(
    report: Report, calls: CallPairs, side: int, works: Sequence[Hashable]
) -> Iterator[list[Hashable]]:
    """Yield what two steps must share in every round to be the same; None to take no part."""
    tree, numbers = (calls.baseline, calls.candidate)[side], calls.numbers[side]
    every, contexts = steps(report), step_contexts(report).tolist()
    number = list(map(numbers.get, contexts))
    yield [
        (n, relative_name(name, tree.contexts[context].name), kind)
        if n is not None
        else ((name, kind) if context < 0 else None)
        for n, context, name, kind in zip(number, contexts, every.name, every.kind, strict=True)
    ]
    stages = stage_names(report)
    yield [
        None if n is None else (n, kind, stages.get(index, ""))
        for index, (n, kind) in enumerate(zip(number, every.kind, strict=True))
    ]
    yield [
        (kind, work) if context < 0 else None
        for context, kind, work in zip(contexts, every.kind, works, strict=True)
    ]


def _cycles(report: Report, has_runs: bool) -> NDArray[np.int64]:
    """Return the cycles of every step, over all runs or of one execution."""
    if has_runs:
        return execution(report).step_cycles
    return costs(report).per_step("cycles", len(steps(report)), largest=True)


def _work(report: Report, n_steps: int) -> list[Hashable]:
    """Return what every step does: tiles at work, useful operations, bytes moved."""
    columns = (
        "n_active_tiles",
        "flops",
        "total_sent_bytes",
        "host_in_bytes",
        "host_out_bytes",
        "remote_in_bytes",
        "remote_out_bytes",
        "link_out_bytes",
    )
    totals = np.stack([costs(report).per_step(name, n_steps) for name in columns], axis=1)
    return [tuple(row) for row in totals.tolist()]


def _sorted(changes: list[StepChange]) -> tuple[StepChange, ...]:
    """Return changes by impact, largest first; equal ones in program order."""
    return tuple(sorted(changes, key=lambda change: -abs(change.delta_cycles)))
