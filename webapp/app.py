"""The web app: pages, API and security layer, one instance per process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dash import Dash
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tilescope.analyser.errors import AnalyserError
from tilescope.reports.errors import ReportError
from tilescope.webapp.api import modules as api_modules
from tilescope.webapp.errors import Failure, WebError, describe_failure
from tilescope.webapp.help import Fidelity
from tilescope.webapp.library import Library
from tilescope.webapp.pages import modules as page_modules
from tilescope.webapp.security import Gate, content_security_policy
from tilescope.webapp.shell import index_page, layout, register_shell
from tilescope.webapp.stamps import StampHeaders
from tilescope.webapp.view import register_view

__all__ = ["create_app"]


def create_app(
    library: Library,
    *,
    token: str | None,
    allowed_hosts: Sequence[str],
    fidelity: Fidelity | None = None,
) -> FastAPI:
    """Return the server with all pages and the API; call it once per process.

    Dash keeps its callbacks in global lists and supports one app per process.

    Parameters
    ----------
    library : Library
        The reports to serve.
    token : str or None
        The secret that a browser must present once; None disables the check.
    allowed_hosts : Sequence[str]
        Host names that the server accepts.
    fidelity : Fidelity or None
        The simulator's fidelity, for the help panel.
    """
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    # Mounted before Dash adds its catch-all route, so that unknown endpoints return JSON.
    server.mount("/api", _create_api(library))
    # `Dash("tilescope.webapp")`: page modules are imported under one name only.
    dash_app = Dash(
        "tilescope.webapp",
        server=server,  # type: ignore[arg-type]  # the annotation does not list all backends
        title="TileScope",
        update_title="",
        assets_folder=str(Path(__file__).parent / "assets"),
        # Loaded by the index page.
        assets_ignore=r"^theme\.js$",
        index_string=index_page(),
        serve_locally=True,
    )
    # No callback uses web sockets, and the gate refuses them.
    dash_app.backend.websocket_capability = False
    pages = page_modules()
    dash_app.layout = lambda: layout(library, pages, fidelity)
    register_shell(dash_app, pages, library)
    for page in pages:
        register_view(dash_app, page.PATH.strip("/"), getattr(page, "VIEW", ()))
        page.register(dash_app, library)
    # Dash collects its scripts on the first request to its root; other requests may come earlier.
    dash_app._setup_server()  # type: ignore[no-untyped-call]
    server.add_middleware(StampHeaders)
    server.add_middleware(
        Gate,
        token=token,
        allowed_hosts=allowed_hosts,
        policy=content_security_policy(dash_app.csp_hashes()),
    )
    return server


def _create_api(library: Library) -> FastAPI:
    """Return the API; all its errors have the form ``{ok, code, message, detail}``."""
    api = FastAPI(title="TileScope", docs_url=None, redoc_url=None, openapi_url=None)
    for module in api_modules():
        api.include_router(module.routes(library))

    @api.exception_handler(HTTPException)
    async def refuse(_request: Request, error: HTTPException) -> JSONResponse:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
        message = "Unknown endpoint." if error.status_code == 404 else str(error.detail)
        return JSONResponse(
            Failure(False, code, message, "").as_dict(), status_code=error.status_code
        )

    @api.exception_handler(RequestValidationError)
    async def correct(_request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = str(first["loc"][-1])
        message = f"Invalid parameter {place!r}: {first['msg']}."
        return JSONResponse(Failure(False, "bad_request", message, "").as_dict(), status_code=422)

    @api.exception_handler(WebError)
    @api.exception_handler(ReportError)
    @api.exception_handler(AnalyserError)
    async def explain(_request: Request, error: Exception) -> JSONResponse:
        status, failure = describe_failure(error)
        return JSONResponse(failure.as_dict(), status_code=status)

    return api
