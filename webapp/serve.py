"""The server: check address and port, print the link, run until interrupted."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import uvicorn

from tilescope.analyser.advice.trust import Trust
from tilescope.analyser.catalogue.catalogue import user_catalogue
from tilescope.reports import State, open_report
from tilescope.webapp.app import create_app
from tilescope.webapp.connections import HEAD_BYTES, bounded_protocol
from tilescope.webapp.errors import BadAddress, NothingToServe, PortInUse
from tilescope.webapp.help import Fidelity
from tilescope.webapp.library import Library
from tilescope.webapp.server_token import server_token
from tilescope.webapp.warm import warm_in_background

__all__ = ["Address", "default_paths", "open_listener", "serve_reports"]

#: Host names that browsers on this machine use.
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
#: A small model's report, which the home page offers (`make demo-report` writes it).
DEMO = Path(__file__).parent / "demo" / "profile.pop"


class Address(NamedTuple):
    """Where a server listens.

    Parameters
    ----------
    host
        Address to listen on.
    port
        Port; 0 picks a free one.
    allow_hosts
        Additional host names that the server accepts.
    """

    host: str
    port: int
    allow_hosts: Sequence[str] = ()


def serve_reports(
    paths: Sequence[Path],
    *,
    address: Address,
    fidelity: Fidelity | None = None,
    trust: Trust | None = None,
    tell: Callable[[str], None] | None = None,
    new_token: bool = False,
) -> None:
    """Serve the reports below some paths until interrupted.

    Parameters
    ----------
    paths : Sequence[Path]
        Reports or directories; defaults to ``./report`` if it exists, else the current directory.
    address : Address
        Where to listen, and by which names.
    fidelity : Fidelity or None
        The simulator's fidelity, for the help panel.
    trust : Trust or None
        Expected errors by kind of operation, for the pages.
    tell : Callable or None
        Prints a line to the user; None for the standard error stream.
    new_token : bool
        Whether links of before end.

    Raises
    ------
    NothingToServe
        When no report is found.
    ReportError
        When a given file is not a report or is damaged.
    PortInUse
        When another program listens on the port.
    BadAddress
        When the host is not an address of this machine.
    """
    say = tell or _say
    host, port, allow_hosts = address
    folders = list(paths) or default_paths()
    library = Library(folders, demo=DEMO, trust=trust)
    reports = library.found()
    if not reports:
        names = ", ".join(str(folder) for folder in folders)
        raise NothingToServe(
            f"No report found in {names}; create one with `tilescope run MODEL.onnx`"
            " or give a profile.pop or a directory that contains one."
        )
    for folder in folders:
        # A file given by name must be a report; files in directories are checked by their pages.
        if folder.is_file():
            open_report(folder).close()
    listener = open_listener(host, port)
    try:
        socket_address = listener.getsockname()
        token = server_token(is_new=new_token)
        app = create_app(
            library,
            token=token,
            allowed_hosts=[*LOCAL_NAMES, host, str(socket_address[0]), *allow_hosts],
            fidelity=fidelity,
            catalogue=user_catalogue(),
        )
        name = _link_host(host, allow_hosts)
        say(_first_line(library))
        if not _is_loopback(str(socket_address[0])):
            say(
                f"Warning: {host} is reachable from other machines; anyone with the link"
                " can read these reports, and plain HTTP is not encrypted."
            )
        say(f"Open http://{name}:{socket_address[1]}/?token={token}")
        warming = warm_in_background(library)
        try:
            _run(app, listener, lambda: say("Press Ctrl-C to stop."))
        finally:
            # A report in use cannot be closed.
            warming.join()
    finally:
        listener.close()
        library.close()


def _first_line(library: Library) -> str:
    """Return how many reports are served, and how many of them in which state, unless complete."""
    labels = [library.states.at_a_glance(entry).label for entry in library.found()]
    counts = Counter(label for label in labels if label != State.COMPLETE)
    states = ", ".join(f"{counts[label]:,} {label}" for label in sorted(counts))
    reports = f"{len(labels):,} report{'s' * (len(labels) != 1)}"
    return f"Serving {reports}" + (f" ({states})." if states else ".")


def default_paths() -> list[Path]:
    """Return ``./report`` when it exists, else the current directory."""
    report = Path("report")
    return [report if report.is_dir() else Path()]


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises
    ------
    PortInUse
        When another program listens on the port, or the user lacks the rights to open it.
    BadAddress
        When the host is not an address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise BadAddress(
            f"Unknown host {host!r}; use 127.0.0.1 or an address of this machine."
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"Port {port} of {host} is in use by another program;"
                f" choose another, such as --port {port + 1}, or --port 0 for any free one."
            ) from error
        if error.errno == errno.EACCES:
            raise PortInUse(
                f"Port {port} requires privileges that this user lacks;"
                " choose one above 1023, such as --port 8050."
            ) from error
        raise BadAddress(
            f"{host} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all."
        ) from error
    return listener


class _Server(uvicorn.Server):
    """Tells when it has started: its handlers of signals are installed by then.

    An interrupt before that can reach a callback of the interpreter, which drops its exception.
    """

    def __init__(self, config: uvicorn.Config, tell: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets)
        if self.started:
            self._tell()


def _run(app: object, listener: socket.socket, tell: Callable[[], None]) -> None:
    """Serve until interrupted; uvicorn restores the signal and raises it again when done."""
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # an ASGI app
        log_level="warning",
        access_log=False,
        server_header=False,
        http=bounded_protocol(),
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
        ws="none",
    )
    _Server(config, tell).run(sockets=[listener])


def _link_host(host: str, allow_hosts: Sequence[str]) -> str:
    """Return the host name to print, one that a browser is likely to reach."""
    if host in {"0.0.0.0", "::", ""}:
        return allow_hosts[0] if allow_hosts else "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _is_loopback(address: str) -> bool:
    """Return whether an address is only reachable from this machine."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _say(line: str) -> None:
    """Print a line to standard error without buffering; standard output is left to scripts."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
