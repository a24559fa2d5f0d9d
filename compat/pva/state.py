"""Warnings about reports that are not complete: libpva has no such notion, so opening works."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import TYPE_CHECKING

from tilescope import analyser

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["ReportStateWarning", "open_and_warn", "warn_of_state"]


class ReportStateWarning(UserWarning):
    """A report is still written, ended early or is damaged, or its directory holds a newer run."""


def open_and_warn(path: str | PathLike[str]) -> Report:
    """Open a report for a function of this module, and warn its caller of its state.

    Raises
    ------
    ReportError
        When there is no report there, or it cannot be read.
    """
    report = analyser.open(path)
    warn_of_state(report, n_frames=3)
    return report


def warn_of_state(report: Report, *, n_frames: int = 2) -> None:
    """Warn of a report that is not complete, or not of the newest run.

    Parameters
    ----------
    report
        The report, open.
    n_frames
        How many calls above this function the caller is who reads the warning.
    """
    report.verify_if_small()
    newer = report.newer_run
    sentences = [report.state.sentence, "" if newer is None else newer.sentence]
    for sentence in filter(None, sentences):
        text = f"{report.path}: {sentence}"
        warnings.warn(text, ReportStateWarning, stacklevel=n_frames + 1)
