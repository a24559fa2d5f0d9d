"""How fast the loops of elementwise vertices are, by operation and number type.

Source: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.hpp: unaryOpPerfInfo,
binaryOpPerfInfo and broadcastOpPerfInfo. Whole numbers have no vector instructions and go one by
one; a division of them is a loop in software.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BINARY_RATES", "BROADCAST_RATES", "UNARY_RATES", "Rate", "rate_of"]

#: By number type: cycles of a loop, and the elements it takes.
Rate = Mapping[str, tuple[int, int]]

# A type that the library has no vertex for goes as the one it is held in. Assumption.
_GOES_AS = {"uint8": "int32", "bool": "int32"}


def _rate(
    float32: tuple[int, int], float16: tuple[int, int], int32: tuple[int, int] | None = None
) -> Rate:
    by_type = {"float32": float32, "float16": float16}
    return by_type if int32 is None else {**by_type, "int32": int32}


def rate_of(rate: Rate, dtype: str) -> tuple[int, int] | None:
    """Return cycles and elements of a loop for a type; None when the operation has none for it."""
    return rate.get(_GOES_AS.get(dtype, dtype))


# A loop of one element, or of a vector without assembly, adds 4 cycles.
UNARY_RATES: dict[str, Rate] = {
    # Assumption: for whole numbers as the maximum of two.
    "relu": _rate((3, 2), (3, 4), (7, 1)),
    "sigmoid": _rate((12, 2), (6, 4)),
    "tanh": _rate((12, 2), (4, 4)),
    "exp": _rate((6, 2), (4, 4)),
    "log": _rate((12, 2), (4, 4)),
    "sqrt": _rate((10, 2), (23, 4), (114, 1)),
    "inverse": _rate((6, 2), (15, 4)),
    "negate": _rate((2, 2), (2, 4), (6, 1)),
    "absolute": _rate((5, 1), (5, 1), (6, 1)),
    "square": _rate((2, 2), (2, 4), (5, 2)),
    "erf": _rate((41, 1), (13, 1)),
}
# With the 2 cycles around an assembly loop.
BINARY_RATES: dict[str, Rate] = {
    "add": _rate((3, 2), (3, 4), (7, 1)),
    "subtract": _rate((3, 2), (3, 4), (7, 1)),
    "multiply": _rate((3, 2), (3, 4), (7, 1)),
    "divide": _rate((10, 2), (21, 4), (277, 1)),
    "maximum": _rate((3, 2), (4, 4), (7, 1)),
    "minimum": _rate((3, 2), (4, 4), (7, 1)),
    # For whole numbers the source takes an exponent of 9: the loop is as long as it is.
    "power": _rate((312, 1), (325, 1), (32, 1)),
}
# With the 1 cycle around an assembly loop.
BROADCAST_RATES: dict[str, Rate] = {
    "add": _rate((2, 2), (2, 4), (6, 1)),
    "subtract": _rate((2, 2), (2, 4), (6, 1)),
    "multiply": _rate((2, 2), (2, 4), (6, 1)),
    "divide": _rate((6, 2), (8, 2), (277, 1)),
    "maximum": _rate((3, 2), (3, 4), (6, 1)),
    "minimum": _rate((3, 2), (3, 4), (6, 1)),
    "power": _rate((312, 1), (325, 1), (23, 1)),
}
