"""The engine's identity: an executable is valid only for the engine that compiled it."""

from __future__ import annotations

import functools
import os
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

__all__ = ["engine_versions", "sources_digest"]

_ENGINE = Path(__file__).parents[2]


@functools.cache
def sources_digest(package: Path) -> str:
    """Return a digest of a package's sources."""
    sources = blake2b(digest_size=32)
    # As plain strings: `Path` takes as long for 400 files as reading them does.
    for folder, _, names in sorted(os.walk(package)):
        sources.update(os.path.relpath(folder, package).encode())
        for name in sorted(name for name in names if name.endswith(".py")):
            sources.update(name.encode())
            with open(f"{folder}/{name}", "rb", buffering=0) as file:
                sources.update(file.read())
    return sources.hexdigest()


@functools.cache
def engine_versions() -> dict[str, str]:
    """Return the package version, and a digest of the engine's sources for work in progress."""
    try:
        package = version("tilescope")
    except PackageNotFoundError:
        package = "unknown"
    return {"tilescope": package, "numpy": np.__version__, "sources": sources_digest(_ENGINE)}
