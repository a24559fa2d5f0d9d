"""Reads a whole report and says everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path

from tilescope.reports.check.content import content_problems
from tilescope.reports.check.problem import Problem
from tilescope.reports.check.structure import structure_problems
from tilescope.reports.errors import ReportError
from tilescope.reports.open import open_report

__all__ = ["Problem", "check_report"]


def check_report(path: Path | str) -> list[Problem]:
    """Return everything that is wrong with a report: none if it is sound.

    All digests are verified, all identities looked up, and what must agree is compared. That a
    run did not come to its end is no problem: what it left must still agree.

    Parameters
    ----------
    path : Path or str
        As for `open_report`.
    """
    try:
        with open_report(path) as report:
            problems = structure_problems(report)
            # Without sound rows and arrays there is nothing that could be compared.
            return problems or content_problems(report)
    except ReportError as error:
        return [Problem(error.code, str(path), str(error))]
