"""Connections of the server: how long and how much one may keep it waiting, and how many there are.

uvicorn keeps a connection that never sends its whole request for ever, and reads a request head
of any length. The protocol of this module is uvicorn's own, whichever parser is installed, with
deadlines and limits around it.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from tilescope.webapp.errors import Failure

__all__ = ["HEAD_BYTES", "MOST_CONNECTIONS", "Connection", "bounded_protocol"]

#: Bytes of a request line and its headers.
HEAD_BYTES = 64 << 10
#: Open connections. With more, the one that has kept the server waiting longest is closed.
MOST_CONNECTIONS = 300
#: A connection younger than this is only closed for others if there are twice as many.
_GRACE_S = 0.2
#: Seconds that a client has: for a head, a body, reading a response, between two requests, and
#: for what it still sends after an early response.
_HEAD_S = 5.0
_BODY_S = 10.0
_READING_S = 10.0
_IDLE_S = 10.0
_LINGER_S = 0.5
_LINGER_BYTES = 4 << 20
#: The parser gets this much at a time, so that the length of a head is known exactly.
_SLICE_BYTES = 8 << 10

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}
_HEAD = b"""HTTP/1.1 %d %s\r
content-type: application/json\r
content-length: %d\r
cache-control: no-store\r
content-security-policy: default-src 'none'\r
x-content-type-options: nosniff\r
connection: close\r
\r
"""


class _Outgoing:
    """A transport that takes no data once it closes; uvloop's raises an error then."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data, unless the connection closes."""
        if not self._transport.is_closing():
            self._transport.write(data)


class Connection(asyncio.Protocol):
    """A connection with deadlines; `bounded_protocol` joins it with uvicorn's protocol.

    Of uvicorn's protocol, it uses ``cycle``, the newest request, with ``more_body`` (its body is
    not whole yet), ``response_started`` and ``response_complete``; ``pipeline``, the requests that
    wait for a response to another one; and ``flow``. Without them, the deadlines do not apply, and
    the limits on open connections do.
    """

    transport: asyncio.Transport
    flow: Any
    #: All connections of a server in order of the time from which they keep it waiting; those
    #: that do not have None.
    waiting: dict[Connection, float | None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline of the first head; make room if too many connections are open."""
        self._loop = asyncio.get_running_loop()
        self._state = ""
        self._timer: asyncio.TimerHandle | None = None
        self._unparsed = b""
        self._head_bytes = 0
        self._lingering_bytes = 0
        self._is_writing_paused = False
        self._is_refused = False
        super().connection_made(_Outgoing(transport))  # type: ignore[arg-type]  # stands for it
        self.waiting[self] = None
        self._note_state()
        if len(self.waiting) > MOST_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.waiting.pop(self, None)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Give data to the parser, unless the head of the request is too long."""
        self._unparsed += data
        self._parse()

    def _parse(self) -> None:
        """Parse what came, as long as no request waits for the response to another one."""
        view = memoryview(self._unparsed)
        while view and not self.transport.is_closing() and not self._has_queue():
            if self._is_refused or self._is_response_early():
                self._lingering_bytes += len(view)
                if self._lingering_bytes > _LINGER_BYTES:
                    self.transport.abort()
                if self._is_refused:
                    view = view[len(view) :]
                    break
            view = view[self._parse_slice(view) :]
        self._unparsed = b"" if self.transport.is_closing() else bytes(view)
        if self._unparsed:
            self._pause_reading()
        self._note_state()

    def _parse_slice(self, view: memoryview) -> int:
        """Parse a slice of the data, and return its length."""
        is_head, cycle = self._is_head_expected(), getattr(self, "cycle", None)
        n_bytes = min(_SLICE_BYTES, HEAD_BYTES - self._head_bytes if is_head else _SLICE_BYTES)
        part = bytes(view[:n_bytes])
        self._head_bytes += len(part) if is_head else 0
        super().data_received(part)
        if not self._is_head_expected() or getattr(self, "cycle", None) is not cycle:
            self._head_bytes = 0
        elif self._head_bytes >= HEAD_BYTES:
            message = f"Request head larger than {HEAD_BYTES:,} bytes."
            self.refuse(431, "head_too_large", message)
        return n_bytes

    def _has_queue(self) -> bool:
        """Return whether a whole request waits for its response, so that others wait for it."""
        cycle = getattr(self, "cycle", None)
        is_running = cycle is not None and not getattr(cycle, "response_complete", True)
        return bool(getattr(self, "pipeline", ())) or (is_running and self._is_head_expected())

    def _pause_reading(self) -> None:
        if hasattr(self, "flow"):
            self.flow.pause_reading()

    def pause_writing(self) -> None:
        """Start the deadline for a client that does not read its response."""
        self._is_writing_paused = True
        super().pause_writing()
        self._note_state()

    def resume_writing(self) -> None:
        """End that deadline."""
        self._is_writing_paused = False
        super().resume_writing()
        self._note_state()

    def on_response_complete(self) -> None:
        """Start the deadline of the next request, after uvicorn's own work."""
        super().on_response_complete()  # type: ignore[misc]  # uvicorn's protocol has it
        # uvicorn reads on, whatever waits.
        if self._has_queue():
            self._pause_reading()
        elif self._unparsed:
            self._loop.call_soon(self._parse)
        self._note_state()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's signature
        """Refuse what the parser cannot read."""
        self.refuse(400, "bad_request", "Malformed HTTP request.")

    def refuse(self, status: int, code: str, message: str) -> None:
        """Send an error instead of what the client asked for, and close.

        What the client still sends is read for a moment: closing at once would discard the
        response on its way.
        """
        if self._is_refused or self.transport.is_closing():
            return
        cycle = getattr(self, "cycle", None)
        if cycle is not None and not getattr(cycle, "response_complete", True):
            has_started = bool(getattr(cycle, "response_started", True))
            cycle.disconnected = True
            cycle.message_event.set()
            if has_started:
                self.transport.abort()
                return
        body = json.dumps(Failure(False, code, message, "").as_dict()).encode()
        self.transport.write(_HEAD % (status, _REASONS[status], len(body)) + body)
        self._is_refused = True
        self._note_state()

    def _is_head_expected(self) -> bool:
        """Return whether the next byte belongs to the head of a request."""
        cycle = getattr(self, "cycle", None)
        return cycle is None or not getattr(cycle, "more_body", False)

    def _is_response_early(self) -> bool:
        """Return whether the response was sent before the whole request had come."""
        cycle = getattr(self, "cycle", None)
        is_complete = bool(getattr(cycle, "response_complete", False))
        return is_complete and not self._is_head_expected()

    def _current_state(self) -> tuple[str, float]:
        """Return what the server waits for, and for how long; an empty name for nothing."""
        cycle = getattr(self, "cycle", None)
        if self._is_refused or self._is_response_early():
            return "closing", _LINGER_S
        if self._is_writing_paused:
            return "reading", _READING_S
        if not hasattr(self, "cycle"):
            return "", 0.0
        if cycle is None or cycle.response_complete:
            is_idle = cycle is not None and not self._head_bytes
            return ("idle", _IDLE_S) if is_idle else ("head", _HEAD_S)
        return ("body", _BODY_S) if cycle.more_body else ("", 0.0)

    def _note_state(self) -> None:
        """Start the deadline of a new state; one that lasts keeps the deadline that it has."""
        state, seconds = self._current_state()
        if state == self._state or self not in self.waiting:
            return
        self._state = state
        self._stop_timer()
        del self.waiting[self]
        self.waiting[self] = self._loop.time() if state else None
        if state:
            self._timer = self._loop.call_later(seconds, self._end, state)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, state: str) -> None:
        """Close a connection whose deadline is over."""
        self._timer = None
        if state in {"head", "body"} and not self.transport.is_closing():
            if state == "body" or self._head_bytes:
                self.refuse(408, "request_timeout", "The request did not arrive in time.")
                return
            self.transport.close()
            return
        self.transport.abort()

    def _make_room(self) -> None:
        """Close the connections that have kept the server waiting longest, or refuse this one."""
        now = self._loop.time()
        for connection, start in self._others_waiting():
            is_young = now - start < _GRACE_S and len(self.waiting) <= 2 * MOST_CONNECTIONS
            if is_young or len(self.waiting) <= MOST_CONNECTIONS:
                return
            del self.waiting[connection]
            connection.transport.abort()
        if len(self.waiting) > 2 * MOST_CONNECTIONS:
            self.refuse(503, "too_many_connections", "Too many connections; try again.")

    def _others_waiting(self) -> list[tuple[Connection, float]]:
        """Return the connections for whose client the server waits, the longest wait first."""
        return [
            (connection, start)
            for connection, start in self.waiting.items()
            if start is not None and connection is not self
        ]


def bounded_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with deadlines, for one server."""
    members: dict[str, Any] = {"waiting": {}}
    return type("BoundedProtocol", (Connection, AutoHTTPProtocol), members)
