"""The states of served reports, as home, menus and pages show them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from tilescope.reports import (
    NotAReport,
    Report,
    ReportError,
    ReportNotFound,
    ReportState,
    State,
    UnsupportedSchema,
    open_report,
    report_state,
)
from tilescope.reports.catalogue import FoundReport
from tilescope.reports.schema import REPORT_NAME
from tilescope.reports.state import (
    is_unfinished_name,
    sign_of_life,
    state_after,
    unfinished_reports,
)
from tilescope.webapp.stamps import Stamp, file_stamp
from tilescope.webapp.verifier import Verifier

__all__ = ["ReportStates", "ServedState"]


@dataclass(frozen=True)
class ServedState:
    """What the server knows of the state of a report.

    Parameters
    ----------
    label
        Some words: a value of `State`, or why the file is not a report.
    sentence
        The state in a sentence without the path of the file; empty if complete.
    sign_of_life
        Last time that the engine wrote, seconds since 1970.
    is_verified
        Whether all of it was verified.
    """

    label: str
    sentence: str = ""
    sign_of_life: float | None = None
    is_verified: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the report is complete, as far as is known."""
        return self.label == State.COMPLETE

    @property
    def is_running(self) -> bool:
        """Whether the engine of the report still runs."""
        return self.label == State.RUNNING

    @property
    def is_sound(self) -> bool:
        """Whether the file is a report without known damage."""
        return self.label in (State.COMPLETE, State.RUNNING, State.ENDED_EARLY)


class ReportStates:
    """States by report, read once for every stamp of a file, and verified in the background."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Stamp, ServedState]] = {}
        self._entries: dict[str, tuple[Stamp, str, Path]] = {}
        self._verifier = Verifier(self._note_verified)

    def at_a_glance(self, entry: FoundReport) -> ServedState:
        """Return the state without opening the file, from its name, lock and header at worst."""
        known = self._current(entry)
        if known is not None:
            return known
        if is_unfinished_name(entry.path):
            return _served(state_after("", entry.path), entry)
        return ServedState(State.DAMAGED if entry.is_damaged_guess else State.COMPLETE)

    def is_known_damaged(self, entry: FoundReport) -> bool:
        """Return whether the file, as it is now, is known to be damaged."""
        with self._lock:
            known = self._known.get(entry.report_id)
        if known is None or known[1].is_sound:
            return entry.is_damaged_guess
        return known[0] == file_stamp(entry.path) or entry.is_damaged_guess

    def of(self, entry: FoundReport) -> ServedState:
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
                return _served(glance, entry)
        return self._keep(entry, stamp, _read(entry))

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
        served = replace(_served(state, entry), is_verified=report.is_verified)
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
        return "" if newer is None else _without_path(newer.sentence, newer.path, newer.path.name)

    def close(self) -> None:
        """Stop verifying."""
        self._verifier.close()

    def _current(self, entry: FoundReport) -> ServedState | None:
        """Return what is known of the file as it is now; nothing that may change by itself."""
        with self._lock:
            known = self._known.get(entry.report_id)
        return None if known is None or known[0] != file_stamp(entry.path) else known[1]

    def _keep(self, entry: FoundReport, stamp: Stamp, served: ServedState) -> ServedState:
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
                served = ServedState(
                    State.DAMAGED, _without_path(sentence, path, label), is_verified=True
                )
            self._known[report_id] = stamp, served


def _read(entry: FoundReport) -> ServedState:
    """Return the state of a file that no engine writes.

    Raises
    ------
    ReportNotFound
        The file is gone.
    """
    path = entry.path
    try:
        state = report_state(path)
    except ReportNotFound:
        if not path.exists():
            raise
        return ServedState("cannot be read")
    except (NotAReport, UnsupportedSchema) as error:
        is_foreign = isinstance(error, NotAReport)
        label = "not a report" if is_foreign else "another schema version"
        return ServedState(label, _without_path(str(error), path, entry.label))
    except ReportError as error:
        return ServedState("cannot be read", _without_path(str(error), path, entry.label))
    if state is None:  # it holds no data
        state = state_after("", path)
    return _served(state, entry)


def _served(state: ReportState, entry: FoundReport) -> ServedState:
    sentence = _without_path(state.sentence, entry.path, entry.label)
    return ServedState(str(state.state), sentence, state.sign_of_life)


def _without_path(sentence: str, path: Path, label: str) -> str:
    """Return a sentence that names a report by its label."""
    return sentence.replace(str(path), label)
