"""How fast the loop of an elementwise vertex is, by number type.

Whole numbers have no vector instructions and go one by one; their division is a loop in software.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Rate", "make_rate", "rate_of"]

#: By number type: cycles of a loop, and the elements it takes.
Rate = Mapping[str, tuple[int, int]]

# A type that the library has no vertex for goes as the one it is held in. Assumption.
_GOES_AS = {"uint8": "int32"}


def make_rate(
    float32: tuple[int, int] | None,
    float16: tuple[int, int] | None,
    int32: tuple[int, int] | None = None,
    boolean: tuple[int, int] | None = None,
) -> Rate:
    """Return cycles of a loop and the elements it takes, by number type; None without a vertex."""
    given = {"float32": float32, "float16": float16, "int32": int32, "bool": boolean}
    return {name: rate for name, rate in given.items() if rate is not None}


def rate_of(rate: Rate, dtype: str) -> tuple[int, int] | None:
    """Return cycles and elements of a loop for a type; None when the operation has none for it."""
    return rate.get(dtype, rate.get(_GOES_AS.get(dtype, dtype)))
