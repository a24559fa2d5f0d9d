"""The last resort of readers: an unexpected error of an inconsistent report is about the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilescope.reports.errors import DamagedReport
from tilescope.reports.reading.report import Report

__all__ = ["damage_behind", "explain_damage"]


def damage_behind(error: Exception, *reports: Report) -> DamagedReport | None:
    """Return the damage of reports that explains an unexpected error of their reader, if any.

    Readers check what they rely on. This is the last resort for what they do not check: the error
    of a sound report is a bug, that of an inconsistent one is about the report.

    Parameters
    ----------
    error
        An error that code raised while it read the reports. Those of this project, of the command
        line and of the operating system are expected: nothing explains them.
    *reports : Report
        The reports that the code reads; closed ones are skipped.
    """
    # Errors with an exit code are those of this project, and of the command line.
    if isinstance(getattr(error, "exit_code", None), int) or isinstance(error, OSError):
        return None
    from tilescope.reports.check import report_problems

    for report in reports:
        problem = next(iter(report_problems(report)), None) if report.is_open else None
        if problem is not None:
            return DamagedReport(
                f"{report.name} is damaged: {problem.sentence.rstrip('.')}. Run the program again,"
                " or get another copy of the report."
            )
    return None


@contextmanager
def explain_damage(*reports: Report) -> Iterator[None]:
    """Replace an unexpected error by the damage of a report that explains it.

    Parameters
    ----------
    *reports : Report
        As for `damage_behind`.

    Raises
    ------
    DamagedReport
        A report is inconsistent. The unexpected error is its cause.
    """
    try:
        yield
    except Exception as error:
        damage = damage_behind(error, *reports)
        if damage is not None:
            raise damage from error
        raise
