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
_GOES_AS = {"uint8": "int32"}


def _rate(
    float32: tuple[int, int] | None,
    float16: tuple[int, int] | None,
    int32: tuple[int, int] | None = None,
    boolean: tuple[int, int] | None = None,
) -> Rate:
    given = {"float32": float32, "float16": float16, "int32": int32, "bool": boolean}
    return {name: rate for name, rate in given.items() if rate is not None}


def rate_of(rate: Rate, dtype: str) -> tuple[int, int] | None:
    """Return cycles and elements of a loop for a type; None when the operation has none for it."""
    return rate.get(dtype, rate.get(_GOES_AS.get(dtype, dtype)))


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
    "sign": _rate((9, 2), (9, 4), (9, 1)),
    "ceil": _rate((6, 2), (6, 4)),
    "floor": _rate((6, 2), (6, 4)),
    "trunc": _rate((3, 2), (11, 4)),
    "nearby_int": _rate((6, 2), (6, 4)),
    "round": _rate((6, 2), (6, 4)),
    "sin": _rate((2304, 1), (25, 1)),
    "cos": _rate((2304, 1), (25, 1)),
    "tan": _rate((5100, 1), (5700, 1)),
    "asin": _rate((106, 1), (106, 1)),
    # Assumption: as the angle of two operands, which the library has.
    "atan": _rate((272, 2), (578, 4)),
    "rsqrt": _rate((8, 2), (19, 4)),
    "cbrt": _rate((31, 2), (21, 4)),
    "exp2": _rate((6, 2), (4, 4)),
    "expm1": _rate((8, 1), (9, 4)),
    "log1p": _rate((22, 2), (22, 4)),
    "gelu_erf": _rate((22, 1), (16, 1)),
    "bitwise_not": _rate(None, None, (5, 2)),
    "logical_not": _rate(None, None, boolean=(21, 1)),
    "is_nan": _rate((7, 2), (7, 4)),
    "is_inf": _rate((7, 2), (9, 4)),
    "is_finite": _rate((9, 2), (9, 4)),
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
    "remainder": _rate((133, 2), (300, 4), (292, 1)),
    "atan2": _rate((272, 2), (578, 4)),
    "bitwise_and": _rate(None, None, (7, 1)),
    "bitwise_or": _rate(None, None, (7, 1)),
    "bitwise_xor": _rate(None, None, (7, 1)),
    "shift_left": _rate(None, None, (7, 1)),
    "shift_right_sign_extend": _rate(None, None, (7, 1)),
    "equal": _rate((14, 4), (9, 4), (22, 4), (6, 4)),
    "not_equal": _rate((20, 4), (11, 4), (22, 4), (5, 4)),
    "less": _rate((14, 4), (9, 4), (22, 4), (28, 4)),
    "less_equal": _rate((14, 4), (9, 4), (26, 4), (28, 4)),
    "greater": _rate((14, 4), (9, 4), (22, 4), (31, 4)),
    "greater_equal": _rate((14, 4), (9, 4), (26, 4), (28, 4)),
    "logical_and": _rate(None, None, boolean=(5, 4)),
    "logical_or": _rate(None, None, boolean=(5, 4)),
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
    "remainder": _rate((93, 2), (225, 4), (280, 1)),
    "atan2": _rate((272, 2), (578, 4)),
    "bitwise_and": _rate(None, None, (6, 1)),
    "bitwise_or": _rate(None, None, (6, 1)),
    "bitwise_xor": _rate(None, None, (6, 1)),
    "shift_left": _rate(None, None, (6, 1)),
    "shift_right_sign_extend": _rate(None, None, (6, 1)),
    "equal": _rate((12, 4), (8, 4), (16, 4), (14, 4)),
    "not_equal": _rate((18, 4), (10, 4), (16, 4), (4, 4)),
    "less": _rate((12, 4), (8, 4), (16, 4), (16, 4)),
    "less_equal": _rate((12, 4), (8, 4), (20, 4), (16, 4)),
    "greater": _rate((12, 4), (8, 4), (16, 4), (12, 4)),
    "greater_equal": _rate((12, 4), (8, 4), (20, 4), (12, 4)),
    "logical_and": _rate(None, None, boolean=(4, 4)),
    "logical_or": _rate(None, None, boolean=(4, 4)),
}
