"""A real server in a process of its own, and raw requests to it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CLOSED", "WAITING", "Reply", "Server", "running_server"]

_ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"Open http://127\.0\.0\.1:(\d+)/\?token=(\S+)")
_START_S = 60
CLOSED = 0
WAITING = -1


@dataclass(frozen=True)
class Reply:
    """What came back on a connection; without an answer, its status is `CLOSED` or `WAITING`."""

    status: int
    head: bytes
    body: bytes


@dataclass(frozen=True)
class Server:
    """A server on loopback."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    cookie: str
    log: Path

    def connect(self, timeout_s: float = 10.0) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)

    def head(self, method: str, target: str, headers: Sequence[str] = ()) -> bytes:
        """Return the head of a request with the session's cookie, which closes its connection."""
        lines = [
            f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}",
            f"Cookie: {self.cookie}", "Connection: close", *headers,
        ]  # fmt: skip
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")

    def send(self, request: bytes, timeout_s: float = 10.0) -> Reply:
        """Send bytes on a new connection, and return what came back until it was closed."""
        with self.connect(timeout_s) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):  # the answer came first
                connection.sendall(request)
            return read_reply(connection)

    def get(self, target: str) -> Reply:
        """Return the answer to a plain request."""
        return self.send(self.head("GET", target))

    def memory_bytes(self) -> int:
        """Return the resident memory of the process."""
        return self._status_bytes("VmRSS")

    def peak_memory_bytes(self) -> int:
        """Return the most resident memory that the process has had."""
        return self._status_bytes("VmHWM")

    def _status_bytes(self, name: str) -> int:
        """Return a size that the system knows of the process."""
        text = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(text.split(f"{name}:")[1].split()[0]) * 1024

    def complaints(self) -> list[str]:
        """Return the lines of the log that tell of an error inside the server."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return [line for line in lines if "Traceback" in line or "Error" in line]


def read_reply(connection: socket.socket) -> Reply:
    """Return what comes on a connection until the other side closes it, or time is up."""
    data = b""
    try:
        while part := connection.recv(1 << 16):
            data += part
    except ConnectionResetError:
        pass
    except TimeoutError:
        if not data:
            return Reply(WAITING, b"", b"")
    head, _, body = data.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 1"):  # 100 Continue
        head, _, body = body.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    return Reply(int(words[1]) if len(words) > 1 else CLOSED, head, body)


@contextmanager
def running_server(folder: Path, log: Path) -> Iterator[Server]:
    """Serve the reports below a folder; what the server writes goes to a log."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "compat")])}
    command = [sys.executable, "-m", "tilescope", "serve", str(folder), "--port", "0"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        port, token = _link(process, log)
        server = Server(process, port, token, "", log)
        reply = server.get(f"/?token={token}")
        cookie = re.search(rb"set-cookie: ([^;]+)", reply.head)
        assert cookie is not None, reply.head
        yield Server(process, port, token, cookie[1].decode(), log)
    finally:
        process.terminate()
        process.wait(20)


def _link(process: subprocess.Popen[bytes], log: Path) -> tuple[int, str]:
    """Return port and token of the link that a server printed."""
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        link = _LINK.search(log.read_text("utf-8", "replace"))
        if link:
            return int(link[1]), link[2]
        time.sleep(0.05)
    raise RuntimeError(f"The server did not start: {log.read_text('utf-8', 'replace')}")
