"""The list of available reports."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from tilescope.reports.catalogue import FoundReport
from tilescope.webapp.library import Library

__all__ = ["listing", "routes"]


def listing(library: Library) -> list[dict[str, Any]]:
    """Return the reports for the menus, without their paths."""
    return [_describe(entry) for entry in library.found()]


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/reports``."""
    router = APIRouter(prefix="/reports")

    @router.get("")
    def list_reports() -> dict[str, Any]:
        """List the reports of the library."""
        return {"ok": True, "reports": listing(library)}

    return router


def _describe(entry: FoundReport) -> dict[str, Any]:
    """Return the public fields of a report."""
    return {
        "id": entry.report_id,
        "label": entry.label,
        "is_complete": entry.is_complete_guess,
        "is_damaged": entry.is_damaged_guess,
        "size_bytes": entry.size_bytes,
        "modified_s": entry.mtime,
    }
