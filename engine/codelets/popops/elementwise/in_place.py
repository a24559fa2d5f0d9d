"""Elementwise codelets that write their result over the first operand.

Laws: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp and .hpp:
UnaryOp1DInPlace and BinaryOp1DInPlace, and the tables unaryOpInPlacePerfInfo and
binaryOpInPlacePerfInfo. Blocks take as long as those with a result of their own; the loop's rate
is that of the tables in place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.popops.elementwise.binary_functions import (
    BINARY_FUNCTIONS,
    BINARY_RATES,
)
from tilescope.engine.codelets.popops.elementwise.operations import (
    BINARY,
    BINARY_BLOCK,
    SELECTIONS,
    TO_BOOL,
    UNARY,
    UNARY_BLOCK,
    binary_block_law,
    loop_cycles,
    unary_block_law,
)
from tilescope.engine.codelets.popops.elementwise.rates import Rate, make_rate
from tilescope.engine.codelets.popops.elementwise.unary_functions import (
    UNARY_FUNCTIONS,
    UNARY_RATES,
)
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, Law, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned
from tilescope.engine.host.kernels._pairs import combine_blocks

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "BINARY_IN_PLACE",
    "BINARY_IN_PLACE_BLOCK",
    "UNARY_IN_PLACE",
    "UNARY_IN_PLACE_BLOCK",
    "as_apart",
    "unary_kernels_in_place",
]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp"

#: Loops that take longer or shorter in place than the tables of results apart state.
_UNARY_RATES: dict[str, Rate] = UNARY_RATES | {
    "absolute": make_rate((5, 2), (5, 4), (6, 1)),
    "log": make_rate((14, 2), (6, 4)),
    "log1p": make_rate((22, 2), (21, 4)),
    "negate": make_rate((3, 2), (3, 4), (6, 1)),
    "relu": make_rate((2, 2), (2, 4), (7, 1)),
    "sigmoid": make_rate((10, 2), (4, 4)),
    "tanh": make_rate((10, 2), (2, 4)),
    "trunc": make_rate((4, 2), (11, 4)),
}
_BINARY_RATES: dict[str, Rate] = BINARY_RATES | {
    "maximum": make_rate((4, 2), (4, 4), (7, 1)),
    "minimum": make_rate((4, 2), (4, 4), (7, 1)),
    "power": make_rate((312, 1), (325, 1), (34, 1)),
}


def as_apart(batch: Batch) -> Batch:
    """Return the batch with the fields of a vertex that has a result of its own."""
    field = "x" if "x" in batch.dtype else "a"

    def doubled(values: Any) -> dict[str, Any]:
        return {**values, "out": values[field]}

    return replace(
        batch,
        size=doubled(batch.size),
        stride=doubled(batch.stride),
        item_bytes=doubled(batch.item_bytes),
        dtype=doubled(batch.dtype),
    )


def _vector_law(tile: int, worker: int, rate: Rate) -> Law:
    """Return the law of a vector: cycles of the tile and of a worker before the loop."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        batch = as_apart(batch)
        share = worker_share(batch.n_elements("out"), machine)
        work = worker + loop_cycles(rate, share, batch)
        return np.asarray(start_cycles(tile, machine) + machine.n_worker_contexts * work)

    return law


def _in_place(law: Law) -> Law:
    return lambda batch, machine: law(as_apart(batch), machine)


def unary_kernels_in_place(function: Any) -> tuple[Any, Any]:
    """Return the kernels that apply a function over a vector, and over blocks with any strides."""

    @jit
    def vector(x):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            x[i] = function(x[i])

    @jit
    def block(x, start, size, stride):  # type: ignore[no-untyped-def]
        n, step = unsigned(size[2]), unsigned(stride[2])
        for p in range(size[0]):
            for r in range(size[1]):
                row = unsigned(start + p * stride[0] + r * stride[1])
                for c in range(n):
                    x[row + c * step] = function(x[row + c * step])

    return vector, block


def _binary_kernels(function: Any) -> tuple[Any, Any]:
    @jit
    def vector(a, b):  # type: ignore[no-untyped-def]
        for i in range(a.size):
            a[i] = function(a[i], b[i])

    @jit
    def block(a, start, size, stride, b, b_start, b_size, b_stride):  # type: ignore[no-untyped-def]
        combine_blocks(function, a, start, stride, b, b_start, b_stride, a, start, size, stride)

    return vector, block


def _flops(apart: Codelet) -> Any:
    """Return the count of the codelet with a result of its own."""
    count = apart.flops
    return None if count is None else lambda batch: count(as_apart(batch))


def _unary(name: str) -> tuple[Codelet, Codelet]:
    vector, block = unary_kernels_in_place(UNARY_FUNCTIONS[name])
    rate = _UNARY_RATES[name]
    codelet = Codelet(
        f"popops::UnaryOp1DInPlace<{name}>",
        (Field("x", "inout"),),
        vector,
        _vector_law(20, 55, rate),
        code_bytes=160,
        source=_SOURCE,
        flops=_flops(UNARY[name]),
        independent=every_dim(1),
        is_selection=name in SELECTIONS,
    )
    two = Codelet(
        f"popops::UnaryOp2DInPlace<{name}>",
        (Field("x", "inout", 3, kind="block"),),
        block,
        _in_place(unary_block_law(rate)),
        code_bytes=240,
        source=_SOURCE,
        flops=_flops(UNARY_BLOCK[name]),
        independent=every_dim(1, 3),
        is_selection=name in SELECTIONS,
    )
    return codelet, two


def _binary(name: str) -> tuple[Codelet, Codelet]:
    vector, block = _binary_kernels(BINARY_FUNCTIONS[name])
    rate = _BINARY_RATES[name]
    codelet = Codelet(
        f"popops::BinaryOp1DInPlace<{name}>",
        (Field("a", "inout"), Field("b", "in", size_of="a", dtype_of="a")),
        vector,
        _vector_law(11, 58, rate),
        code_bytes=200,
        source=_SOURCE,
        flops=_flops(BINARY[name]),
        independent=every_dim(2),
        is_selection=name in SELECTIONS,
    )
    two = Codelet(
        f"popops::BroadcastOp2DInPlace<{name}>",
        (
            Field("a", "inout", 3, kind="block"),
            Field("b", "in", 3, kind="block", size_of="a", dtype_of="a"),
        ),
        block,
        _in_place(binary_block_law(name, rate, begin=20)),
        code_bytes=300,
        source=_SOURCE,
        flops=_flops(BINARY_BLOCK[name]),
        independent=every_dim(2, 3),
        is_selection=name in SELECTIONS,
    )
    return codelet, two


UNARY_IN_PLACE: dict[str, Codelet] = {}
UNARY_IN_PLACE_BLOCK: dict[str, Codelet] = {}
for _name in sorted(set(UNARY_FUNCTIONS) - TO_BOOL):
    UNARY_IN_PLACE[_name], UNARY_IN_PLACE_BLOCK[_name] = _unary(_name)

BINARY_IN_PLACE: dict[str, Codelet] = {}
BINARY_IN_PLACE_BLOCK: dict[str, Codelet] = {}
for _name in sorted(set(BINARY_FUNCTIONS) - TO_BOOL):
    BINARY_IN_PLACE[_name], BINARY_IN_PLACE_BLOCK[_name] = _binary(_name)
