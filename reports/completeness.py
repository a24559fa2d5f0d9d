"""Refuses reports from which nothing may be decided: gates, baselines and exports ask here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.reports.errors import DamagedReport, ReportIncomplete
from tilescope.reports.state import State

if TYPE_CHECKING:
    from tilescope.reports.reading.report import Report

__all__ = ["require_complete"]


def require_complete(report: Report) -> None:
    """Verify a report in full, and refuse it unless it is complete and of the newest run.

    A report that was opened by the path of its file is of the newest run, whatever lies beside it.

    Parameters
    ----------
    report : Report
        From which a decision follows: a gate, a baseline, figures for a tracker.

    Raises
    ------
    DamagedReport
        Rows or chunks do not match their digests.
    ReportIncomplete
        Its engine still writes it or ended early, or its directory holds a newer run.
    """
    state = report.state
    if state.is_complete:
        report.verify()
    elif state.state is State.DAMAGED:
        raise DamagedReport(state.damage)
    else:
        raise ReportIncomplete(
            f"{report.path} {state.clause}: {state.advice}, or give the path of a complete report."
        )
    newer = report.newer_run
    if newer is not None:
        clause = newer.state.clause or "is complete"
        advice = newer.state.advice or f"give its path, {newer.path}"
        raise ReportIncomplete(
            f"A newer run than that of {report.path} is {newer.path.name}, which {clause}:"
            f" {advice}, or give the path of the file that is meant, such as {report.path}."
        )
