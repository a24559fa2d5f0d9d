"""Questions about one report, differences between two, exports."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["open"]


def open(path: str | PathLike[str]) -> Report:
    """Open a report for reading, through the one opening function of ``reports``.

    Parameters
    ----------
    path
        A ``profile.pop``, or a directory that holds one or the leftover of a killed run.

    Raises
    ------
    ReportError
        When there is no report, or it is damaged, foreign, of another version, or no profile.
    """
    from tilescope.reports import open_report
    from tilescope.reports.kind import require_kind

    report = open_report(Path(path))
    try:
        require_kind(report)
    except BaseException:
        report.close()
        raise
    return report
