"""Variables of the graph and their parts on tiles, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["BriefVariable", "EquivalenceClass", "LoweredVariable", "StepInterval", "Variable"]


@dataclass(frozen=True)
class Variable:
    """A variable, or code and state under its category's name; ``size`` is in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class LoweredVariable:
    """A part of a variable on a tile; ``offset`` is its address there, sizes are in bytes.

    ``unloweredVar`` names the variable that it is a part of, with the bytes of this part.
    """

    _id: int
    name: str
    bytes: int
    offset: int
    tileId: int
    alwaysLive: bool
    unloweredVar: Variable = field(repr=False)

    @property
    def hasUnloweredVar(self) -> bool:
        """Always: every part here belongs to a variable of the graph."""
        return True


@dataclass(frozen=True)
class StepInterval:
    """Liveness steps, half-open."""

    start: int
    end: int


@dataclass(frozen=True)
class EquivalenceClass:
    """Parts of variables that are live at the same steps."""

    id: int
    steps: tuple[StepInterval, ...]


class BriefVariable(NamedTuple):
    """A part of a variable on a tile in brief; ``id`` is the ``_id`` of its lowered variable."""

    id: int
    bytes: int
    tileId: int
    equivalenceClass: EquivalenceClass
