"""How this installation was made, and the command that adds an extra to it."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["install_advice"]

_PACKAGE = "tilescope"


def install_advice(extra: str) -> str:
    """Return what to do to install an extra, as the end of a sentence.

    Names the command where pip recorded where the package came from; the package is in no index.

    Parameters
    ----------
    extra
        Name of an extra of the package.

    Notes
    -----
    Source: https://packaging.python.org/en/latest/specifications/direct-url/
    """
    arguments = _requirement(extra)
    if arguments is None:
        return f"install TileScope with its extra '{extra}', see docs/how-to/install.md"
    return f"run: pip install {shlex.join(arguments)}"


def _requirement(extra: str) -> list[str] | None:
    """Return the arguments of pip that install the extra from the same place; None if unknown."""
    try:
        origin = _origin(distribution(_PACKAGE))
    except PackageNotFoundError:
        return _from_checkout(Path(__file__).resolve().parents[1], extra)
    url = origin.get("url")
    if not isinstance(url, str):
        return None
    if "vcs_info" in origin:
        return _from_repository(url, origin, extra)
    parts = urlsplit(url)
    if parts.scheme != "file":
        return [f"{_PACKAGE}[{extra}] @ {url}"]
    path = unquote(parts.path)
    is_editable = bool(_mapping(origin.get("dir_info")).get("editable"))
    return [*(["--editable"] if is_editable else []), f"{path}[{extra}]"]


def _origin(package: Distribution) -> dict[str, Any]:
    """Return what pip recorded about the origin of a package, empty if nothing."""
    try:
        return _mapping(json.loads(package.read_text("direct_url.json") or "{}"))
    except ValueError:
        return {}


def _from_repository(url: str, origin: dict[str, Any], extra: str) -> list[str] | None:
    """Return the requirement of a package that was installed from a repository."""
    facts = _mapping(origin["vcs_info"])
    system, revision = facts.get("vcs"), facts.get("requested_revision") or facts.get("commit_id")
    if not system or not revision:
        return None
    return [f"{_PACKAGE}[{extra}] @ {system}+{url}@{revision}"]


def _from_checkout(folder: Path, extra: str) -> list[str] | None:
    """Return the requirement of a checkout that is used without being installed."""
    return [f"{folder}[{extra}]"] if (folder / "pyproject.toml").is_file() else None


def _mapping(value: object) -> dict[str, Any]:
    """Return a value of JSON if it is an object, and an empty one otherwise."""
    return value if isinstance(value, dict) else {}
