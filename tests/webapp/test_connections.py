"""A real server under hostile connections: half-open, slow, and of any length."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from tests.faults.requests import damaged_reports
from tests.faults.server import CLOSED, WAITING, Server, read_reply, running_server

from tilescope.webapp.connections import HEAD_BYTES, MOST_CONNECTIONS
from tilescope.webapp.security import MAX_BODY_BYTES

_CALLBACK = "/_dash-update-component"
_JSON = "Content-Type: application/json"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("connections")
    damaged_reports(root / "reports")
    with running_server(root / "reports", root / "log") as server:
        yield server
        assert not server.complaints()


def _open(server: Server, stack: ExitStack, n: int, data: bytes) -> list[socket.socket]:
    """Open connections that send data and then nothing."""
    connections = []
    for _ in range(n):
        connection = stack.enter_context(server.connect(20))
        connection.sendall(data)
        connections.append(connection)
    return connections


def _half_head(server: Server) -> bytes:
    return server.head("GET", "/")[:-20]


def _half_body(server: Server, *, has_cookie: bool) -> bytes:
    head = server.head("POST", _CALLBACK, [_JSON, "Content-Length: 500"])
    return (head if has_cookie else head.replace(b"Cookie", b"X-Cookie")) + b"{"


@pytest.mark.parametrize("has_cookie", [False, True])
def test_honest_requests_are_answered_beside_a_thousand_stalled_ones(
    server: Server, has_cookie: bool
) -> None:
    with ExitStack() as stack:
        stalled = _open(server, stack, 500, _half_head(server))
        stalled += _open(server, stack, 500, _half_body(server, has_cookie=has_cookie))
        for _ in range(5):
            assert server.get("/").status == 200
        # The server makes room once the young ones are not young any more.
        time.sleep(0.3)
        assert server.get("/").status == 200
        opened = [connection for connection in stalled if not _is_closed(connection)]
        assert len(opened) <= MOST_CONNECTIONS


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the other side has closed a connection."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


@pytest.mark.slow
def test_every_client_that_keeps_the_server_waiting_is_cut_off(server: Server) -> None:
    open_head = server.head("GET", "/_dash-layout").replace(b"Connection: close\r\n", b"")
    clients = {
        "nothing": lambda: _status(server, b""),
        "empty lines": lambda: _status(server, b"\r\n" * 3),
        "half a head": lambda: _status(server, _half_head(server)),
        "half a body": lambda: _status(server, _half_body(server, has_cookie=True)),
        "no second request": lambda: _status(server, open_head),
        "half a second head": lambda: _status(server, open_head + _half_head(server)),
        "single bytes": lambda: _trickle(server, b"G", 0.1),
        "no reading": lambda: _trickle(server, open_head * 100, 0.0),
    }
    with ThreadPoolExecutor(len(clients)) as pool:
        running = {name: pool.submit(client) for name, client in clients.items()}
        ends = {name: future.result() for name, future in running.items()}
    assert ends.pop("empty lines") in {400, 408}
    assert ends == {
        "nothing": CLOSED, "half a head": 408, "half a body": 408,
        "no second request": 200, "half a second head": 200, "single bytes": CLOSED,
        "no reading": CLOSED,
    }  # fmt: skip


def _status(server: Server, data: bytes) -> int:
    """Send data, and return the first status once the connection is closed."""
    with server.connect(20) as connection:
        connection.sendall(data)
        return read_reply(connection).status


def _trickle(server: Server, data: bytes, pause_s: float) -> int:
    """Send data again and again without reading; return when the connection is cut off."""
    end = time.monotonic() + 20
    with server.connect(20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Slow: " if pause_s else data)
        while time.monotonic() < end:
            try:
                connection.sendall(data)
            except OSError as error:
                return WAITING if isinstance(error, TimeoutError) else CLOSED
            time.sleep(pause_s)
    return WAITING


def test_many_requests_share_a_connection(server: Server) -> None:
    request = server.head("GET", "/api/help", ["X: " + "y" * 3_000])
    first = request.replace(b"Connection: close\r\n", b"")
    with server.connect(20) as connection:
        connection.sendall(first * 40 + request)
        data = b""
        while part := connection.recv(1 << 16):
            data += part
    assert data.count(b"HTTP/1.1 200") == 41


@pytest.mark.parametrize(
    "head",
    [
        b"GET /?" + b"a" * (80 << 20) + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * HEAD_BYTES + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
        b"A" * HEAD_BYTES * 2,
    ],
    ids=["80 MB of address", "header", "headers", "garbage"],
)
def test_a_long_head_is_refused_before_the_token_is_looked_at(server: Server, head: bytes) -> None:
    before = server.memory_bytes()
    reply = server.send(head)
    # A client that goes on sending may be cut off before it reads the answer.
    assert reply.status in {400, 431, CLOSED}
    assert server.memory_bytes() - before < 8 << 20


def test_the_longest_head_that_is_allowed_passes(server: Server) -> None:
    head = server.head("GET", "/", ["X-Long: "])
    padding = b"a" * (HEAD_BYTES - len(head))
    full = head.replace(b"X-Long: ", b"X-Long: " + padding)
    assert len(full) == HEAD_BYTES
    assert server.send(full).status == 200
    assert server.send(full.replace(b"aaa", b"aaaa", 1)).status == 431


def test_a_body_is_refused_once_it_is_too_long(server: Server) -> None:
    size = MAX_BODY_BYTES + 1
    declared = server.head("POST", _CALLBACK, [_JSON, f"Content-Length: {size}"])
    assert server.send(declared).status == 413
    assert server.send(declared + b"x" * size).status == 413
    chunked = server.head("POST", _CALLBACK, [_JSON, "Transfer-Encoding: chunked"])
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    assert server.send(chunked + chunk * 17).status == 413
    # Where nothing reads a body, none is taken.
    for path in ("/", "/api/reports"):
        assert server.send(server.head("GET", path, ["Content-Length: 5"]) + b"12345").status == 413


def test_the_token_is_asked_for_before_a_body_is_read(server: Server) -> None:
    head = server.head("POST", _CALLBACK, [_JSON, "Content-Length: 100000"])
    reply = server.send(head.replace(b"Cookie", b"X-Cookie"))
    assert reply.status == 401


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        bytes(range(256)),
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(server: Server, data: bytes) -> None:
    reply = server.send(data)
    assert reply.status in {400, 408, 413, 501, CLOSED}
