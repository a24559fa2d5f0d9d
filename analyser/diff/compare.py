"""The whole difference between two reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.absence import machine_absence
from tilescope.analyser.diff.alignment.calls import align_calls
from tilescope.analyser.diff.alignment.steps import (
    StepChanges,
    align_steps,
    no_step_changes,
    step_changes,
)
from tilescope.analyser.diff.alignment.variables import (
    VariableChanges,
    align_variables,
    no_variable_changes,
    variable_changes,
)
from tilescope.analyser.diff.causes import Cause, find_causes
from tilescope.analyser.diff.causes.evidence import Evidence
from tilescope.analyser.diff.context import ContextChange, context_changes
from tilescope.analyser.diff.identity import unequal_data
from tilescope.analyser.diff.measures import MetricChange, TileChange, metric_changes, tile_changes
from tilescope.analyser.diff.views.passes import PassChange, pass_changes
from tilescope.analyser.diff.views.stages import (
    MovedNode,
    StageChange,
    moved_nodes,
    stage_changes,
)
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.call_tree import call_tree
from tilescope.analyser.summary.loss import loss_curve
from tilescope.collection import without_collection
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import NewerRun, Report, ReportState

__all__ = ["Difference", "Side", "compare"]


@dataclass(frozen=True)
class Side:
    """One of the two reports.

    ``training_steps`` are half-open ranges of the training steps that it recorded; None outside
    training.
    """

    path: str
    state: ReportState
    newer_run: NewerRun | None
    n_runs: int
    is_data_dependent: bool
    training_steps: list[tuple[int, int]] | None

    @property
    def is_complete(self) -> bool:
        """Whether the engine of the report finished, and no damage is known."""
        return self.state.is_complete


@dataclass(frozen=True)
class Difference:
    """What changed from baseline to candidate.

    ``unequal`` names the tables and arrays that differ; with none, ``is_identical`` is True and
    everything else is empty of changes. ``causes`` say why, those with the most impact first.
    ``passes`` are those of a training step, empty outside training. ``stages`` are those of a
    pipeline, and ``moved`` the nodes that are in another of them; both are empty elsewhere.
    """

    baseline: Side
    candidate: Side
    is_identical: bool
    unequal: tuple[str, ...]
    context: tuple[ContextChange, ...]
    metrics: tuple[MetricChange, ...]
    tiles: TileChange
    variables: VariableChanges
    steps: StepChanges
    causes: tuple[Cause, ...] = ()
    passes: tuple[PassChange, ...] = ()
    stages: tuple[StageChange, ...] = ()
    moved: tuple[MovedNode, ...] = ()

    @property
    def is_data_dependent(self) -> bool:
        """Whether cycles of one of the sides may differ for other data."""
        return self.baseline.is_data_dependent or self.candidate.is_data_dependent

    def metric(self, name: str) -> MetricChange:
        """Return the change of one metric of the catalogue.

        Raises
        ------
        BadQuestion
            When the catalogue has no such metric.
        """
        from tilescope.analyser.summary.metrics import metric

        metric_name = metric(name).name
        return next(metric for metric in self.metrics if metric.name == metric_name)


def compare(baseline: Report, candidate: Report) -> Difference:
    """Return what changed from a baseline to a candidate.

    Raises
    ------
    BadQuestion
        When a report ends before its machine was written.
    DamagedReport
        If rows or chunks of one of them do not match their digests.
    """
    for report in (baseline, candidate):
        if not report.n_rows(schema.target):
            raise BadQuestion(machine_absence(report))
    with without_collection():
        return _compare(baseline, candidate)


def _compare(baseline: Report, candidate: Report) -> Difference:
    """Return what changed between two reports that have a machine."""
    unequal = unequal_data(baseline, candidate)
    if not unequal and not baseline.has_content_of(candidate):
        # Equal digests of other content: either it is only packed otherwise, or damaged.
        baseline.verify()
        candidate.verify()
    context = context_changes(baseline, candidate)
    metrics = metric_changes(baseline, candidate)
    variables, steps = no_variable_changes(baseline), no_step_changes(baseline)
    causes: tuple[Cause, ...] = ()
    if unequal:
        calls = align_calls(call_tree(baseline), call_tree(candidate))
        paired_variables = align_variables(baseline, candidate, calls)
        paired_steps = align_steps(baseline, candidate, calls)
        variables = variable_changes(paired_variables)
        steps = step_changes(baseline, candidate, paired_steps)
        sides = baseline, candidate, calls
        causes = find_causes(Evidence(*sides, paired_steps, paired_variables, context, metrics))
    return Difference(
        _side(baseline),
        _side(candidate),
        not unequal,
        unequal,
        context,
        metrics,
        tile_changes(baseline, candidate),
        variables,
        steps,
        causes,
        pass_changes(baseline, candidate),
        stage_changes(baseline, candidate),
        moved_nodes(baseline, candidate) if unequal else (),
    )


def _side(report: Report) -> Side:
    """Return what is said of a report as a side."""
    flags = report.column(schema.run, "is_data_dependent")
    curve = loss_curve(report)
    return Side(
        report.name,
        report.state,
        report.newer_run,
        len(flags),
        any(flags),
        curve.recorded_ranges if len(curve) else None,
    )
