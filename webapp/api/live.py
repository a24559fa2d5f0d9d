"""State of a report that may still be written: whether it has grown, and what replaced it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter

from tilescope.webapp.errors import UnknownReport
from tilescope.webapp.library import Library
from tilescope.webapp.stamps import file_stamp, stamp_text

__all__ = ["routes"]

_MOST_WATCHED = 256


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/reports``."""
    router = APIRouter(prefix="/reports")
    watched: dict[str, Path] = {}

    @router.get("/{report_id}/state")
    def show_state(report_id: str) -> dict[str, Any]:
        """Return whether a report is complete, and a text that changes when it grows.

        A finished run has a file of its own: ``successor`` is its id once the one asked for is
        gone.
        """
        try:
            entry = library.entry(report_id)
        except UnknownReport:
            if report_id not in watched:
                raise
            successor = _finished_in(library, watched[report_id])
            if successor is None:
                raise
            return {"ok": True, "is_complete": True, "state": "", "successor": successor}
        if not entry.is_complete_guess:
            while len(watched) >= _MOST_WATCHED:
                del watched[next(iter(watched))]
            watched[report_id] = entry.path.parent
        return {
            "ok": True,
            "is_complete": entry.is_complete_guess,
            "state": stamp_text(file_stamp(entry.path)),
            "successor": None,
        }

    return router


def _finished_in(library: Library, directory: Path) -> str | None:
    """Return the newest complete report of a directory."""
    found = [
        entry
        for entry in library.found()
        if entry.is_complete_guess and entry.path.parent == directory
    ]
    newest = max(found, key=lambda entry: entry.mtime, default=None)
    return None if newest is None else newest.report_id
