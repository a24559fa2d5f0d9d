"""Things of a report by a few words, for the palette."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.analyser.summary.lookup import look_up
from tilescope.analyser.summary.places import place_of
from tilescope.webapp.api.selection import page_parameters
from tilescope.webapp.library import Library

__all__ = ["routes"]

#: The page that a kind of thing opens.
_PAGES = {
    "Tile": "/memory",
    "Step": "/trace",
    "Operation": "/operations",
    "Variable": "/memory",
}
_MOST = 8


def routes(library: Library) -> APIRouter:
    """Return the route ``/api/find``."""
    router = APIRouter(prefix="/find/{report_id}")

    @router.get("")
    def find(
        report_id: str, text: Annotated[str, Query(min_length=1, max_length=200)]
    ) -> dict[str, Any]:
        """Return operations, variables, steps and tiles that a text names."""
        with library.opened(report_id) as report:
            result = look_up(report, text, _MOST)
            positions = [page_parameters(place_of(report, match.what)) for match in result]
        matches = [
            {
                "kind": match.kind,
                "label": match.label,
                "detail": match.detail,
                "select": match.what,
                "path": _PAGES[match.kind],
                "parameters": parameters.get(_PAGES[match.kind], {}),
            }
            for match, parameters in zip(result, positions, strict=True)
        ]
        capped = {kind for kind in _PAGES if sum(item.kind == kind for item in result) == _MOST}
        note = f"At most {_MOST} of a kind are listed; type more letters." if capped else ""
        return {"ok": True, "matches": matches, "note": note}

    return router
