"""State of a report: whether its engine still runs, it has grown, or damage came to light."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter

from tilescope.reports import ReportNotFound
from tilescope.reports.discovery import FoundReport
from tilescope.reports.stamp import file_stamp, stamp_text
from tilescope.webapp.errors import UnknownReport
from tilescope.webapp.library import Library

__all__ = ["routes"]

_MOST_WATCHED = 256


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/reports``."""
    router = APIRouter(prefix="/reports")
    watched: dict[str, Path] = {}

    @router.get("/{report_id}/state")
    def show_state(report_id: str) -> dict[str, Any]:
        """Return the state of a report, in a word and a sentence.

        ``stamp`` changes when the file grows. The state may change by itself while ``is_running``
        or ``is_pending``, which says that the report is being verified. A finished run has a file
        of its own: ``successor`` is its id once the file asked for is gone.
        """
        try:
            entry = library.entry(report_id)
            answer = _state(library, entry)
        except (UnknownReport, ReportNotFound):
            library.relist()
            successor = _finished_in(library, watched.get(report_id))
            if successor is None:
                raise UnknownReport("Unknown report; choose one in the menu at the top.") from None
            return {"ok": True, "successor": successor}
        if answer["is_running"]:
            while len(watched) >= _MOST_WATCHED:
                del watched[next(iter(watched))]
            watched[report_id] = entry.path.parent
        return answer

    return router


def _state(library: Library, entry: FoundReport) -> dict[str, Any]:
    """Return the state of a report.

    Raises
    ------
    ReportNotFound
        The file is gone.
    """
    states = library.states
    states.of(entry)
    states.verify(entry)
    is_pending = states.is_pending(entry)
    state = states.of(entry)  # after that: what the verification says now is not missed
    newer = states.newer_run(entry)
    return {
        "ok": True,
        "state": state.label,
        "sentence": " ".join(filter(None, (state.sentence, newer))),
        "sign_of_life_s": state.sign_of_life,
        "is_complete": state.is_complete,
        "is_running": state.is_running,
        "is_pending": is_pending,
        "is_verified": state.is_verified,
        "stamp": stamp_text(file_stamp(entry.path)),
        "successor": None,
    }


def _finished_in(library: Library, directory: Path | None) -> str | None:
    """Return the newest complete report of a directory."""
    reports = [
        entry
        for entry in library.found()
        if entry.is_complete_guess and entry.path.parent == directory
    ]
    newest = max(reports, key=lambda entry: entry.mtime, default=None)
    return None if newest is None else newest.report_id
