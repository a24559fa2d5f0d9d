"""The engine's identity: an executable is valid only for the engine that compiled it."""

from __future__ import annotations

import functools
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

__all__ = ["engine_versions"]

_ENGINE = Path(__file__).parents[1]


@functools.cache
def engine_versions() -> dict[str, str]:
    """Return the package version, and a digest of the engine's sources for work in progress."""
    sources = blake2b(digest_size=32)
    for path in sorted(_ENGINE.rglob("*.py")):
        sources.update(str(path.relative_to(_ENGINE)).encode())
        sources.update(path.read_bytes())
    try:
        package = version("tilescope")
    except PackageNotFoundError:
        package = "unknown"
    return {"tilescope": package, "numpy": np.__version__, "sources": sources.hexdigest()}
