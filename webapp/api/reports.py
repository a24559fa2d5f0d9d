"""The list of available reports, and the facts of each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.reports.catalogue import FoundReport
from tilescope.webapp.errors import UnknownReport
from tilescope.webapp.home import Overviews, is_settled, overview_cells
from tilescope.webapp.library import Library
from tilescope.webapp.report_states import ServedState

__all__ = ["listing", "routes"]

#: Reports that one request may ask about.
_MOST = 20


def listing(library: Library) -> list[dict[str, Any]]:
    """Return the reports for the menus, the demo report last, without their paths."""
    demo = library.demo()
    entries = (*library.found(), *([demo] if demo else []))
    return [_describe(entry, library.states.at_a_glance(entry)) for entry in entries]


def routes(library: Library, overviews: Overviews) -> APIRouter:
    """Return the routes below ``/api/reports``."""
    router = APIRouter(prefix="/reports")

    @router.get("")
    def list_reports() -> dict[str, Any]:
        """List the reports of the library."""
        return {"ok": True, "reports": listing(library)}

    @router.get("/overviews")
    def read_overviews(
        report_ids: Annotated[list[str], Query(alias="id", max_length=_MOST)],
    ) -> dict[str, Any]:
        """Return the cells of reports in the list of the home page; unknown ones are left out.

        ``unsettled`` are those whose state may change by itself: an engine writes them, or they are
        being verified.
        """
        found, unsettled = {}, []
        for report_id in report_ids:
            try:
                entry = library.entry(report_id)
            except UnknownReport:
                continue
            if not is_settled(entry, overviews):
                unsettled.append(report_id)
            found[report_id] = [asdict(cell) for cell in overview_cells(entry, overviews)]
            if report_id not in unsettled and not is_settled(entry, overviews):
                unsettled.append(report_id)
        return {"ok": True, "overviews": found, "unsettled": unsettled}

    return router


def _describe(entry: FoundReport, state: ServedState) -> dict[str, Any]:
    """Return the public fields of a report."""
    return {
        "id": entry.report_id,
        "label": entry.label,
        "choice": entry.label if state.is_complete else f"{entry.label} – {state.label}",
        "state": state.label,
        "is_complete": state.is_complete,
        "is_damaged": not state.is_sound,
        "size_bytes": entry.size_bytes,
        "modified_s": entry.mtime,
    }
