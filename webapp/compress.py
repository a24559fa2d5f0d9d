"""Compressed responses: texts and scripts with zstd or gzip, whichever the browser takes.

Files whose address changes with their content are compressed once, and kept.
"""

from __future__ import annotations

import gzip
import threading

import zstandard
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Compression"]

#: Smaller responses gain nothing.
_LEAST_BYTES = 1_000
#: Responses that are longer are passed on as they come.
_MOST_BYTES = 32 << 20
_MOST_KEPT_BYTES = 24 << 20
_TYPES = ("text/", "application/json", "application/javascript", "image/svg+xml")
#: What says that an address always has the same content.
_FOR_EVER = "max-age=31536000"
#: Levels of zstd and gzip: for answers, and for what is kept.
_ANSWER_LEVEL = 1
_KEPT_LEVEL = 9


#: Path, query and coding.
_Key = tuple[str, bytes, str]


class Compression:
    """ASGI layer that compresses responses whose client accepts it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._lock = threading.Lock()
        self._kept: dict[_Key, bytes] = {}
        self._kept_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond, compressed if that is accepted."""
        coding = _coding(scope) if scope["type"] == "http" else ""
        if not coding:
            await self.app(scope, receive, send)
            return
        await self.app(scope, receive, _Response(self, scope, coding, send).take)

    def compressed(self, scope: Scope, coding: str, body: bytes, is_fixed: bool) -> bytes:
        """Return a body compressed; that of a fixed address comes from memory the next time."""
        if not is_fixed:
            return _compress(body, coding, _ANSWER_LEVEL)
        key = (scope["path"], scope["query_string"], coding)
        with self._lock:
            cached = self._kept.get(key)
        if cached is not None:
            return cached
        compressed = _compress(body, coding, _KEPT_LEVEL)
        with self._lock:
            if key not in self._kept and self._kept_bytes + len(compressed) <= _MOST_KEPT_BYTES:
                self._kept[key] = compressed
                self._kept_bytes += len(compressed)
        return compressed


def _compress(body: bytes, coding: str, level: int) -> bytes:
    """Return a body compressed."""
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=level).compress(body)
    return gzip.compress(body, level, mtime=0)


class _Response:
    """Collects a response and sends it compressed."""

    def __init__(self, layer: Compression, scope: Scope, coding: str, send: Send) -> None:
        self._layer = layer
        self._scope = scope
        self._coding = coding
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()

    async def take(self, message: Message) -> None:
        """Take a message of the app."""
        if message["type"] == "http.response.start" and _is_text(message):
            self._start = message
            return
        if self._start is None or message["type"] != "http.response.body":
            await self._send(message)
            return
        self._body += message.get("body", b"")
        has_more = message.get("more_body", False)
        if has_more and len(self._body) <= _MOST_BYTES:
            return
        start, self._start = self._start, None
        body = bytes(self._body)
        headers = MutableHeaders(scope=start)
        headers.add_vary_header("Accept-Encoding")
        if not has_more and len(body) >= _LEAST_BYTES:
            is_fixed = _FOR_EVER in headers.get("cache-control", "")
            body = self._layer.compressed(self._scope, self._coding, body, is_fixed)
            headers["Content-Encoding"] = self._coding
            headers["Content-Length"] = str(len(body))
            # The tag of the file as it is does not name this form of it.
            if "etag" in headers:
                headers["ETag"] = "W/" + headers["etag"].removeprefix("W/")
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body, "more_body": has_more})


def _coding(scope: Scope) -> str:
    """Return the coding to use for a request, empty for none."""
    accepted = Headers(scope=scope).get("accept-encoding", "")
    parts = [part.partition(";") for part in accepted.lower().split(",")]
    codings = {
        name.strip() for name, _, weight in parts if weight.replace(" ", "").rstrip("0.") != "q="
    }
    return next((coding for coding in ("zstd", "gzip") if coding in codings), "")


def _is_text(message: Message) -> bool:
    """Return whether a response is whole, uncompressed and of a kind that shrinks."""
    headers = Headers(raw=message["headers"])
    kind = headers.get("content-type", "")
    return (
        message["status"] == 200 and "content-encoding" not in headers and kind.startswith(_TYPES)
    )
