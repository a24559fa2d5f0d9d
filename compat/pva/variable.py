"""Variables of the graph and their parts on tiles, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass, field

from pva.absent import WithAbsent

__all__ = ["LoweredVariable", "Variable"]


@dataclass(frozen=True)
class Variable:
    """A variable, or code and state under its category's name; ``size`` is in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class LoweredVariable(WithAbsent):
    """A part of a variable on a tile; ``offset`` is its address there, sizes are in bytes."""

    _id: int
    name: str
    bytes: int
    offset: int
    alwaysLive: bool
    unloweredVar: Variable = field(repr=False)

    @property
    def hasUnloweredVar(self) -> bool:
        """Always: every part here belongs to a variable of the graph."""
        return True
