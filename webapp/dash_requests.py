"""Requests to Dash's own routes, checked before Dash reads them.

Dash answers a malformed request with an internal error. Here, an unknown file of a component
package is 404, and the body of a callback is reduced to what a page sends: the name of a callback,
and the state of its page as strings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from dash import Dash
from dash.fingerprint import check_fingerprint
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tilescope.webapp.errors import Failure
from tilescope.webapp.frame import note_address
from tilescope.webapp.security import CALLBACK_PATH
from tilescope.webapp.view import view_names

__all__ = ["DashRequests"]

_SUITES_PATH = "/_dash-component-suites/"
#: The longest one, a selection of tiles, lists numbers.
_MOST_CHARACTERS = 100_000


class DashRequests:
    """ASGI layer in front of Dash that refuses what its pages never request.

    Parameters
    ----------
    app : ASGIApp
        The server with Dash.
    dash_app : Dash
        Knows the callbacks and the files of its component packages.
    pages : Sequence[ModuleType]
        The pages, which know the state that callbacks read.
    """

    def __init__(self, app: ASGIApp, *, dash_app: Dash, pages: Sequence[ModuleType]) -> None:
        self.app = app
        self._dash = dash_app
        self._names = view_names(pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if Dash can answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        note_address(scope["query_string"])
        if scope["path"].startswith(_SUITES_PATH) and not self._is_file(scope["path"]):
            await _failure(404, "not_found", "Unknown file.")(scope, receive, send)
            return
        if scope["path"] != CALLBACK_PATH or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        if Headers(scope=scope).get("content-type", "").partition(";")[0] != "application/json":
            refusal = _failure(
                415, "bad_content_type", "Expected the content type application/json."
            )
            await refusal(scope, receive, send)
            return
        body = await _whole_body(receive)
        if body is None:  # disconnected, or larger than allowed
            return
        request = self._canonical(body)
        if request is None:
            refusal = _failure(400, "bad_callback", "Malformed request; reload the page.")
            await refusal(scope, receive, send)
            return
        await self._forward(scope, request, receive, send)

    async def _forward(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Give Dash a request with another body."""
        scope = {**scope, "headers": list(scope["headers"])}
        MutableHeaders(scope=scope)["content-length"] = str(len(body))
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def take() -> Message:
            return messages.pop() if messages else await receive()

        await self.app(scope, take, send)

    def _is_file(self, path: str) -> bool:
        """Return whether a path names a file that a component package registered."""
        package, _, name = path.removeprefix(_SUITES_PATH).partition("/")
        files = self._dash.registered_paths
        plain, _ = check_fingerprint(name)  # type: ignore[no-untyped-call]
        return package in files and plain in files[package]

    def _canonical(self, body: bytes) -> bytes | None:
        """Return a callback's request as Dash's renderer writes it, None if it is malformed."""
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            return None
        if not isinstance(request, dict) or not isinstance(request.get("output"), str):
            return None
        callback = self._dash.callback_map.get(request["output"])
        # Those of the browser have no function here.
        if callback is None or "callback" not in callback or len(callback["inputs"]) != 1:
            return None
        (source,) = callback["inputs"]
        names = self._names.get(source["id"])
        # Besides states of pages, callbacks only read that a page is to be mounted.
        value = True if names is None else _view(request.get("inputs"), names)
        if value is None:
            return None
        return json.dumps(
            {
                "output": request["output"],
                "outputs": _outputs(callback["output"]),
                "inputs": [{**source, "value": value}],
                "changedPropIds": [f"{source['id']}.{source['property']}"],
                "state": [],
            }
        ).encode()


def _outputs(outputs: Any) -> Any:
    """Return the outputs of a callback as Dash's renderer sends them: one, or a list."""
    if isinstance(outputs, Sequence):
        return [_outputs(output) for output in outputs]
    return {"id": outputs.component_id, "property": outputs.component_property}


def _view(inputs: object, names: Sequence[str]) -> dict[str, str] | None:
    """Return the state of a page in a request's only input; None if a text is missing."""
    if not isinstance(inputs, list) or len(inputs) != 1:
        return None
    value = inputs[0].get("value") if isinstance(inputs[0], dict) else None
    if not isinstance(value, Mapping):
        return None
    view: dict[str, str] = {}
    for name in names:
        text: Any = value.get(name)
        if not isinstance(text, str) or len(text) > _MOST_CHARACTERS or not _is_text(text):
            return None
        view[name] = text
    return view


def _is_text(text: str) -> bool:
    """Return whether a string has a UTF-8 form: JSON may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _whole_body(receive: Receive) -> bytes | None:
    """Return the body of a request, None if its client is gone."""
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _failure(status: int, code: str, message: str) -> Response:
    """Return a JSON error response."""
    return JSONResponse(Failure(False, code, message, "").as_dict(), status_code=status)
