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
    baseline: T | None
    candidate: T | None

    @property
    def known(self) -> T:
        """The thing on the first side that has it."""
        found = self.candidate if self.baseline is None else self.baseline
        assert found is not None
        return found


@dataclass(frozen=True)
class SizeChange:
    """A number on both sides; ``delta`` is candidate minus baseline, a missing side counts 0."""

    key: str
    baseline: int | None
    candidate: int | None

    @property
    def delta(self) -> int:
        """Candidate minus baseline."""
        return (self.candidate or 0) - (self.baseline or 0)


def pairs(baseline: Mapping[str, T], candidate: Mapping[str, T]) -> tuple[Pair[T], ...]:
    """Return all keys of two mappings with both values, the order of the baseline first."""
    return tuple(
        Pair(key, baseline.get(key), candidate.get(key))
        for key in dict.fromkeys((*baseline, *candidate))
    )


def size_changes(
    baseline: Mapping[str, int], candidate: Mapping[str, int]
) -> tuple[SizeChange, ...]:
    """Return all keys of two mappings with both numbers, the largest change first."""
    found = [
        SizeChange(pair.key, pair.baseline, pair.candidate) for pair in pairs(baseline, candidate)
    ]
    return tuple(sorted(found, key=lambda change: -abs(change.delta)))
