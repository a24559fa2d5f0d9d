"""The help, as HTML for the dialog of the frame."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from tilescope.webapp.components.markup import as_html
from tilescope.webapp.help import Fidelity, help_content

__all__ = ["routes"]


def routes(fidelity: Fidelity | None) -> APIRouter:
    """Return the route ``/api/help``."""
    router = APIRouter(prefix="/help")

    @router.get("")
    def show_help() -> HTMLResponse:
        """Return the help."""
        return HTMLResponse(as_html(help_content(fidelity)))

    return router
