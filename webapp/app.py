"""The web app: pages, API and security layer, one instance per process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from dash import Dash
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from tilescope.analyser.catalogue.catalogue import Catalogue
from tilescope.analyser.errors import AnalyserError
from tilescope.reports.errors import ReportError
from tilescope.webapp import bundle
from tilescope.webapp.api import help as help_api
from tilescope.webapp.api import modules as api_modules
from tilescope.webapp.api import reports as reports_api
from tilescope.webapp.compress import Compression
from tilescope.webapp.dash_requests import DashRequests
from tilescope.webapp.documentation import Documentation
from tilescope.webapp.errors import Failure, WebError, describe_failure
from tilescope.webapp.frame import Frame
from tilescope.webapp.help import Fidelity
from tilescope.webapp.home import Overviews, home_values
from tilescope.webapp.library import Library
from tilescope.webapp.live import register_live
from tilescope.webapp.pages import modules as page_modules
from tilescope.webapp.security import Gate, content_security_policy
from tilescope.webapp.slots import layout, register_slots
from tilescope.webapp.stamps import StampHeaders
from tilescope.webapp.units import PreferredUnits
from tilescope.webapp.view import register_view

__all__ = ["create_app"]

#: Scripts that Dash would load with every page and no page needs: tables, core components and
#: their polyfill.
_UNUSED = ("/dash/dash_table/", "/dash/dcc/", "/deps/polyfill@")


def create_app(
    library: Library,
    *,
    token: str | None,
    allowed_hosts: Sequence[str],
    fidelity: Fidelity | None = None,
    catalogue: Catalogue | None = None,
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
    catalogue : Catalogue or None
        Knows facts of reports that earlier processes read.
    """
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    overviews = Overviews(library.states, catalogue)
    pages = page_modules()
    frame = Frame(library, pages)
    # Before Dash adds its catch-all route: the home page, and unknown endpoints that return JSON.
    server.mount("/api", _create_api(library, overviews, fidelity))
    server.add_api_route("/", _home_route(frame, library, overviews), methods=["GET"])
    server.add_api_route("/reports", _to_home, methods=["GET"])
    server.include_router(_document_routes(frame))
    server.include_router(bundle.routes())
    # `Dash("tilescope.webapp")`: page modules are imported under one name only.
    dash_app = _App(
        "tilescope.webapp",
        server=server,  # type: ignore[arg-type]  # the annotation does not list all backends
        title="TileScope",
        update_title="",
        assets_folder=str(Path(__file__).parent / "assets"),
        include_assets_files=False,  # `bundle` has them
        serve_locally=True,
        # A page is mounted when it is visited.
        suppress_callback_exceptions=True,
    )
    dash_app.frame = frame
    # No callback uses web sockets, and the gate refuses them.
    dash_app.backend.websocket_capability = False
    dash_app.layout = layout(pages)
    register_slots(dash_app, pages)
    for page in pages:
        register_view(dash_app, page)
        page.register(dash_app, library)
    register_live(dash_app, pages)
    _set_up(dash_app)
    _explain_errors(server)
    server.add_middleware(DashRequests, dash_app=dash_app, pages=pages)
    server.add_middleware(StampHeaders)
    server.add_middleware(PreferredUnits)
    server.add_middleware(
        Gate,
        token=token,
        allowed_hosts=allowed_hosts,
        policy=content_security_policy(dash_app.csp_hashes()),
    )
    server.add_middleware(Compression)
    return server


class _App(Dash):
    """Dash inside the frame."""

    frame: Frame

    def interpolate_index(self, **parts: str) -> str:  # type: ignore[override]  # by keywords only
        """Return the document: the frame around what Dash adds to its page."""
        scripts = f"{_used(parts['scripts'])}\n{bundle.tag('js')}"
        return self.frame.app(
            {**parts, "css": parts["css"] + bundle.tag("css"), "scripts": scripts}
        )


def _set_up(dash_app: Dash) -> None:
    """Let Dash collect its scripts now: it does on its first request, and others may come earlier.

    A Dash without that function does so by itself.
    """
    set_up = getattr(dash_app, "_setup_server", None)
    if callable(set_up):
        set_up()


def _used(scripts: str) -> str:
    """Return the scripts that pages need, out of those that Dash lists."""
    lines = scripts.replace("<script", "\n<script").split("\n")
    return "\n".join(line for line in lines if not any(map(line.count, _UNUSED)))


def _home_route(
    frame: Frame, library: Library, overviews: Overviews
) -> Callable[[Request], Response]:
    """Return the endpoint of the home page."""

    def home(request: Request, find: Annotated[str, Query(max_length=200)] = "") -> Response:
        """Return the list of reports; a link to a report leads to its summary."""
        if "report" in request.query_params:
            return RedirectResponse(f"/summary?{request.query_params}")
        return HTMLResponse(frame.home(**home_values(library, overviews, find)))

    return home


def _document_routes(frame: Frame) -> APIRouter:
    """Return the pages of the documentation."""
    router = APIRouter(prefix="/docs")
    documentation = Documentation()

    @router.get("")
    def lead_to_index() -> Response:
        """Lead to the index: its links are relative."""
        return RedirectResponse("/docs/")

    @router.get("/images/{name}")
    def show_image(name: str) -> Response:
        """Return an image of a page."""
        image = documentation.image(name)
        if image is None:
            return HTMLResponse(frame.missing(), status_code=404)
        return Response(image[0], media_type=image[1])

    @router.get("/{path:path}")
    def show_document(path: str, find: Annotated[str, Query(max_length=200)] = "") -> Response:
        """Return a page, the index, or what a search found."""
        page = documentation.page(path)
        if page is None:
            return HTMLResponse(frame.missing(), status_code=404)
        if path:
            return HTMLResponse(frame.document(page))
        return HTMLResponse(frame.documents(page, find.strip(), documentation.search(find)))

    return router


def _to_home() -> Response:
    """Lead an address of earlier versions to the list of reports."""
    return RedirectResponse("/")


def _create_api(library: Library, overviews: Overviews, fidelity: Fidelity | None) -> FastAPI:
    """Return the API."""
    api = FastAPI(title="TileScope", docs_url=None, redoc_url=None, openapi_url=None)
    for module in api_modules():
        api.include_router(module.routes(library))
    api.include_router(reports_api.routes(library, overviews))
    api.include_router(help_api.routes(fidelity))
    _explain_errors(api)
    return api


def _explain_errors(api: FastAPI) -> None:
    """Give all errors of a server the form ``{ok, code, message, detail}``."""

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
        position = str(first["loc"][-1])
        message = f"Invalid parameter {position!r}: {first['msg']}."
        return JSONResponse(Failure(False, "bad_request", message, "").as_dict(), status_code=422)

    @api.exception_handler(WebError)
    @api.exception_handler(ReportError)
    @api.exception_handler(AnalyserError)
    async def explain(_request: Request, error: Exception) -> JSONResponse:
        status, failure = describe_failure(error)
        return JSONResponse(failure.as_dict(), status_code=status)
