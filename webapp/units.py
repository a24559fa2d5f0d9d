"""Units of memory that a visitor prefers, remembered in a cookie."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import cast, get_args

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tilescope.analyser.quantities import BytesStyle, use_bytes_style

__all__ = ["COOKIE", "PreferredUnits"]

COOKIE = "tilescope_units"


class PreferredUnits:
    """ASGI layer that writes amounts of memory as the visitor prefers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the units in the request's cookie."""
        style = _style(scope) if scope["type"] == "http" else None
        if style is None:
            await self.app(scope, receive, send)
            return
        with use_bytes_style(style):
            await self.app(scope, receive, send)


def _style(scope: Scope) -> BytesStyle | None:
    """Return the style in a request's cookies; None for none or one that is unknown."""
    for header in Headers(scope=scope).getlist("cookie"):
        try:
            jar = SimpleCookie(header)
        except CookieError:
            continue
        if COOKIE in jar and jar[COOKIE].value in get_args(BytesStyle):
            return cast("BytesStyle", jar[COOKIE].value)
    return None
