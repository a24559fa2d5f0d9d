"""What a gate is about: a figure of both reports, of one IPU of theirs, or of an operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.diff import operation_changes
from tilescope.analyser.gates.gate import Figure, Gate, figures_named, matches
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.operations import CALL_LAYERS, operations
from tilescope.analyser.summary.metrics import METRICS, MetricValue
from tilescope.analyser.time.execution import execution

if TYPE_CHECKING:
    from tilescope.analyser.diff import Difference
    from tilescope.reports import Report

__all__ = ["Subject", "subjects"]

#: Names of the figures of operations in `tilescope.analyser.diff.MEASURES`, where they differ.
_MEASURE = {"always_live": "always"}


@dataclass(frozen=True)
class Subject:
    """A figure on both sides; None on the side that lacks it."""

    figure: Figure
    selector: str | None
    baseline: MetricValue
    candidate: MetricValue

    @property
    def name(self) -> str:
        """Figure with its IPU or operation."""
        return self.figure.name if self.selector is None else f"{self.figure.name}@{self.selector}"


def subjects(
    gate: Gate, difference: Difference, baseline: Report, candidate: Report
) -> Iterator[Subject]:
    """Yield what a gate is about.

    A figure that both sides lack is left out if the gate has a wildcard; so is an operation that
    only the baseline has.

    Parameters
    ----------
    gate
        The gate.
    difference
        Of the two reports.
    baseline, candidate
        The two reports, open.
    """
    figures = [figure for figure in figures_named(gate.metric) if figure.name in gate.limits]
    for figure in figures:
        if gate.is_about_operations:
            matched = _of_operations(gate, figure, baseline, candidate)
        elif gate.selector is not None:
            matched = _of_ipus(gate.selector, figure, baseline, candidate)
        else:
            change = difference.metric(figure.name)
            matched = iter([Subject(figure, None, change.baseline, change.candidate)])
        for subject in matched:
            is_absent = subject.baseline is None and subject.candidate is None
            if not (is_absent and gate.has_wildcard):
                yield subject


def _of_ipus(
    selector: str, figure: Figure, baseline: Report, candidate: Report
) -> Iterator[Subject]:
    """Yield a metric of the IPUs that a selector names."""
    metric = METRICS[figure.name]
    n_ipus = [target(report).n_ipus for report in (baseline, candidate)]
    for ipu_id in range(max(n_ipus)):
        if matches(selector, f"ipu{ipu_id}"):
            before, after = (
                metric.of_run(report, ipu_id) if ipu_id < count else None
                for report, count in zip((baseline, candidate), n_ipus, strict=True)
            )
            yield Subject(figure, f"ipu{ipu_id}", before, after)


def _of_operations(
    gate: Gate, figure: Figure, baseline: Report, candidate: Report
) -> Iterator[Subject]:
    """Yield a figure of the operations whose names fit; cycles need runs on both sides or none."""
    measure = figure.name.partition(".")[2]
    measure = _MEASURE.get(measure, measure)
    ran = [execution(report).n_runs > 0 for report in (baseline, candidate)]
    is_comparable = not figure.is_measured or ran[0] == ran[1]
    pattern, visited = gate.selector or "*", set()
    for layer in CALL_LAYERS:
        sides = operations(baseline, layer), operations(candidate, layer)
        for change in operation_changes(*sides, measure):
            if change.key in visited or not matches(pattern, change.key):
                continue
            visited.add(change.key)
            before = change.baseline if is_comparable or ran[0] else None
            after = change.candidate if is_comparable or ran[1] else None
            if change.candidate is None and "*" in pattern:
                continue
            yield Subject(figure, change.key, before, after)
