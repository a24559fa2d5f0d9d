"""Requests that pages really send, and ways to break them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from tests.faults.server import Server

from tilescope.webapp.api import modules
from tilescope.webapp.library import Library
from tilescope.webapp.pages import modules as pages
from tilescope.webapp.view import view_names

__all__ = ["Request", "broken", "garbled", "samples"]

#: Values in place of an honest one.
_TEXTS = (
    "", "0", "-1", "1e999", "nan", "inf:inf", "5:1", "999999999999999999999", "1_0", "٣", "true",
    "null", "[]", "{}", "'", '"', "<script>alert(1)</script>", "../../../etc/passwd", "/etc",
    "%00", "\x00", "\n\r\n", "\u202e", "\ud800", "é" * 300, "a" * 3_000, "0-999999999", "0,0,0,1-",
    "tile:1", "step:99", "step:", ":", "::", "c5", "c", "table", "map", "ipu:9", "\\", "~", "𝟙",
)  # fmt: skip
_VALUES: tuple[object, ...] = (
    None, True, 0, -1, 1e308, [], {}, [[]], {"a": {}}, [None], 10**400, "x" * 200_000, ["report"],
)  # fmt: skip
_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW")
_BODIES = (
    b"", b"null", b"[]", b"{}", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b"{", b'"\\ud800"',
    b"1" * 10_000, b"NaN", b"x" * 70_000, b'{"output":' + b"9" * 9_000 + b"}",
)  # fmt: skip
_TYPES = (
    "application/json",
    "text/plain",
    "multipart/form-data; boundary=x",
    "",
    "application/xml",
)
_PATHS = (
    "/_dash-component-suites/nothing/x.js", "/_dash-component-suites/os/__init__.py",
    "/_dash-component-suites/dash/../../etc/passwd", "/_dash-component-suites/dash/%00",
    "/_dash-component-suites//", "/_dash-component-suites/dash/deps/%2e%2e/x.js", "/assets/%00",
    "/assets/..%2f..%2fapp.py", "/assets/" + "a" * 1_900, "/assets/all/none.js", "/docs/%00",
    "/docs/images/" + "b" * 400 + ".png", "/docs/images/..%2findex.md", "/docs/" + "c" * 1_900,
    "/" + "d" * 60_000, "//evil.example/", "/%ff%fe", "/api/" + "e/" * 500, "/api/%00/live",
    "/_reload-hash", "/_favicon.ico", "/_dash-ws-callback", "/_dash-nothing",
    "/docs?find=" + "f" * 900,
    "*", "http://127.0.0.1/", "/?token=", "/?report=%ff", "/reports?x",
)  # fmt: skip


_HEADERS = (
    b"Transfer-Encoding: chunked", b"Content-Length: -1", b"Content-Length: 9999999999",
    b"Expect: 100-continue", b"Upgrade: websocket", b"Range: bytes=0-,0-,5-1",
)  # fmt: skip
_PAIR = 2
#: Words in the names of components that name no tab.
_NO_TABS = {"", "error", "children", "data", "note", "tab", "columns", "style", "field", "memory",
            "liveness", "operations", "operation", "trace", "headlines", "figure"}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """A request: method, path, parameters, headers, body."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[str, ...] = ()
    body: bytes = b""
    document: dict[str, object] = field(default_factory=dict)

    def encode(self, server: Server) -> bytes:
        """Return the bytes that go over the connection."""
        pairs = [f"{_quoted(name)}={_quoted(value)}" for name, value in self.query]
        target = self.path + ("?" + "&".join(pairs) if pairs else "")
        body = json.dumps(self.document).encode() if self.document else self.body
        headers = list(self.headers)
        if self.document:
            headers.append("Content-Type: application/json")
        if body:
            headers.append(f"Content-Length: {len(body)}")
        return server.head(self.method, target, headers) + body


def samples(server: Server, report_ids: Sequence[str]) -> list[Request]:
    """Return honest requests for every page, endpoint and callback.

    Parameters
    ----------
    server : Server
        Whose callbacks.
    report_ids : Sequence[str]
        The first is the report; of two, callbacks compare it with the other.
    """
    results = [Request("GET", page.PATH, (("report", report_ids[0]),)) for page in pages()]
    results += [
        Request("GET", path) for path in ("/", "/docs/", "/_dash-layout", "/_dash-dependencies")
    ]
    results += [Request("GET", "/api/reports"), Request("GET", "/api/help")]
    for module in modules():
        for route in module.routes(Library([])).routes:
            query_fields = route.dependant.query_params  # codespell:ignore dependant
            aliases = [parameter.alias for parameter in query_fields]
            path = route.path.replace("{report_id}", report_ids[0])
            query = tuple((name, report_ids[-1] if name == "with" else "0") for name in aliases)
            results.append(Request("GET", f"/api{path}", query))
    names = view_names(pages())
    for callback in json.loads(server.get("/_dash-dependencies").body):
        if callback["clientside_function"] or len(callback["inputs"]) != 1:
            continue
        needed = names.get(callback["inputs"][0]["id"], ())
        for tab in _tabs(callback["output"]) if "tab" in needed else ("",):
            state = dict.fromkeys(needed, "") | {"report": report_ids[0], "tab": tab}
            state["with"] = report_ids[1] if len(report_ids) == _PAIR else ""
            results.append(_callback(callback, state))
    return results


def _callback(callback: dict[str, Any], state: dict[str, str]) -> Request:
    """Return the request of a callback, as Dash's renderer sends it."""
    source = callback["inputs"][0]
    document = {
        "output": callback["output"], "outputs": [], "state": [],
        "inputs": [{"id": source["id"], "property": "data", "value": state}],
        "changedPropIds": [f"{source['id']}.data"],
    }  # fmt: skip
    return Request("POST", "/_dash-update-component", document=document)


def broken(honest: Request, draw: random.Random, report_ids: Sequence[str]) -> Request:
    """Return a request with one or two parts replaced; its form stays that of a request."""
    request = honest
    for _ in range(draw.choice((1, 1, 2))):
        kind = draw.randrange(8)
        if kind == 0:
            request = replace(request, method=draw.choice(_METHODS))
        elif kind == 1:
            path = draw.choice(_PATHS)
            request = replace(request, path=path, query=() if "?" in path else request.query)
        elif kind == 2:
            body = draw.choice(_BODIES)
            kinds = (f"Content-Type: {draw.choice(_TYPES)}",)
            request = replace(request, document={}, body=body, headers=request.headers + kinds)
        elif request.document:
            request = replace(
                request, document=_broken_document(request.document, draw, report_ids)
            )
        elif request.query:
            query = list(request.query)
            position = draw.randrange(len(query))
            query[position] = (query[position][0], draw.choice((*_TEXTS, *report_ids)))
            request = replace(request, query=tuple(query[: draw.choice((None, None, -1))]))
        else:
            parts = request.path.split("/")
            parts[draw.randrange(min(1, len(parts) - 1), len(parts))] = _quoted(draw.choice(_TEXTS))
            request = replace(request, path="/".join(parts))
    return request


def garbled(data: bytes, draw: random.Random) -> bytes:
    """Return bytes with some of them changed, removed, doubled or moved."""
    garbage = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        offset = draw.randrange(len(garbage))
        kind = draw.randrange(5)
        if kind == 0:
            garbage[offset] = draw.randrange(256)
        elif kind == 1:
            del garbage[offset : offset + draw.randint(1, 30)]
        elif kind == 2:
            garbage[offset:offset] = garbage[offset : offset + draw.randint(1, 60)]
        elif kind == 3:
            garbage[offset:offset] = draw.choice(
                (b"\r\n", b"\n", b"\x00", b"\r\n\r\n", b": ", b" ", b"%", b"?")
            )
        else:
            line_end = garbage.find(b"\r\n") + 2
            garbage[line_end:line_end] = draw.choice(_HEADERS) + b"\r\n"
        if not garbage:
            return b"\r\n"
    return bytes(garbage)


def _broken_document(
    document: dict[str, object], draw: random.Random, report_ids: Sequence[str]
) -> dict[str, object]:
    """Return the body of a callback with one part replaced."""
    copy = json.loads(json.dumps(document))
    if draw.random() < 0.3:
        copy[draw.choice(sorted(copy))] = draw.choice((*_VALUES, *_TEXTS))
        return dict(copy)
    inputs = copy["inputs"]
    part = inputs[0] if isinstance(inputs, list) and inputs else None
    if not isinstance(part, dict) or draw.random() < 0.15:
        copy["inputs"] = draw.choice(([draw.choice(_VALUES)], [part, part], part, [[part]]))
        return dict(copy)
    view = part.get("value")
    if not isinstance(view, dict):
        return dict(copy)
    name = draw.choice(sorted(view))
    view[name] = draw.choice((*_TEXTS, *_TEXTS, *report_ids, *_VALUES))
    if "tab" in view and draw.random() < 0.7:
        view["tab"] = draw.choice(_tabs(str(copy["output"])))
    return dict(copy)


def _tabs(output: str) -> Sequence[str]:
    """Return names of tabs that a callback may answer for: the words of its outputs."""
    words = output.replace(".", "-").split("-")
    return sorted(set(words) - _NO_TABS) or [""]


def _quoted(text: str) -> str:
    """Return a text for an address."""
    return quote(text.encode("utf-8", "surrogatepass"), safe="%")
