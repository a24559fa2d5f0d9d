"""Notes on the trace of a report: read, written beside it, removed.

Requests have no body: what a note says is in the query, as everything that the API is asked.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.analyser import trace
from tilescope.webapp.api.trace_question import Cycle
from tilescope.webapp.library import Library

__all__ = ["routes"]

_Shared = Annotated[str, Query(max_length=8_000)]


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/notes``."""
    router = APIRouter(prefix="/notes/{report_id}")

    def answer(report_id: str, shared: str) -> dict[str, Any]:
        with library.opened(report_id) as report:
            notes = [asdict(note) for note in trace.placed_notes(report, shared)]
            return {"ok": True, "notes": notes, "shared": trace.shared_notes(report, shared)}

    @router.get("")
    def list_notes(report_id: str, shared: _Shared = "") -> dict[str, Any]:
        """Return the notes of a report and of an address, where they are, and for an address."""
        return answer(report_id, shared)

    @router.post("")
    def add_note(
        report_id: str,
        start: Cycle,
        end: Cycle,
        text: Annotated[str, Query(max_length=1_000)],
        ipu: Annotated[int, Query(ge=0)] = 0,
        shared: _Shared = "",
    ) -> dict[str, Any]:
        """Write a note on a range of an IPU beside the report, and return all of them."""
        with library.opened(report_id) as report:
            trace.add_note(report, start, end, ipu, text)
        return answer(report_id, shared)

    @router.delete("/{note_id}")
    def remove_note(report_id: str, note_id: str, shared: _Shared = "") -> dict[str, Any]:
        """Remove a note beside the report, and return the others."""
        with library.opened(report_id) as report:
            trace.remove_note(report, note_id)
        return answer(report_id, shared)

    return router
