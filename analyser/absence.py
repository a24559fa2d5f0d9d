"""Why a report lacks some data, and what to do: that depends on the state of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["absence", "machine_absence"]

_GRAPH_PROFILE = "autoReport.outputGraphProfile"


def absence(report: Report, subject: str, option: str = _GRAPH_PROFILE) -> str:
    """Return in a sentence that a report lacks some data, why, and what to do.

    Parameters
    ----------
    report
        Which may be of an engine that still runs.
    subject
        The data, such as ``memory``.
    option
        The option that leaves it out of a complete report.
    """
    state = report.state
    if state.is_complete:
        return (
            f"{report.name} holds no {subject}: it was written with {option} false; run the model"
            " again with it"
        )
    return f"{report.name} holds no {subject}: it {state.clause}; {state.advice}"


def machine_absence(report: Report) -> str:
    """Return in a sentence that a report ends before its machine was written, and what to do."""
    state = report.state
    if state.is_complete:
        return f"{report.name} holds no machine, so there is nothing to show; run the model again"
    return (
        f"{report.name} holds no machine, so there is nothing to show: it {state.clause};"
        f" {state.advice}"
    )
