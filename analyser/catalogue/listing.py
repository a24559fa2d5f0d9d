"""The list of reports: facts from the catalogue, and from the files that it does not know yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilescope.analyser.catalogue.catalogue import Catalogue, CataloguedReport
from tilescope.analyser.catalogue.file_state import read_state
from tilescope.analyser.errors import AnalyserError
from tilescope.analyser.summary.overview import ReportOverview, report_overview
from tilescope.reports import Report, ReportError, ReportNotFound, State, open_report
from tilescope.reports.discovery import FoundReport
from tilescope.reports.stamp import Stamp, file_stamp

__all__ = ["ListedReport", "list_reports", "read_overview"]

#: Files that are read before their facts are kept: what is read by then survives an interrupt.
_BATCH = 50


@dataclass(frozen=True)
class ListedReport:
    """A report file with what is known of it.

    Attributes
    ----------
    file
        Where it was found.
    state
        A value of `State`, or why the file is not a report.
    overview
        Its facts, None if it cannot be read.
    """

    file: FoundReport
    state: str
    overview: ReportOverview | None


def list_reports(
    files: Sequence[FoundReport],
    catalogue: Catalogue,
    tell: Callable[[int, int], None] | None = None,
) -> list[ListedReport]:
    """Return report files with their facts, in their order; those that are gone are left out.

    Only files that the catalogue does not know as they are now are opened; it knows them then.

    Parameters
    ----------
    files
        Files of `find_reports`.
    catalogue
        Where facts are kept.
    tell
        Called with the numbers of files that were opened and of those that have to be.
    """
    stamps = {file.path: file_stamp(file.path) for file in files}
    known = catalogue.known(stamps)
    unknown = [file for file in files if file.path not in known]
    for start in range(0, len(unknown), _BATCH):
        if tell is not None:
            tell(start, len(unknown))
        entries = [_read(file, stamps[file.path]) for file in unknown[start : start + _BATCH]]
        readable = [entry for entry in entries if entry is not None]
        known |= {entry.path: entry for entry in readable}
        catalogue.record(entry for entry in readable if entry.state != State.RUNNING)
    return [
        ListedReport(file, known[file.path].state, known[file.path].overview)
        for file in files
        if file.path in known
    ]


def read_overview(path: Path, name: str, note: Callable[[Report], None]) -> ReportOverview | None:
    """Return the facts of a report by opening it, None if it cannot be read.

    Parameters
    ----------
    path
        The file.
    name
        Name of the report in sentences.
    note
        Called with the open report.
    """
    try:
        with open_report(path, name=name) as report:
            report.verify_if_small()
            try:
                return report_overview(report)
            finally:
                note(report)
    except (ReportError, AnalyserError, OSError):
        return None


def _read(file: FoundReport, stamp: Stamp) -> CataloguedReport | None:
    """Return what a file holds, None if it is gone."""
    states: list[str] = []
    overview = read_overview(
        file.path, file.label, lambda report: states.append(str(report.state.state))
    )
    try:
        state = states[0] if states else read_state(file.path, file.label).label
    except ReportNotFound:
        return None
    return CataloguedReport(file.path, stamp, state, overview)
