"""The place of a report: its directory, or a subdirectory while another engine writes there."""

from __future__ import annotations

import logging
from pathlib import Path

from tilescope.reports import ReportInUse, ReportWriter

__all__ = ["new_report"]

_log = logging.getLogger(__name__)

#: Engines that write into one directory at a time, each into a subdirectory of its own.
_MOST_ENGINES = 64


def new_report(directory: Path) -> ReportWriter:
    """Begin a report; in a subdirectory while another engine writes into the directory.

    Raises
    ------
    ReportInUse, ReportNotWritable
        When it cannot be created.
    """
    places = [directory, *(directory / f"engine{n}" for n in range(2, _MOST_ENGINES + 1))]
    for place in places:
        try:
            writer = ReportWriter.create(place)
        except ReportInUse:
            if place == places[-1]:
                raise
            continue
        if place != directory:
            _log.warning(
                "warning: Another engine is writing a report into %s: this one goes into %s",
                directory,
                place,
            )
        return writer
    raise AssertionError("there is at least one place")
