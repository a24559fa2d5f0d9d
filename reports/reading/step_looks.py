"""Name and kind of the steps of a report, by which its trace is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.reports.bars.coarse import StepLooks
from tilescope.reports.bars.kinds import classify
from tilescope.reports.bars.paths import build_paths
from tilescope.reports.schema import step
from tilescope.reports.schema.vocabulary import SYNC_ZONES

if TYPE_CHECKING:
    from tilescope.reports.reading.report import Report

__all__ = ["step_looks"]


def step_looks(report: Report) -> StepLooks:
    """Return name and kind of every step of a report."""
    names, kinds = report.columns(step, "name", "kind")
    zone = report.array("cost.sync_zone").read()
    external = report.array("cost.step_id").read()[zone == SYNC_ZONES["external"]]
    return StepLooks(build_paths(names), classify(kinds, set(external.tolist())))
