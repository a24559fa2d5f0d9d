"""The states of served reports, as home, menus and pages show them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tilescope.analyser.catalogue.file_state import (
    FileState,
    named_state,
    read_state,
    without_path,
)
from tilescope.reports import Report, ReportError, ReportState, State, open_report
from tilescope.reports.discovery import FoundReport
from tilescope.reports.schema import REPORT_NAME
from tilescope.reports.stamp import Stamp, file_stamp
from tilescope.reports.state import (
    is_unfinished_name,
    sign_of_life,
    state_after,
    unfinished_reports,
)
from tilescope.webapp.verifier import Verifier

__all__ = ["ReportStates"]


class ReportStates:
    """States by report, read once for every stamp of a file, and verified in the background."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Stamp, FileState]] = {}
        self._listed: dict[str, tuple[Stamp, FileState]] = {}
        self._entries: dict[str, tuple[Stamp, str, Path]] = {}
        #: Called with id, path and stamp of a report that was found damaged in the background.
        self.on_damage: Callable[[str, Path, Stamp], None] | None = None
        self._verifier = Verifier(self._note_verified)

    def at_a_glance(self, entry: FoundReport) -> FileState:
        """Return the state without opening the file, from its name, lock and header at worst."""
        known = self._current(entry) or self._catalogued(entry)
        if known is not None:
            return known
        if is_unfinished_name(entry.path):
            return named_state(state_after("", entry.path), entry.path, entry.label)
        return FileState(State.DAMAGED if entry.is_damaged_guess else State.COMPLETE)

    def is_known_damaged(self, entry: FoundReport) -> bool:
        """Return whether the file, as it is now, is known to be damaged."""
        with self._lock:
            known = self._known.get(entry.report_id) or self._listed.get(entry.report_id)
        if known is None or known[1].is_sound:
            return entry.is_damaged_guess
        return known[0] == file_stamp(entry.path) or entry.is_damaged_guess

    def note_catalogued(self, entry: FoundReport, stamp: Stamp, label: str) -> None:
        """Take the state of a file from the catalogue; lists show it until the file is opened."""
        with self._lock:
            self._listed[entry.report_id] = stamp, FileState(label)

    def listed(self, entry: FoundReport) -> FileState:
        """Return the state as lists show it; the file is opened if nothing is known of it.

        Raises
        ------
        ReportNotFound
            The file is gone.
        """
        return self._catalogued(entry) or self.of(entry)

    def of(self, entry: FoundReport) -> FileState:
        """Return the state; the file is opened once for every stamp, unless an engine writes it.

        Raises
        ------
        ReportNotFound
            The file is gone: its run has finished, or someone removed it.
        """
        known = self._current(entry)
        if known is not None:
            return known
        stamp = file_stamp(entry.path)
        if is_unfinished_name(entry.path):
            glance = state_after("", entry.path)
            if glance.state is State.RUNNING:
                return named_state(glance, entry.path, entry.label)
        return self._keep(entry, stamp, read_state(entry.path, entry.label))

    def note(self, entry: FoundReport, stamp: Stamp, report: Report, *, is_next: bool) -> None:
        """Take the state of an open report, and verify the file in the background.

        Parameters
        ----------
        entry
            The report in the library.
        stamp
            That of the file when it was opened.
        report
            The report, open.
        is_next
            Whether to verify it before others: someone looks at it.
        """
        known = self._current(entry)
        state = report.state
        if state.state is State.RUNNING or (known is not None and known.is_verified):
            return
        served = replace(
            named_state(state, entry.path, entry.label), is_verified=report.is_verified
        )
        self._keep(entry, stamp, served)
        self.verify(entry, is_next=is_next)

    def verify(self, entry: FoundReport, *, is_next: bool = True) -> None:
        """Verify a report in the background, unless it was, or is damaged, or is being written."""
        with self._lock:
            known = self._known.get(entry.report_id)
            if known is None or known[1].is_verified or not known[1].is_sound:
                return
            self._entries[entry.report_id] = known[0], entry.label, entry.path
        self._verifier.add(entry.report_id, entry.path, is_next=is_next)

    def is_pending(self, entry: FoundReport) -> bool:
        """Return whether the report waits to be verified, or is being verified."""
        return self._verifier.is_pending(entry.report_id)

    def newer_run(self, entry: FoundReport) -> str:
        """Return a sentence on a newer run in the directory of a complete report, else nothing."""
        path = entry.path
        try:
            if path.name != REPORT_NAME or not any(
                (sign_of_life(file) or 0.0) > entry.mtime
                for file in unfinished_reports(path.parent)
            ):
                return ""
            with open_report(path.parent) as report:
                newer = report.newer_run
        except (OSError, ReportError):
            return ""
        return "" if newer is None else without_path(newer.sentence, newer.path, newer.path.name)

    def close(self) -> None:
        """Stop verifying."""
        self._verifier.close()

    def _current(self, entry: FoundReport) -> FileState | None:
        """Return what is known of the file as it is now; nothing that may change by itself."""
        with self._lock:
            known = self._known.get(entry.report_id)
        return None if known is None or known[0] != file_stamp(entry.path) else known[1]

    def _catalogued(self, entry: FoundReport) -> FileState | None:
        """Return what the catalogue says of a file as it is now, unless it was opened since."""
        with self._lock:
            if entry.report_id in self._known:
                return None
            listed = self._listed.get(entry.report_id)
        return None if listed is None or listed[0] != file_stamp(entry.path) else listed[1]

    def _keep(self, entry: FoundReport, stamp: Stamp, served: FileState) -> FileState:
        """Remember a state, unless it may change by itself or less is known by now."""
        if served.is_running:
            return served
        with self._lock:
            known = self._known.get(entry.report_id)
            if known is not None and known[0] == stamp and not known[1].is_sound:
                return known[1]
            self._known[entry.report_id] = stamp, served
        return served

    def _note_verified(self, report_id: str, damage: str | None) -> None:
        """Take the result of the verifier."""
        with self._lock:
            stamp, label, path = self._entries.pop(report_id, ((0, 0, 0), "", Path()))
            known = self._known.get(report_id)
            if damage is None or known is None or known[0] != stamp or file_stamp(path) != stamp:
                return
            served = replace(known[1], is_verified=True)
            if damage:
                sentence = ReportState(State.DAMAGED, None, damage).sentence
                served = FileState(
                    State.DAMAGED, without_path(sentence, path, label), is_verified=True
                )
            self._known[report_id] = stamp, served
        if damage and self.on_damage is not None:
            self.on_damage(report_id, path, stamp)
