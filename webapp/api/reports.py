"""The list of available reports, and the facts of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.analyser.catalogue.file_state import FileState
from tilescope.analyser.search import search_words, words_fit
from tilescope.reports.discovery import FoundReport
from tilescope.webapp.errors import UnknownReport
from tilescope.webapp.home import MOST_REPORTS, Overviews, overview_cells
from tilescope.webapp.library import Library

__all__ = ["MOST_REPORTS", "listing", "routes"]

#: Reports that one request may ask about.
_MOST = 20


def listing(
    library: Library, report_ids: Collection[str] = (), find: str = ""
) -> list[dict[str, Any]]:
    """Return reports for the menus, without their paths, the demo report last.

    Parameters
    ----------
    library
        The reports.
    report_ids
        Reports that are listed in any case, by id.
    find
        Words that the others have in their labels; the first ones are listed.
    """
    demo = library.demo()
    words = search_words(find)
    entries = library.found()
    fitting = (entry for entry in entries if words_fit(words, entry.label))
    listed = list(islice(fitting, MOST_REPORTS))
    ids = {entry.report_id for entry in listed}
    chosen = [
        entry
        for report_id in report_ids
        if report_id not in ids and (entry := library.known(report_id)) is not None
    ]
    return [
        _describe(entry, library.states.at_a_glance(entry))
        for entry in (*listed, *chosen, *([demo] if demo else []))
    ]


def routes(library: Library, overviews: Overviews) -> APIRouter:
    """Return the routes below ``/api/reports``."""
    router = APIRouter(prefix="/reports")

    @router.get("")
    def list_reports(
        report_ids: Annotated[list[str], Query(alias="id", max_length=_MOST)] = [],  # noqa: B006
        find: Annotated[str, Query(max_length=200)] = "",
    ) -> dict[str, Any]:
        """List the first reports of the library that have some words in their labels."""
        return {"ok": True, "reports": listing(library, report_ids, find)}

    @router.get("/overviews")
    def read_overviews(
        report_ids: Annotated[list[str], Query(alias="id", max_length=_MOST)],
    ) -> dict[str, Any]:
        """Return the cells of reports in the list of the home page; unknown ones are left out.

        ``unsettled`` are those whose state may change by itself: an engine writes them, or they are
        being verified.
        """
        cells, unsettled = {}, []
        for report_id in report_ids:
            try:
                entry = library.entry(report_id)
            except UnknownReport:
                continue
            cells[report_id] = [asdict(cell) for cell in overview_cells(entry, overviews)]
            if not overviews.is_settled(entry):
                unsettled.append(report_id)
        overviews.keep()
        return {"ok": True, "overviews": cells, "unsettled": unsettled}

    return router


def _describe(entry: FoundReport, state: FileState) -> dict[str, Any]:
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
