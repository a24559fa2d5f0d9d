"""The version of PopART whose names and defaults the module has."""

from __future__ import annotations

__all__ = ["__version__", "packageHash", "versionNumber", "versionString"]

#: Source: graphcore/popart, version.json of its last public state.
__version__ = "3.4.0"


def versionNumber() -> tuple[int, int, int]:
    """Return the version as three integers."""
    major, minor, point = __version__.split(".")
    return int(major), int(minor), int(point)


def versionString() -> str:
    """Return the version, with the name of what implements it."""
    return f"{__version__} (tilescope)"


def packageHash() -> str:
    """Return the name of what implements the module, where PopART has the hash of a build."""
    return "tilescope"
