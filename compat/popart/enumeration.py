"""The base of PopART's enumerations."""

from __future__ import annotations

from enum import Enum

__all__ = ["Enumeration"]


class Enumeration(Enum):
    """Members with integer values that are no integers: equal to members of the same class only."""

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)
