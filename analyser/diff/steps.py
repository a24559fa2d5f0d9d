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
    base_step_id: int | None
    new_step_id: int | None
    base_cycles: int | None
    new_cycles: int | None
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


def step_changes(base: Report, new: Report) -> StepChanges:
    """Return how the steps of two reports differ; an equal step costs the same and works alike."""
    has_runs = execution(base).n_runs > 0 and execution(new).n_runs > 0
    ones, others = steps(base), steps(new)
    one_works, other_works = _work(base, len(ones)), _work(new, len(others))
    pairs, removed, added = align(_names(ones), _names(others), one_works, other_works)
    before, after = _cycles(base, has_runs), _cycles(new, has_runs)
    changed = [
        StepChange(
            others.name[other],
            others.kind[other],
            one,
            other,
            int(before[one]),
            int(after[other]),
            int(after[other] - before[one]),
        )
        for one, other in pairs
        if before[one] != after[other] or one_works[one] != other_works[other]
    ]
    gone = [
        StepChange(ones.name[i], ones.kind[i], i, None, int(before[i]), None, -int(before[i]))
        for i in removed
    ]
    come = [
        StepChange(others.name[i], others.kind[i], None, i, None, int(after[i]), int(after[i]))
        for i in added
    ]
    return StepChanges(
        "runs" if has_runs else "estimate",
        _sorted(come),
        _sorted(gone),
        _sorted(changed),
        len(pairs) - len(changed),
        sum(each.delta_cycles for each in (*come, *gone, *changed)),
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
