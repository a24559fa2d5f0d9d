"""A problem of a report."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """A problem: a stable code, the table or array, and a one-sentence description."""

    code: str
    where: str
    sentence: str
