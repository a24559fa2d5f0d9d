"""The reports that the app serves: discovered on disk, opened lazily, addressed by id."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tilescope.analyser.advice.trust import Trust
from tilescope.reports import Report, explain_damage, open_report
from tilescope.reports.discovery import FoundReport, find_reports
from tilescope.reports.kind import PROFILES, Kind, require_kind
from tilescope.reports.stamp import Stamp, file_stamp
from tilescope.webapp.errors import UnknownReport
from tilescope.webapp.report_states import ReportStates
from tilescope.webapp.stamps import note_stamp

__all__ = ["Library"]

T = TypeVar("T")

#: Least lifetime of a directory listing, in seconds.
LISTING_AGE_S = 2.0
#: A listing of very many directories lives this many times as long as it takes.
LISTING_SHARE = 10


@dataclass
class _Loan:
    """An open report, its number of users, and the identity of its file."""

    report: Report
    stamp: Stamp
    users: int = 0
    is_retired: bool = False


class Library:
    """Reports below some paths, by id; at most ``capacity`` stay open.

    A replaced or removed file is detected on its next use. Ids come from
    :func:`tilescope.reports.discovery.find_reports`; no path is ever taken from a request.

    Parameters
    ----------
    paths : Sequence[Path]
        Files and directories to search for reports.
    capacity : int
        Maximum number of reports that stay open.
    clock : Callable
        Monotonic clock in seconds, for the age of the listing.
    demo : Path or None
        A report that every server has besides, for people who have none yet.
    trust : Trust or None
        Expected errors by kind of operation, which pages show beside figures of the reports.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        capacity: int = 8,
        clock: Callable[[], float] = time.monotonic,
        demo: Path | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.trust = trust
        self._paths = [Path(path) for path in paths]
        self._capacity = capacity
        self._clock = clock
        self._lock = threading.RLock()
        self._open: OrderedDict[str, _Loan] = OrderedDict()
        self._found: dict[str, FoundReport] = {}
        self._listed_at: float | None = None
        self._listing_age_s = LISTING_AGE_S
        #: The states of the reports.
        self.states = ReportStates()
        self._demo = [
            replace(entry, label="demo") for entry in find_reports([demo] if demo else [])
        ]

    def demo(self) -> FoundReport | None:
        """Return the demo report, None if there is none; `found` does not list it."""
        return self._demo[0] if self._demo else None

    def found(self) -> list[FoundReport]:
        """Return the current reports: whole before damaged ones, complete first, then newest."""
        entries = list(self._listing().values())
        return sorted(
            entries,
            key=lambda entry: (
                self.states.is_known_damaged(entry), not entry.is_complete_guess, -entry.mtime,
            ),
        )  # fmt: skip

    def known(self, report_id: str) -> FoundReport | None:
        """Return the listing of one report, None if the present list has none with that id."""
        demo = next((entry for entry in self._demo if entry.report_id == report_id), None)
        return self._listing().get(report_id, demo)

    def entry(self, report_id: str) -> FoundReport:
        """Return the listing of one report; it is searched for anew if it is not known.

        Raises
        ------
        UnknownReport
            When no report has that id.
        """
        entry = self.known(report_id)
        if entry is None:
            self.relist()
            entry = self.known(report_id)
        if entry is None:
            raise UnknownReport("Unknown report; choose one in the menu at the top.")
        return entry

    def _listing(self) -> dict[str, FoundReport]:
        """Return the reports on disk by id, from a search that is not old."""
        with self._lock:
            now = self._clock()
            if self._listed_at is None or now - self._listed_at > self._listing_age_s:
                listing = find_reports(self._paths)
                self._found = {entry.report_id: entry for entry in listing}
                self._listed_at = self._clock()
                duration_s = self._listed_at - now
                self._listing_age_s = max(LISTING_AGE_S, LISTING_SHARE * duration_s)
            return self._found

    def relist(self) -> None:
        """Search for reports anew on the next request."""
        with self._lock:
            self._listed_at = None

    @contextmanager
    def opened(self, report_id: str, kinds: Collection[Kind] = PROFILES) -> Iterator[Report]:
        """Lend the report with that id; it stays open while in use.

        Parameters
        ----------
        report_id
            Of the report.
        kinds
            Kinds of reports that the caller takes.

        Raises
        ------
        WrongKind
            When it is of another kind.
        UnknownReport
            When no report has that id.
        ReportChanged
            When the page that asks was made from an older state of the file.
        DamagedReport
            When the caller fails unexpectedly, and the report is inconsistent.
        """
        entry = self.entry(report_id)
        loan = self._borrow(entry)
        try:
            if entry.is_complete_guess:  # one that is being written changes all the time
                note_stamp(report_id, loan.stamp)
            with explain_damage(loan.report):
                require_kind(loan.report, kinds)
                yield loan.report
        finally:
            self._give_back(loan)

    def ask(self, view: Mapping[str, str], question: Callable[[Report], T]) -> tuple[T, T | None]:
        """Call a function on a view's report and on the candidate; None without a candidate.

        Raises
        ------
        UnknownReport
            When one of them is missing.
        """
        with self.opened(view["report"]) as report:
            baseline = question(report)
        if not view["with"]:
            return baseline, None
        with self.opened(view["with"]) as report:
            return baseline, question(report)

    def close(self) -> None:
        """Close all reports; those in use close when they are returned."""
        self.states.close()
        with self._lock:
            for report_id in list(self._open):
                self._retire(report_id)

    def _borrow(self, entry: FoundReport) -> _Loan:
        """Return the loan of a report; reopen it if its file changed."""
        stamp = file_stamp(entry.path)
        with self._lock:
            loan = self._open.get(entry.report_id)
            if loan is not None and loan.stamp != stamp:
                self._retire(entry.report_id)
                loan = None
            if loan is None:
                loan = _open(entry, stamp)
                self._open[entry.report_id] = loan
                for report_id in list(self._open)[: -self._capacity]:
                    self._retire(report_id)
                self.states.note(entry, loan.stamp, loan.report, is_next=True)
            self._open.move_to_end(entry.report_id)
            loan.users += 1
            return loan

    def _give_back(self, loan: _Loan) -> None:
        """Drop a user; close the report if it is no longer listed."""
        with self._lock:
            loan.users -= 1
            if loan.is_retired and loan.users == 0:
                loan.report.close()

    def _retire(self, report_id: str) -> None:
        """Remove a report from the open ones; close it unless it is in use."""
        loan = self._open.pop(report_id)
        loan.is_retired = True
        if loan.users == 0:
            loan.report.close()


def _open(entry: FoundReport, stamp: Stamp) -> _Loan:
    """Open a file; once more if it was replaced meanwhile. Errors name the report, not its path.

    Raises
    ------
    ReportError
        When it cannot be read.
    """
    path, name = entry.path, entry.label
    loan = _Loan(open_report(path, name=name), stamp)
    after = file_stamp(path)
    if after != stamp:
        loan.report.close()
        loan = _Loan(open_report(path, name=name), after)
    return loan
