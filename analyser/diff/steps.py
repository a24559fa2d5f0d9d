"""Program steps added, removed and changed, aligned by path name and structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.diff.align import align
from tilescope.analyser.execution import Steps, costs, execution, steps

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tilescope.reports import Report

__all__ = ["StepChange", "StepChanges", "no_step_changes", "step_changes"]


@dataclass(frozen=True)
class StepChange:
    """A step on the sides that have it; None is the side without it.

    Cycles are on the critical path over all recorded runs, or of one execution; the owner says.
    """

    name: str
    kind: str
    baseline_step_id: int | None
    candidate_step_id: int | None
    baseline_cycles: int | None
    candidate_cycles: int | None
    delta_cycles: int


@dataclass(frozen=True)
class StepChanges:
    """Changes of steps, the largest change of cycles first in each list.

    ``basis`` is ``runs`` when cycles are those of the recorded runs, ``estimate`` when a report
    has none and cycles are of one execution on the slowest IPU. ``delta_cycles`` adds up all
    three lists.
    """

    basis: Literal["runs", "estimate"]
    added: tuple[StepChange, ...]
    removed: tuple[StepChange, ...]
    changed: tuple[StepChange, ...]
    n_same: int
    delta_cycles: int


def step_changes(baseline: Report, candidate: Report) -> StepChanges:
    """Return how the steps of two reports differ; an equal step costs the same and works alike."""
    has_runs = execution(baseline).n_runs > 0 and execution(candidate).n_runs > 0
    baseline_steps, candidate_steps = steps(baseline), steps(candidate)
    baseline_works, candidate_works = (
        _work(baseline, len(baseline_steps)),
        _work(candidate, len(candidate_steps)),
    )
    pairs, removed, added = align(
        _names(baseline_steps), _names(candidate_steps), baseline_works, candidate_works
    )
    before, after = _cycles(baseline, has_runs), _cycles(candidate, has_runs)
    changed = [
        StepChange(
            candidate_steps.name[other],
            candidate_steps.kind[other],
            one,
            other,
            int(before[one]),
            int(after[other]),
            int(after[other] - before[one]),
        )
        for one, other in pairs
        if before[one] != after[other] or baseline_works[one] != candidate_works[other]
    ]
    gone = [
        StepChange(
            baseline_steps.name[i],
            baseline_steps.kind[i],
            i,
            None,
            int(before[i]),
            None,
            -int(before[i]),
        )
        for i in removed
    ]
    come = [
        StepChange(
            candidate_steps.name[i],
            candidate_steps.kind[i],
            None,
            i,
            None,
            int(after[i]),
            int(after[i]),
        )
        for i in added
    ]
    return StepChanges(
        "runs" if has_runs else "estimate",
        _sorted(come),
        _sorted(gone),
        _sorted(changed),
        len(pairs) - len(changed),
        sum(change.delta_cycles for change in (*come, *gone, *changed)),
    )


def no_step_changes(report: Report) -> StepChanges:
    """Return what is said of two reports with the same steps."""
    basis: Literal["runs", "estimate"] = "runs" if execution(report).n_runs else "estimate"
    return StepChanges(basis, (), (), (), len(steps(report)), 0)


def _names(all_steps: Steps) -> list[Hashable]:
    """Return what two steps must share to be the same: kind and path name."""
    return list(zip(all_steps.kind, all_steps.name, strict=True))


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
