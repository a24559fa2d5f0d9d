"""Stages of the pipelines of two reports side by side, and nodes that moved between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.diff.alignment.pairs import pairs
from tilescope.analyser.diff.views.operations import operation_pairs
from tilescope.analyser.program.operations import operations
from tilescope.analyser.program.stages import pipeline
from tilescope.analyser.summary.stage_figures import StageTime, stage_figures

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["MovedNode", "StageChange", "moved_nodes", "stage_changes"]


@dataclass(frozen=True)
class StageChange:
    """What a micro-batch takes in a stage on both sides, cycles; None where a side lacks it."""

    name: str
    baseline_cycles: float | None
    candidate_cycles: float | None

    @property
    def delta_cycles(self) -> float:
        """Candidate minus baseline; a missing side counts 0."""
        return (self.candidate_cycles or 0) - (self.baseline_cycles or 0)


@dataclass(frozen=True)
class MovedNode:
    """A node of the model that is work of another stage in the candidate."""

    name: str
    baseline_stage: str
    candidate_stage: str


def stage_changes(baseline: Report, candidate: Report) -> tuple[StageChange, ...]:
    """Return the stages of two reports in their order; none if neither is of a pipeline."""
    sides: list[dict[str, StageTime]] = []
    for report in (baseline, candidate):
        figures = stage_figures(report)
        sides.append({} if figures is None else {item.stage.name: item for item in figures.stages})
    return tuple(
        StageChange(
            pair.key,
            None if pair.baseline is None else pair.baseline.cycles_per_execution,
            None if pair.candidate is None else pair.candidate.cycles_per_execution,
        )
        for pair in pairs(*sides)
    )


def moved_nodes(baseline: Report, candidate: Report) -> tuple[MovedNode, ...]:
    """Return the nodes of the model in another stage, in program order of the baseline."""
    if pipeline(baseline) is None or pipeline(candidate) is None:
        return ()
    moved = []
    for pair in operation_pairs(operations(baseline, "model"), operations(candidate, "model")):
        before, after = pair.baseline, pair.candidate
        if before is None or after is None or before.stage == after.stage:
            continue
        if before.stage is not None and after.stage is not None:
            node = MovedNode(pair.key, before.stage, after.stage)
            moved.append((before.debug_context_id, node))
    return tuple(node for _, node in sorted(moved, key=lambda item: item[0]))
