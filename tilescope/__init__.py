"""The `tilescope` command, and profiles of modules in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilescope.profiling import profile

__all__ = ["profile"]


def __getattr__(name: str) -> Any:
    """Return `profile`, which is imported on first access.

    Raises
    ------
    AttributeError
        When the name is unknown.
    """
    if name != "profile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tilescope.profiling import profile

    return profile
