"""Reads a whole report and lists all problems."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilescope.reports.check.content import content_problems
from tilescope.reports.check.problem import Problem
from tilescope.reports.check.structure import structure_problems
from tilescope.reports.errors import DamagedReport, ReportError
from tilescope.reports.open import open_report
from tilescope.reports.report import Report

__all__ = ["Problem", "check_report", "explain_damage", "report_problems"]


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


@contextmanager
def explain_damage(*reports: Report) -> Iterator[None]:
    """Replace an unexpected error of code that reads reports, if one of them is inconsistent.

    Readers check what they rely on. This is the last resort for what they do not: the error of a
    sound report is a bug and passes through, that of an inconsistent one is about the report.

    Parameters
    ----------
    *reports : Report
        The open reports that the code reads.

    Raises
    ------
    DamagedReport
        A report is inconsistent. The unexpected error is its cause.
    """
    try:
        yield
    except Exception as error:
        # Errors with an exit code are those of this project, and of the command line.
        if isinstance(getattr(error, "exit_code", None), int) or isinstance(error, OSError):
            raise
        for report in reports:
            problem = next(iter(report_problems(report)), None) if report.is_open else None
            if problem is not None:
                raise DamagedReport(
                    f"{report.path} is damaged: {problem.sentence} Run the program again, or get"
                    " another copy of the report."
                ) from error
        raise
