"""The line of the user's source that called the graph API."""

from __future__ import annotations

import sys
from pathlib import PurePath

__all__ = ["calling_line"]

_PACKAGE = "tilescope"


def calling_line() -> tuple[str, int] | None:
    """Return base name and line of the nearest caller outside the package; None without a file."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    name = PurePath(frame.f_code.co_filename).name
    return None if name.startswith("<") else (name, frame.f_lineno)
