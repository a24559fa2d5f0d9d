"""Reads a whole report and lists all problems."""

from __future__ import annotations

from pathlib import Path

from tilescope.reports.check.content import content_problems
from tilescope.reports.check.problem import Problem
from tilescope.reports.check.structure import structure_problems
from tilescope.reports.errors import ReportError
from tilescope.reports.reading.open import open_report
from tilescope.reports.reading.report import Report

__all__ = ["Problem", "check_report", "report_problems"]


def check_report(path: Path | str) -> list[Problem]:
    """Return all problems of a report; none if it is sound.

    Verifies all digests, resolves all references and compares redundant facts. An incomplete run is
    not a problem, but the report that it left must be consistent.

    Parameters
    ----------
    path : Path or str
        As for `open_report`.
    """
    try:
        with open_report(path) as report:
            return report_problems(report)
    except ReportError as error:
        return [Problem(error.code, str(path), str(error))]


def report_problems(report: Report) -> list[Problem]:
    """Return all problems of an open report; none if it is sound."""
    problems = structure_problems(report)
    # Without sound rows and arrays, facts are not comparable.
    return problems or content_problems(report)
