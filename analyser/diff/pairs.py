"""Two reports' things with a key, side by side: what one side lacks is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Pair", "SizeChange", "pairs", "size_changes"]

T = TypeVar("T")


@dataclass(frozen=True)
class Pair(Generic[T]):
    """A thing on the sides that have it."""

    key: str
    base: T | None
    new: T | None

    @property
    def known(self) -> T:
        """The thing on the first side that has it."""
        found = self.new if self.base is None else self.base
        assert found is not None
        return found


@dataclass(frozen=True)
class SizeChange:
    """A number on both sides; ``delta`` is new minus base, a side that lacks it counting 0."""

    key: str
    base: int | None
    new: int | None

    @property
    def delta(self) -> int:
        """New minus base."""
        return (self.new or 0) - (self.base or 0)


def pairs(base: Mapping[str, T], new: Mapping[str, T]) -> tuple[Pair[T], ...]:
    """Return all keys of two mappings with both values, the order of the base first."""
    return tuple(Pair(key, base.get(key), new.get(key)) for key in dict.fromkeys((*base, *new)))


def size_changes(base: Mapping[str, int], new: Mapping[str, int]) -> tuple[SizeChange, ...]:
    """Return all keys of two mappings with both numbers, the largest change first."""
    found = [SizeChange(pair.key, pair.base, pair.new) for pair in pairs(base, new)]
    return tuple(sorted(found, key=lambda change: -abs(change.delta)))
