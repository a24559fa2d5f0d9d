"""Passes of a training step of two reports side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.diff.views.operations import operation_changes, operation_pairs
from tilescope.analyser.program.operations import operations
from tilescope.analyser.program.training import has_training, passes
from tilescope.analyser.quantities import percent_of
from tilescope.analyser.summary.metrics import METRICS
from tilescope.reports.schema.vocabulary import TRAINING_PASSES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["PassChange", "pass_changes"]


@dataclass(frozen=True)
class PassChange:
    """What a pass of a training step costs on both sides, cycles of a run.

    ``baseline_cycles`` and ``candidate_cycles`` are None without a run or outside training.
    ``n_changed`` are its operations that only one side has or that cost something else.
    """

    name: str
    label: str
    baseline_cycles: int | float | None
    candidate_cycles: int | float | None
    n_changed: int

    @property
    def delta_cycles(self) -> int | float:
        """Candidate minus baseline; a missing side counts 0."""
        return (self.candidate_cycles or 0) - (self.baseline_cycles or 0)

    @property
    def percent_of_baseline(self) -> float | None:
        """Change in percent of the baseline; None if that is missing or 0."""
        return percent_of(self.baseline_cycles, self.delta_cycles)


def pass_changes(baseline: Report, candidate: Report) -> tuple[PassChange, ...]:
    """Return the passes of two reports in their order; none if neither is of a training."""
    if not has_training(baseline) and not has_training(candidate):
        return ()
    sides = operations(baseline, "model"), operations(candidate, "model")
    pass_of = {pair.key: pair.known.training_pass for pair in operation_pairs(*sides)}
    changed = [
        pass_of.get(change.key)
        for change in operation_changes(*sides, "cycles")
        if change.delta or change.baseline is None or change.candidate is None
    ]
    present = {name for report in (baseline, candidate) for name in passes(report).values()}
    changes = []
    for name, item in TRAINING_PASSES.items():
        if name not in present:
            continue
        metric = METRICS[f"cycles.pass.{item.key}"]
        before, after = metric.of_run(baseline), metric.of_run(candidate)
        changes.append(PassChange(name, item.label, before, after, changed.count(name)))
    return tuple(changes)
