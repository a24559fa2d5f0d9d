"""Sentences of the engine that programs look for in PopART's words."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["in_words_of_popart"]

#: What the engine says, and what PopART says instead of it.
#: Source: graphcore/popart, willow/src (the messages of its errors).
_SENTENCES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (
        r"axis (-?\d+) is out of range for rank (\d+)",
        lambda m: f"Axis {m[1]} is out of acceptable range [{-int(m[2])}, {int(m[2]) - 1}]",
    ),
)


def in_words_of_popart(sentence: str) -> str:
    """Return a sentence of the engine, or PopART's where programs look for that."""
    for pattern, said in _SENTENCES:
        found = re.search(pattern, sentence)
        if found:
            return said(found)
    return sentence
