"""Spans of cycles over tiles, by libpva's names."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CycleRange", "CycleSpan"]


@dataclass(frozen=True)
class CycleRange:
    """The least and the most over tiles, cycles."""

    min: int
    max: int


@dataclass(frozen=True)
class CycleSpan:
    """When tiles begin and end, cycles."""

    cyclesFrom: CycleRange
    cyclesTo: CycleRange
