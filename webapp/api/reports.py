"""The list of available reports, and the facts of each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.reports.catalogue import FoundReport
from tilescope.webapp.errors import UnknownReport
from tilescope.webapp.home import Overviews, overview_cells
from tilescope.webapp.library import Library

__all__ = ["listing", "routes"]

#: Reports that one request may ask about.
_MOST = 20


def listing(library: Library) -> list[dict[str, Any]]:
    """Return the reports for the menus, the demo report last, without their paths."""
    demo = library.demo()
    return [_describe(entry) for entry in (*library.found(), *([demo] if demo else []))]


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
        """Return the cells of reports in the list of the home page; unknown ones are left out."""
        found = {}
        for report_id in report_ids:
            try:
                cells = overview_cells(library.entry(report_id), overviews)
            except UnknownReport:
                continue
            found[report_id] = [asdict(cell) for cell in cells]
        return {"ok": True, "overviews": found}

    return router


def _describe(entry: FoundReport) -> dict[str, Any]:
    """Return the public fields of a report."""
    return {
        "id": entry.report_id,
        "label": entry.label,
        "choice": _choice(entry),
        "is_complete": entry.is_complete_guess,
        "is_damaged": entry.is_damaged_guess,
        "size_bytes": entry.size_bytes,
        "modified_s": entry.mtime,
    }


def _choice(entry: FoundReport) -> str:
    """Return the label of a report in the menus; that of an incomplete run says so itself."""
    return f"{entry.label} (damaged file)" if entry.is_damaged_guess else entry.label
