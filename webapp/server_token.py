"""The secret in the link of a server, kept for the user so that links outlive a restart."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path

from platformdirs import user_state_path

__all__ = ["server_token"]

#: Length of the secret in the link.
_BYTES = 24
_FORM = re.compile(r"[A-Za-z0-9_-]{32}")
_MOST_BYTES = 100


def server_token(path: Path | None = None, *, is_new: bool = False) -> str:
    """Return the user's token, after making one if there is none.

    Where it cannot be kept, or others can read the file, each server has a token of its own.

    Parameters
    ----------
    path
        The file that keeps it; by default in the user's folder for state.
    is_new
        Whether to replace it: links with the earlier one do not work any more.
    """
    position = path or user_state_path("tilescope", appauthor=False) / "serve-token"
    known = "" if is_new else _read(position)
    return known or _made(position)


def _read(position: Path) -> str:
    """Return the token of a file that only its owner can read; empty without any."""
    try:
        descriptor = os.open(position, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        is_own = not hasattr(os, "getuid") or (
            facts.st_uid == os.getuid() and not stat.S_IMODE(facts.st_mode) & 0o077
        )
        if not (stat.S_ISREG(facts.st_mode) and is_own):
            return ""
        text = file.read(_MOST_BYTES).decode("ascii", "replace").strip()
    return text if _FORM.fullmatch(text) else ""


def _made(position: Path) -> str:
    """Return a new token, kept in a file if that can be written."""
    token = secrets.token_urlsafe(_BYTES)
    draft = position.with_name(f"{position.name}.{secrets.token_hex(4)}")
    try:
        position.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{token}\n")
        os.replace(draft, position)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
    return token
