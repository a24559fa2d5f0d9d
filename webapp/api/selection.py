"""What is selected, with its place on every page."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.summary.places import Place, place_of
from tilescope.webapp.library import Library

__all__ = ["page_parameters", "routes"]


def routes(library: Library) -> APIRouter:
    """Return the route ``/api/selection``."""
    router = APIRouter(prefix="/selection/{report_id}")

    @router.get("")
    def show_selection(
        report_id: str, what: Annotated[str, Query(min_length=1, max_length=2000)]
    ) -> dict[str, Any]:
        """Return name and description of a thing, and the parameters of the pages that show it.

        What the report does not have has no title and no places, and the reason as its detail: a
        selection outlives a change of the reports.
        """
        with library.opened(report_id) as report:
            try:
                position = place_of(report, what)
            except BadQuestion as error:
                return {"ok": True, "title": "", "detail": str(error), "places": {}}
        return {
            "ok": True,
            "title": position.title,
            "detail": position.detail,
            "places": page_parameters(position),
        }

    return router


def page_parameters(place: Place) -> dict[str, dict[str, str]]:
    """Return the parameters by which pages show a thing, by the page's path."""
    parameters: dict[str, dict[str, str]] = {}
    if place.tile_id is not None:
        parameters["/memory"] = {"tiles": str(place.tile_id)}
        parameters["/liveness"] = {"source": "tile", "tile": str(place.tile_id)}
    if place.variable is not None:
        parameters["/memory"] = {"breakdown": "variables", "var": place.variable}
    if place.moment is not None:
        parameters["/liveness"] = {"step": str(place.moment)}
    if place.program_id is not None:
        parameters["/programs"] = {"node": str(place.program_id)}
    if place.operation is not None:
        parameters["/operations"] = {"layer": place.layer, "op": place.operation}
    if place.step_id is not None:
        parameters["/trace"] = {"at": f"step:{place.step_id}"}
    return parameters
