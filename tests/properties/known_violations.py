"""Cases that violate a property of costs, with their cycles and the reason.

Tests are strict: a case that no longer violates its property, or costs something else, fails until
its entry is removed or renewed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "ALLOCATED",
    "DOUBLING",
    "GROWING",
    "IN_PLACE_CALLS",
    "IN_PLACE_LOOPS",
    "IN_PLACE_START_CYCLES",
    "Known",
]


class Known(NamedTuple):
    """Cycles of the two programs that are compared, and why the property does not hold."""

    cycles: tuple[int, int]
    reason: str


#: By number of operands: by how much the start of a function in place is dearer, at most.
#: Source: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp: workers of
#: UnaryOp1DInPlace take 55 cycles before the loop, of UnaryOp1D 17 (there as here); of
#: BinaryOp1DInPlace 58, of BinaryOp1D 26.
IN_PLACE_START_CYCLES = {1: 6 * (55 - 17), 2: 6 * (58 - 26)}

#: Functions and types whose loop is slower in place.
#: Source: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.hpp:
#: unaryOpInPlacePerfInfo and binaryOpInPlacePerfInfo beside unaryOpPerfInfo and binaryOpPerfInfo.
IN_PLACE_LOOPS = frozenset(
    {
        ("log", "float16"),
        ("log", "float32"),
        ("negate", "float16"),
        ("negate", "float32"),
        ("trunc", "float32"),
        ("maximum", "float32"),
        ("minimum", "float32"),
        ("power", "int32"),
    }
)

#: By call, type, layouts and parameter set: the cycles of the form that returns a tensor, and in place.
IN_PLACE_CALLS: Mapping[tuple[str, str, str, str, str], Known] = {}

#: By call, dimension and parameter set: the cycles of the size and of twice the size.
DOUBLING: Mapping[tuple[str, str, str], Known] = {}
GROWING: Mapping[tuple[str, str, str, int], Known] = {}
ALLOCATED: Mapping[tuple[str, str], Known] = {}
