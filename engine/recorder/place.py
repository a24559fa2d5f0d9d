"""The place of a report: its directory, or a subdirectory while that is taken."""

from __future__ import annotations

import logging
import os
from itertools import chain, count
from pathlib import Path

from tilescope.reports import ReportInUse, ReportTemplate, ReportWriter
from tilescope.reports.schema import REPORT_NAME

__all__ = ["KEEP_REPORTS", "new_report"]

_log = logging.getLogger(__name__)

#: Variable that is 1 where no engine may replace the report of an earlier one, as in tests.
KEEP_REPORTS = "TILESCOPE_KEEP_REPORTS"
#: Engines that write into one directory at a time, each into a subdirectory of its own.
_MOST_ENGINES = 64


def new_report(directory: Path, template: ReportTemplate | None = None) -> ReportWriter:
    """Begin a report; in a subdirectory while another engine writes into the directory.

    With ``TILESCOPE_KEEP_REPORTS=1``, also if the directory holds a report already.

    Parameters
    ----------
    directory
        Where to write it.
    template
        What the report begins as; None for an empty one.

    Raises
    ------
    ReportInUse, ReportNotWritable
        When it cannot be created.
    """
    keeps = os.environ.get(KEEP_REPORTS) == "1"
    n_used = 0
    for folder in chain([directory], (directory / f"engine{n}" for n in count(2))):
        if keeps and (folder / REPORT_NAME).exists():
            continue
        try:
            writer = ReportWriter.create(folder, template)
        except ReportInUse:
            n_used += 1
            if n_used == _MOST_ENGINES:
                raise
            continue
        if n_used:
            _log.warning(
                "warning: Another engine is writing a report into %s: this one goes into %s",
                directory,
                folder,
            )
        return writer
    raise AssertionError("there is always another subdirectory")
