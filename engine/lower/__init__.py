"""Lowers the operator graph to vertices and programs: every operator's record calls the library."""

from tilescope.engine.lower.lowering import Lowering
from tilescope.engine.lower.model import (
    HELD_FROM_HOST,
    HELD_TO_HOST,
    HOST_SETTINGS,
    Lowered,
    held_stream,
    lower,
)

__all__ = [
    "HELD_FROM_HOST",
    "HELD_TO_HOST",
    "HOST_SETTINGS",
    "Lowered",
    "Lowering",
    "held_stream",
    "lower",
]
