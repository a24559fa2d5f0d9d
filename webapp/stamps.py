"""Stamps of report files: what a page shows comes from one state of a file.

An answer names the stamp of every file that it was read from in the header ``X-TileScope-Stamps``.
A page sends the stamps that it knows in the same header with its next requests (assets/stamps.js);
where the file is another one by then, the request is refused with `ReportChanged`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tilescope.reports.stamp import Stamp, stamp_text
from tilescope.webapp.errors import ReportChanged

__all__ = ["HEADER", "StampHeaders", "note_stamp", "stamps_of_request"]

HEADER = "X-TileScope-Stamps"
_MOST_STAMPS = 64


@dataclass
class _Exchange:
    """Stamps that a page knows and those of its answer, by report id."""

    known: dict[str, str]
    read: dict[str, str] = field(default_factory=dict)


_current: ContextVar[_Exchange | None] = ContextVar("stamps", default=None)


def note_stamp(report_id: str, stamp: Stamp) -> None:
    """Note that the current answer is read from a file.

    Raises
    ------
    ReportChanged
        When the page was made from another state of the file.
    """
    exchange = _current.get()
    if exchange is None:
        return
    text = stamp_text(stamp)
    exchange.read[report_id] = text
    if exchange.known.get(report_id, text) != text:
        raise ReportChanged("The report file changed; reload the page.")


@contextmanager
def stamps_of_request(header: str) -> Iterator[dict[str, str]]:
    """Take the stamps that a page knows from its header; yields those of the answer."""
    parts = [part.partition("=") for part in header.split(",")[:_MOST_STAMPS]]
    exchange = _Exchange({name.strip(): stamp.strip() for name, sign, stamp in parts if sign})
    token = _current.set(exchange)
    try:
        yield exchange.read
    finally:
        _current.reset(token)


class StampHeaders:
    """ASGI layer that reads the stamps of a request and writes those of its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request with the stamps in its header."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with stamps_of_request(Headers(scope=scope).get(HEADER, "")) as read:

            async def send_stamped(message: Message) -> None:
                if message["type"] == "http.response.start" and read:
                    text = ",".join(f"{name}={stamp}" for name, stamp in read.items())
                    MutableHeaders(scope=message)[HEADER] = text
                await send(message)

            await self.app(scope, receive, send_stamped)
