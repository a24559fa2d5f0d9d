"""Where else a step is shown: its liveness step, its operation, its busiest tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.execution import costs, steps
from tilescope.analyser.liveness import liveness_step_ids
from tilescope.analyser.machine import target
from tilescope.analyser.operations import operation_names

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["StepPlaces", "step_places"]


@dataclass(frozen=True)
class StepPlaces:
    """What other questions are answered by; None where a report does not have it.

    ``operation`` is the name of the library call that the step is of, else its own. The busiest
    tile computes longest in the step, the first of equal ones.
    """

    liveness_step: int | None
    operation: str
    busiest_tile: int | None


def step_places(report: Report, step_id: int) -> StepPlaces:
    """Return where else a step is shown.

    Raises
    ------
    BadQuestion
        If the report has no such step.
    """
    if not 0 <= step_id < len(steps(report)):
        last = len(steps(report)) - 1
        raise BadQuestion(f"step {step_id} does not exist; the steps are 0 to {last}")
    lively = np.flatnonzero(liveness_step_ids(report) == step_id)
    return StepPlaces(
        int(lively[0]) if len(lively) else None,
        operation_names(report)[step_id],
        _busiest_tile(report, step_id),
    )


def _busiest_tile(report: Report, step_id: int) -> int | None:
    """Return the tile that computes longest in a step; None if none does."""
    column, patterns = costs(report).column, report.array("cycles.pattern")
    found: tuple[int, int] | None = None
    for row in np.flatnonzero(column["step_id"] == step_id).tolist():
        cycles = np.asarray(patterns.row(int(column["pattern_id"][row])))
        most = int(cycles.max(initial=0))
        if most and (found is None or most > found[0]):
            first = int(column["ipu_id"][row]) * target(report).tiles_per_ipu
            found = most, first + int(cycles.argmax())
    return None if found is None else found[1]
