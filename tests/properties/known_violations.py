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

_STRIDED_ADDEND = (
    "A scaled addition copies an addend in another order, at 4 cycles an element; multiplications"
    " and additions read it where it lies, at 3."
)
_PIECES = "Shares of other tiles arrive in other pieces, at sizes of a few thousand cycles."
_FOLLOWS_RESULT = (
    "Biases lie on tiles of their channels, which leaves fewer tiles to send them than if they are"
    " spread over all tiles."
)
_MANY_LOOKUPS = (
    "A table is allocated for any number of look-ups; for many in few rows it is copied first."
    " `plan_embedding` knows the number."
)
_A_GROUP_PER_TILE = "With a group for every tile, linear operands lie where they are used."
_FEW_CHANNELS = (
    "Vertices of the AMP take 16 channels of halves; plans of 8 return half as many outputs in a"
    " row, which take longer to interleave."
)

_BLOCKS = (
    "Blocks are spread over as many tiles as published; small matrices on few tiles are gathered"
    " from fewer."
)
_TINY_PRODUCTS = "Each of many products of a few elements has a plan that depends on the batch."

#: By call, type, layouts and parameter set: the cycles of the form that returns a tensor, and in
#: place.
IN_PLACE_CALLS: Mapping[tuple[str, str, str, str, str], Known] = {
    ("scaled_add", "float16", "by columns", "in blocks", "hardware"): Known(
        (8163, 15813), _STRIDED_ADDEND
    ),
    ("scaled_add", "float16", "in blocks", "by columns", "hardware"): Known(
        (8163, 15813), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "linear", "by columns", "hardware"): Known(
        (22863, 27578), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "linear", "in blocks", "hardware"): Known(
        (18607, 23322), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "by columns", "linear", "hardware"): Known(
        (22863, 27578), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "by columns", "in blocks", "hardware"): Known(
        (15231, 20829), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "in blocks", "linear", "hardware"): Known(
        (17167, 23322), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "in blocks", "by columns", "hardware"): Known(
        (15231, 20829), _STRIDED_ADDEND
    ),
    ("scaled_add", "float16", "by columns", "in blocks", "ipu_model"): Known(
        (7494, 15523), _STRIDED_ADDEND
    ),
    ("scaled_add", "float16", "in blocks", "by columns", "ipu_model"): Known(
        (7494, 15523), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "linear", "by columns", "ipu_model"): Known(
        (22194, 26955), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "linear", "in blocks", "ipu_model"): Known(
        (18228, 22989), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "by columns", "linear", "ipu_model"): Known(
        (22194, 26955), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "by columns", "in blocks", "ipu_model"): Known(
        (14562, 20539), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "in blocks", "linear", "ipu_model"): Known(
        (16788, 22989), _STRIDED_ADDEND
    ),
    ("scaled_add", "float32", "in blocks", "by columns", "ipu_model"): Known(
        (14562, 20539), _STRIDED_ADDEND
    ),
}

#: By call, dimension and parameter set: the cycles of the size, and of twice the size.
DOUBLING: Mapping[tuple[str, str, str], Known] = {
    ("triangular_solve", "batch", "hardware"): Known((40257, 19125), _TINY_PRODUCTS),
    ("triangular_solve", "batch", "ipu_model"): Known((24737, 18161), _TINY_PRODUCTS),
}

#: By call, dimension, parameter set and size: the cycles of the size, and of twice the size.
GROWING: Mapping[tuple[str, str, str, int], Known] = {
    ("grouped_multi_slice", "groups", "hardware", 8): Known((6042, 5658), _A_GROUP_PER_TILE),
    ("bs_softmax_grad", "blocks", "hardware", 128): Known((4691, 4583), _A_GROUP_PER_TILE),
    ("transposed_convolution", "channels", "hardware", 8): Known((10210, 7750), _FEW_CHANNELS),
    ("grouped_multi_slice", "groups", "ipu_model", 8): Known((5752, 5658), _A_GROUP_PER_TILE),
    ("grouped_multi_update", "groups", "ipu_model", 8): Known((41700, 40518), _A_GROUP_PER_TILE),
    ("transposed_convolution", "channels", "ipu_model", 8): Known((8960, 6500), _FEW_CHANNELS),
    ("cholesky_in_place", "batch", "hardware", 4): Known((112709, 111463), _TINY_PRODUCTS),
    ("triangular_solve", "batch", "hardware", 2): Known((40241, 38215), _TINY_PRODUCTS),
    ("triangular_solve", "batch", "hardware", 8): Known((40257, 19125), _TINY_PRODUCTS),
    ("cholesky_in_place", "batch", "ipu_model", 4): Known((108991, 108883), _TINY_PRODUCTS),
    ("triangular_solve", "batch", "ipu_model", 2): Known((23281, 23013), _TINY_PRODUCTS),
    ("triangular_solve", "batch", "ipu_model", 8): Known((24737, 18161), _TINY_PRODUCTS),
}

#: By allocation, case and parameter set: the cycles without an allocator, and with it.
ALLOCATED: Mapping[tuple[str, int, str], Known] = {
    ("biases of convolution", 0, "hardware"): Known((6988, 7000), _FOLLOWS_RESULT),
    ("biases of convolution", 2, "hardware"): Known((3319, 3323), _FOLLOWS_RESULT),
    ("table of multi_slice", 2, "ipu_model"): Known((556, 566), _PIECES),
    ("table of multi_slice", 3, "hardware"): Known((3774, 5038), _MANY_LOOKUPS),
    ("table of multi_slice", 3, "ipu_model"): Known((3336, 4259), _MANY_LOOKUPS),
    ("table and indices of multi_slice", 2, "ipu_model"): Known((556, 566), _PIECES),
    ("table and indices of multi_slice", 3, "hardware"): Known((3688, 4953), _MANY_LOOKUPS),
    ("table and indices of multi_slice", 3, "ipu_model"): Known((3310, 4231), _MANY_LOOKUPS),
    ("matrices of triangular_solve", 0, "hardware"): Known((3738, 4809), _BLOCKS),
    ("matrices of triangular_solve", 1, "hardware"): Known((8909, 10840), _BLOCKS),
    ("matrices of triangular_solve", 2, "hardware"): Known((5950, 6255), _BLOCKS),
    ("matrices of triangular_solve", 3, "hardware"): Known((8909, 10840), _BLOCKS),
    ("matrices of cholesky_in_place", 0, "hardware"): Known((61025, 64579), _BLOCKS),
    ("matrices of cholesky_in_place", 1, "hardware"): Known((96126, 100936), _BLOCKS),
    ("matrices of cholesky_in_place", 3, "hardware"): Known((96126, 100936), _BLOCKS),
    ("matrices of triangular_solve", 0, "ipu_model"): Known((2535, 2718), _BLOCKS),
    ("matrices of triangular_solve", 1, "ipu_model"): Known((5387, 6146), _BLOCKS),
    ("matrices of triangular_solve", 3, "ipu_model"): Known((5387, 6146), _BLOCKS),
    ("matrices of cholesky_in_place", 0, "ipu_model"): Known((56381, 58458), _BLOCKS),
    ("matrices of cholesky_in_place", 1, "ipu_model"): Known((88038, 90561), _BLOCKS),
    ("matrices of cholesky_in_place", 3, "ipu_model"): Known((88038, 90561), _BLOCKS),
}
