"""Loop rates of elementwise vertices, by number type.

Integers have no vector instructions and are processed singly; their division is a software loop.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Rate", "make_rate", "rate_of"]

#: Cycles and elements per loop iteration, by number type.
Rate = Mapping[str, tuple[int, int]]

# Assumption: an integer type without a vertex in the library takes as long as int32, to which a
# worker widens it.
_GOES_AS = dict.fromkeys(("int8", "uint8", "int16", "uint16", "uint32"), "int32")


def make_rate(
    float32: tuple[int, int] | None,
    float16: tuple[int, int] | None,
    int32: tuple[int, int] | None = None,
    boolean: tuple[int, int] | None = None,
) -> Rate:
    """Return cycles and elements per loop iteration, by number type; None without a vertex."""
    rates = {"float32": float32, "float16": float16, "int32": int32, "bool": boolean}
    return {name: rate for name, rate in rates.items() if rate is not None}


def rate_of(rate: Rate, dtype: str) -> tuple[int, int] | None:
    """Return cycles and elements per loop iteration for a type; None if it is unsupported."""
    return rate.get(dtype, rate.get(_GOES_AS.get(dtype, dtype)))
