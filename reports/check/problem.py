"""One thing that is wrong with a report."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """What is wrong: a stable code, the table or array, and one plain sentence."""

    code: str
    where: str
    sentence: str
