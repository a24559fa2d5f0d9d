"""Our scripts as one file, and our style sheets as another: a page asks for two in place of fifty.

Over HTTP/1.1 a browser asks for six files at a time, which takes longer than to read them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from fastapi import APIRouter, HTTPException, Response

__all__ = ["routes", "tag"]

_ASSETS = Path(__file__).parent / "assets"
#: Loaded by the frame, and by the page Operations when its graph is opened.
_LOADED_OTHERWISE = re.compile(r"(theme|graph_\w+)\.js")
_TAGS = {"js": '<script src="{}"></script>\n', "css": '<link rel="stylesheet" href="{}">\n'}
_TYPES = {"js": "text/javascript", "css": "text/css"}
_KEPT = 8

#: What pages were told to ask for: files by digest of their content.
_FILES: dict[str, bytes] = {}


def tag(kind: str) -> str:
    """Return the HTML tag of all our files of a kind.

    They follow each other as in a sorted list: those of a folder before those of folders in it.

    Parameters
    ----------
    kind
        ``js`` or ``css``.
    """
    files = sorted(_ASSETS.rglob(f"*.{kind}"), key=lambda file: (file.parent, file.name))
    names = [
        file.relative_to(_ASSETS).as_posix()
        for file in files
        if not _LOADED_OTHERWISE.fullmatch(file.name)
    ]
    stamps = tuple((name, (_ASSETS / name).stat().st_mtime_ns) for name in names)
    return _TAGS[kind].format(_joined(stamps, kind))


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
