"""Access control: host names, token, origin and request size; and the content security policy.

A single ASGI layer wraps everything, including Dash's own routes and static files.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
from collections.abc import Sequence
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tilescope.webapp.errors import Failure, describe_failure

__all__ = ["CALLBACK_PATH", "Gate", "content_security_policy", "host_name"]

_log = logging.getLogger(__name__)

#: Dash's route of callbacks.
CALLBACK_PATH = "/_dash-update-component"
#: A page's requests are a few kilobytes; nothing is uploaded. Only callbacks have a body.
MAX_BODY_BYTES = 1 << 20
MAX_PATH_BYTES = 2_000
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SESSION_S = 30 * 24 * 3600


def content_security_policy(script_hashes: Sequence[str]) -> str:
    """Return the policy: only this server, and only inline scripts with a known hash."""
    scripts = " ".join(["'self'", *script_hashes])
    return (
        f"default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
        "worker-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )


def host_name(header: str) -> str | None:
    """Return the name in a Host header, lower-case and without port; None if malformed."""
    if not header or any(character in header for character in "/?#@\\ \t,"):
        return None
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
        name = parts.hostname
    except ValueError:
        return None
    if not name or name.endswith(".") or header.endswith(":"):
        return None
    if ":" in name:
        try:
            return ipaddress.ip_address(name).compressed
        except ValueError:
            return None
    return name.lower()


class Gate:
    """ASGI layer that only accepts requests to an allowed host with the token.

    Parameters
    ----------
    app : ASGIApp
        The app to protect.
    token : str or None
        The server's secret; None disables the check.
    allowed_hosts : Sequence[str]
        Host names that the server accepts.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None, allowed_hosts: Sequence[str], policy: str = ""
    ) -> None:
        self.app = app
        self.policy = policy
        self._token = token
        self._hosts = {host_name(_bracketed(host)) for host in allowed_hosts} - {None}
        self._cookie = "tilescope_" + hashlib.sha256((token or "").encode()).hexdigest()[:12]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to the request or pass it on."""
        if scope["type"] == "websocket":
            # No page uses web sockets: refuse before Dash sees them.
            await receive()
            await send({"type": "websocket.close", "code": 4003})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        exchange = _Exchange(receive, self._with_headers(scope, send))
        refusal = self._refuse(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, exchange.sender)
            return
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except Exception as error:
            if exchange.is_gone:
                return
            if not exchange.is_too_large:
                _log.exception("request failed")
            if exchange.has_started:
                return
            status, failure = describe_failure(error)
            answer = JSONResponse(failure.as_dict(), status_code=status)
            await (_too_large() if exchange.is_too_large else answer)(
                scope, receive, exchange.sender
            )
            return
        if exchange.is_too_large and not exchange.has_started:
            await _too_large()(scope, receive, exchange.sender)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response to a refused request, None to accept it."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:
            return _failure(
                400,
                "unknown_host",
                "Host name not allowed; start the server with --allow-host NAME to add it.",
            )
        if not _is_own_origin(scope, headers):
            return _failure(403, "foreign_origin", "Cross-origin request refused.")
        try:
            length = int(headers.get("content-length") or 0)
        except ValueError:
            length = MAX_BODY_BYTES + 1
        if length > (MAX_BODY_BYTES if scope["path"] == CALLBACK_PATH else 0):
            return _too_large()
        refusal = self._check_token(scope, headers)
        if refusal is None and not _is_plain(scope["path"]):
            return _failure(404, "not_found", "Unknown address.")
        return refusal

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return a redirect if the URL holds the token, None with the cookie, else a refusal."""
        if self._token is None:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for key, value in query if key == "token"]
        if tokens and _same(tokens[-1], self._token):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            # Only one leading slash: "//" would start a host name.
            path = "/" + scope["path"].replace("\\", "/").lstrip("/")
            answer = RedirectResponse(f"{path}?{rest}" if rest else path, status_code=303)
            answer.set_cookie(
                self._cookie, self._token, max_age=SESSION_S, httponly=True, samesite="strict"
            )
            return answer
        if any(_same(value, self._token) for value in _cookies(headers, self._cookie)):
            return None
        if "text/html" in headers.get("accept", "") and not scope["path"].startswith("/api/"):
            parameters = [(key, value) for key, value in query if key != "token"]
            page = _token_page(parameters, headers.get("host", ""), is_wrong=bool(tokens))
            return HTMLResponse(page, status_code=401)
        return _failure(
            401,
            "token_missing",
            "This page requires the token in the link that `tilescope serve` printed"
            " at startup; open that link once in this browser.",
        )

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        """Return a sender that adds the security headers to every response."""

        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = self.policy
                headers["X-Content-Type-Options"] = "nosniff"
                headers["X-Frame-Options"] = "DENY"
                headers["Referrer-Policy"] = "no-referrer"
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers.setdefault("Cache-Control", _caching(scope, message["status"]))
            await send(message)

        return sender


def _is_plain(path: str) -> bool:
    """Return whether a path may name something: no control characters, and not too long."""
    return len(path) <= MAX_PATH_BYTES and path.isprintable()


def _caching(scope: Scope, status: int) -> str:
    """Return the Cache-Control header of a path.

    The URL of our own scripts and style sheets contains their modification time; images' URLs
    do not.
    """
    if status in {200, 304} and scope["path"].startswith("/assets/"):
        if scope["query_string"].startswith(b"m="):
            return "private, max-age=31536000, immutable"
        if scope["path"].startswith("/assets/icons/"):
            return "private, max-age=3600"
    return "no-cache"


class _Exchange:
    """One request and its response: counts received bytes, knows whether the response started.

    A body above the limit, whatever its declared length, ends as if the browser had
    disconnected, and the app's response is dropped.
    """

    def __init__(self, receiver: Receive, sender: Send) -> None:
        self.sender = sender
        self.has_started = False
        self.is_too_large = False
        self.is_gone = False
        self._receiver = receiver
        self._taken_bytes = 0

    async def receive(self) -> Message:
        """Return the next chunk of the request."""
        message = await self._receiver()
        self.is_gone = message["type"] == "http.disconnect"
        self._taken_bytes += len(message.get("body", b""))
        if self._taken_bytes > MAX_BODY_BYTES:
            self.is_too_large = True
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        """Send a chunk of the response, unless the request was too large."""
        if self.is_too_large and not self.has_started:
            return
        self.has_started = True
        await self.sender(message)


def _is_own_origin(scope: Scope, headers: Headers) -> bool:
    """Return whether a request that may change state comes from our own pages."""
    if scope["method"] in SAFE_METHODS:
        return True
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers["host"].lower()


def _cookies(headers: Headers, name: str) -> list[str]:
    """Return all values of a cookie; a browser may send several headers."""
    values = []
    for header in headers.getlist("cookie"):
        try:
            jar = SimpleCookie(header)
        except CookieError:
            continue
        if name in jar:
            values.append(jar[name].value)
    return values


def _same(offered: str, token: str) -> bool:
    """Compare two strings in constant time."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogatepass"), token.encode())


def _bracketed(host: str) -> str:
    """Return a host as written in a Host header, IPv6 addresses in brackets."""
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


def _failure(status: int, code: str, message: str) -> JSONResponse:
    """Return a JSON error response."""
    return JSONResponse(Failure(False, code, message, "").as_dict(), status_code=status)


def _too_large() -> JSONResponse:
    """Return the response to a body above the limit."""
    return _failure(413, "body_too_large", "The request body is larger than this address accepts.")


def _token_page(parameters: Sequence[tuple[str, str]], host: str, *, is_wrong: bool) -> str:
    """Return the page that tells a browser without the token how to get in.

    Parameters
    ----------
    parameters
        Parameters of the address, which the page that is asked for keeps.
    host
        Name and port of the server.
    is_wrong
        Whether a token was given that is not the server's.
    """
    fields = "".join(
        f'<input type="hidden" name="{escape(key)}" value="{escape(value)}">'
        for key, value in parameters
    )
    refusal = "<p><b>This is not the token of this server.</b></p>" if is_wrong else ""
    return _TOKEN_PAGE.format(wrong=refusal, fields=fields, host=escape(host))


_TOKEN_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>TileScope</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:18vh auto;padding:0 1.5rem;
color:#1f2933;background:#fff}}@media(prefers-color-scheme:dark){{body{{color:#d5dae1;
background:#14171c}}}}h1{{font-size:1.1rem}}input,button{{font:inherit;padding:.3rem .6rem}}
input{{width:22rem;max-width:100%}}</style>
<h1>These reports are behind a token</h1>{wrong}
<p>Whoever started <code>tilescope serve</code> has a link that begins with
<code>http://{host}/?token=</code>. Ask for it and open it once in this browser; this page works
from then on. Or enter the token, which is what follows <code>token=</code> in that link:</p>
<form method="get"><p>{fields}<label>Token <input name="token" autocomplete="off" required></label>
<button>Open</button></p></form></html>"""
