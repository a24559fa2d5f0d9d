"""Our scripts as one file, and our style sheets as another: a page asks for two in place of fifty.

Dash lists every file of the assets by itself. Over HTTP/1.1 a browser asks for six at a time, which
takes longer than to read them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from html import unescape
from pathlib import Path

from fastapi import APIRouter, HTTPException, Response

__all__ = ["bundled", "routes"]

_ASSETS = Path(__file__).parent / "assets"
#: A tag of Dash for one of our files, with its path below the assets.
_TAGS = {
    "js": re.compile(r'<script src="/assets/([^"?]+\.js)(?:\?[^"]*)?"></script>\n*'),
    "css": re.compile(r'<link rel="stylesheet" href="/assets/([^"?]+\.css)(?:\?[^"]*)?">\n*'),
}
_TEXTS = {"js": '<script src="{}"></script>\n', "css": '<link rel="stylesheet" href="{}">\n'}
_TYPES = {"js": "text/javascript", "css": "text/css"}
_KEPT = 8

#: What pages were told to ask for: files by digest of their content.
_FILES: dict[str, bytes] = {}


def bundled(tags: str, kind: str) -> str:
    """Return tags of a document with those of our files as one, where the first of them stood.

    Parameters
    ----------
    tags
        HTML of script or link tags, as Dash writes it.
    kind
        ``js`` or ``css``.
    """
    names = [unescape(name) for name in _TAGS[kind].findall(tags)]
    if not names:
        return tags
    stamps = tuple((name, (_ASSETS / name).stat().st_mtime_ns) for name in names)
    start = tags.index(_TAGS[kind].search(tags).group())  # type: ignore[union-attr]
    rest = _TAGS[kind].sub("", tags)
    return rest[:start] + _TEXTS[kind].format(_joined(stamps, kind)) + rest[start:]


@lru_cache(maxsize=_KEPT)
def _joined(stamps: tuple[tuple[str, int], ...], kind: str) -> str:
    """Return the address of the file that holds all files, and remember it."""
    end = "\n;\n" if kind == "js" else "\n"
    text = end.join((_ASSETS / name).read_text("utf-8") for name, _ in stamps).encode()
    digest = blake2b(text, digest_size=8).hexdigest()
    _FILES[f"{digest}.{kind}"] = text
    return f"/assets/all/{digest}.{kind}?m={digest}"


def routes() -> APIRouter:
    """Return the route of the files that pages were told to ask for."""
    router = APIRouter(prefix="/assets/all")

    @router.get("/{name}")
    def show(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(404)
        kind = name.rpartition(".")[2]
        return Response(_FILES[name], media_type=f"{_TYPES[kind]}; charset=utf-8")

    return router
