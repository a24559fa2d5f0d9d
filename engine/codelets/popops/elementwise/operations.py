"""Elementwise codelets: one operand or two, contiguous or in blocks with any strides.

Laws: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp. A vertex uses all
worker contexts of its tile; vectors (1-D) or rows (2-D) are divided equally among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.popops.elementwise.binary_functions import (
    BINARY_FUNCTIONS,
    BINARY_RATES,
    BINARY_TO_BOOL,
    BROADCAST_RATES,
)
from tilescope.engine.codelets.popops.elementwise.rates import Rate, rate_of
from tilescope.engine.codelets.popops.elementwise.unary_functions import (
    UNARY_FUNCTIONS,
    UNARY_RATES,
    UNARY_TO_BOOL,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned
from tilescope.engine.host.kernels._pairs import combine_blocks

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "BINARY",
    "BINARY_BLOCK",
    "SELECTIONS",
    "TO_BOOL",
    "UNARY",
    "UNARY_BLOCK",
    "binary_block_law",
    "flops_per_element",
    "loop_cycles",
    "unary_block_law",
    "unary_kernels",
    "worker_rows",
]

#: Functions that return a bool for any operand type.
TO_BOOL = UNARY_TO_BOOL | BINARY_TO_BOOL

#: Functions that return an operand or zero.
SELECTIONS = frozenset({"maximum", "minimum", "relu"})

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp"

#: Floating-point operations per element, if not one.
#: Source: the same file, flopsPerBinaryOpElement and flopsPerUnaryOpElement.
_FLOPS = {
    "remainder": 3,
    "bitwise_and": 0,
    "bitwise_not": 0,
    "bitwise_or": 0,
    "bitwise_xnor": 0,
    "bitwise_xor": 0,
    "count_leading_zeros": 0,
    "logical_not": 0,
    "popcount": 0,
    "shift_left": 0,
    "shift_right": 0,
    "shift_right_sign_extend": 0,
}

#: Operations with an assembly codelet for one scalar per row, for float or half.
_VECTOR_OUTER = frozenset({"add", "subtract", "multiply"})


def unary_kernels(function: Any) -> tuple[Any, Any]:
    """Return the kernels that apply a function to a vector, and to blocks with any strides.

    See `unsigned` for how the loops are vectorised.
    """

    @jit
    def vector(x, out):  # type: ignore[no-untyped-def]
        for i in range(out.size):
            out[i] = function(x[i])

    @jit
    def block(  # type: ignore[no-untyped-def]
        x, x_start, x_size, x_stride, out, out_start, out_size, out_stride
    ):
        n, x_step, step = unsigned(out_size[2]), unsigned(x_stride[2]), unsigned(out_stride[2])
        for p in range(out_size[0]):
            for r in range(out_size[1]):
                source = unsigned(x_start + p * x_stride[0] + r * x_stride[1])
                target = unsigned(out_start + p * out_stride[0] + r * out_stride[1])
                for c in range(n):
                    out[target + c * step] = function(x[source + c * x_step])

    return vector, block


def _binary_kernels(function: Any) -> tuple[Any, Any]:
    @jit
    def vector(a, b, out):  # type: ignore[no-untyped-def]
        for i in range(out.size):
            out[i] = function(a[i], b[i])

    @jit
    def block(  # type: ignore[no-untyped-def]
        a, a_start, a_size, a_stride, b, b_start, b_size, b_stride, out, out_start, out_size, stride
    ):
        combine_blocks(
            function, a, a_start, a_stride, b, b_start, b_stride, out, out_start, out_size, stride
        )

    return vector, block


def _operand(batch: Batch) -> str:
    """Return the field whose type determines the loop's cycles: the result may be a bool."""
    return "x" if "x" in batch.dtype else "a"


def _loop(rate: Rate, batch: Batch) -> tuple[int, int]:
    """Return cycles and elements per loop iteration for the operand type.

    Raises
    ------
    BadGraph
        If no vertex supports the type.
    """
    dtype = batch.dtype[_operand(batch)]
    rate_of_type = rate_of(rate, dtype)
    if rate_of_type is None:
        raise BadGraph(f"No vertex of this operation supports {dtype}; cast its operands first")
    return rate_of_type


def loop_cycles(rate: Rate, count: NDArray[np.int64], batch: Batch) -> NDArray[np.int64]:
    """Return a worker's cycles in the loop over some elements: ndarray of int64."""
    cycles, elements = _loop(rate, batch)
    return np.asarray(cycles * -(-count // elements))


def _vector_law(prologue: int, base: tuple[int, int], rate: Rate) -> Any:
    """Return the law of a 1-D vertex; `base` holds cycles for float and for all other types."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        share = worker_share(batch.n_elements("out"), machine)
        begin = base[0] if batch.dtype[_operand(batch)] == "float32" else base[1]
        worker = begin + loop_cycles(rate, share, batch)
        return np.asarray(start_cycles(prologue, machine) + machine.n_worker_contexts * worker)

    return law


def worker_rows(batch: Batch, machine: Machine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the slowest worker; few rows are divided by columns."""
    planes, rows_of_plane, n_columns = batch.size["out"].T
    n_rows = planes * rows_of_plane
    is_split_by_row = n_rows >= machine.n_worker_contexts
    rows = np.where(is_split_by_row, worker_share(n_rows, machine), n_rows)
    columns = np.where(is_split_by_row, n_columns, worker_share(n_columns, machine))
    return rows, columns


def _row_cycles(rate: Rate, columns: NDArray[np.int64], batch: Batch) -> NDArray[np.int64]:
    """Return the cycles of a row; a loop iteration takes one element if they are strided."""
    is_apart = np.zeros(batch.n_vertices, dtype=bool)
    for name, stride in batch.stride.items():
        is_apart |= (stride[:, 2] > 1) & (batch.size[name][:, 2] > 1)
    cycles, elements = _loop(rate, batch)
    return np.where(is_apart, cycles * columns, cycles * -(-columns // elements))


def unary_block_law(rate: Rate) -> Any:
    """Return the law of UnaryOp2D: 20 instructions, then the rows."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        rows, columns = worker_rows(batch, machine)
        work = 20 + rows * _row_cycles(rate, columns, batch)
        return np.asarray(machine.n_worker_contexts * work)

    return law


def _is_repeated(batch: Batch, dim: int) -> NDArray[np.bool_]:
    """Return whether an operand is broadcast along a dimension."""
    repeated = np.zeros(batch.n_vertices, dtype=bool)
    for name, stride in batch.stride.items():
        repeated |= (stride[:, dim] == 0) & (batch.size[name][:, dim] > 1)
    return repeated


def binary_block_law(name: str, rate: Rate, begin: int = 5) -> Any:
    """Return the law of two operands in blocks, by the kind of broadcast.

    Parameters
    ----------
    name
        The function.
    rate
        Its rates for operands of equal shapes.
    begin
        A worker's cycles before the rows, for operands of equal shapes.

    Notes
    -----
    None: BinaryOp2D. One scalar per row: BroadcastVectorOuter if it has assembly, else
    BroadcastScalar2D. The former divides whole rows among workers if a row has fewer vectors than
    the tile has workers, else parts of every row. One row for all, if `vector_inner` has no vertex
    for it: Assumption: as BroadcastVectorOuter without its saving in the loop.
    """
    broadcast = BROADCAST_RATES[name]

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        workers = machine.n_worker_contexts
        rows, columns = worker_rows(batch, machine)
        row_cycles = _row_cycles(rate, columns, batch)
        plain = workers * (begin + rows * row_cycles)
        per_vector = machine.data_path_bytes // batch.item_bytes["a"]
        before_row = np.where(columns % per_vector == 0, 7, 25)
        if name in _VECTOR_OUTER and batch.dtype["a"].startswith("float"):
            planes, rows_of_plane, columns_of_row = batch.size["out"].T
            n_rows = planes * rows_of_plane
            is_by_row = columns_of_row < workers * per_vector
            share = np.where(is_by_row, columns_of_row, worker_share(columns_of_row, machine))
            n_turns = np.where(is_by_row, worker_share(n_rows, machine), n_rows)
            row = np.where(columns_of_row % per_vector == 0, 7, 25) + _row_cycles(
                broadcast, share, batch
            )
            one_a_row = np.asarray(start_cycles(11, machine) + workers * (15 + n_turns * row))
        else:
            shared = _row_cycles(broadcast, columns, batch)
            one_a_row = np.asarray(workers * (20 + rows * (28 + shared)))
        same_row = start_cycles(11, machine) + workers * (15 + rows * (before_row + row_cycles))
        is_same_row = _is_repeated(batch, 0) | _is_repeated(batch, 1)
        return np.where(_is_repeated(batch, 2), one_a_row, np.where(is_same_row, same_row, plain))

    return law


def _result(name: str, dims: int = 1) -> Field:
    """Return the result field, of the operand type or bool."""
    kind = "vector" if dims == 1 else "block"
    return Field("out", "out", dims, kind=kind, dtype="bool" if name in TO_BOOL else "")


def flops_per_element(function: str) -> int:
    """Return the floating-point operations of a function of floats, per element."""
    return _FLOPS.get(function, 1)


def _flops(name: str) -> Any:
    """Return the FLOP count of a function, for floats only."""

    def flops(batch: Batch) -> NDArray[np.int64]:
        counted = flops_per_element(name) * batch.is_float(_operand(batch))
        return np.asarray(counted * batch.n_elements("out"))

    return flops


def _unary(name: str) -> tuple[Codelet, Codelet]:
    vector, block = unary_kernels(UNARY_FUNCTIONS[name])
    rate = UNARY_RATES[name]
    codelet = Codelet(
        f"popops::UnaryOp1D<{name}>",
        (Field("x", "in", size_of="out"), _result(name)),
        vector,
        _vector_law(20, (33, 33) if name == "exp" else (17, 17), rate),
        code_bytes=180,
        source=_SOURCE,
        flops=_flops(name),
        independent=every_dim(2),
        is_selection=name in SELECTIONS,
    )
    two = Codelet(
        f"popops::UnaryOp2D<{name}>",
        (Field("x", "in", 3, kind="block", size_of="out"), _result(name, 3)),
        block,
        unary_block_law(rate),
        code_bytes=260,
        source=_SOURCE,
        flops=_flops(name),
        independent=every_dim(2, 3),
        is_selection=name in SELECTIONS,
    )
    return codelet, two


def _binary(name: str) -> tuple[Codelet, Codelet]:
    vector, block = _binary_kernels(BINARY_FUNCTIONS[name])
    codelet = Codelet(
        f"popops::BinaryOp1D<{name}>",
        (
            Field("a", "in", size_of="out"),
            Field("b", "in", size_of="out", dtype_of="a"),
            _result(name),
        ),
        vector,
        _vector_law(11, (29, 26), BINARY_RATES[name]),
        code_bytes=220,
        source=_SOURCE,
        flops=_flops(name),
        independent=every_dim(3),
        is_selection=name in SELECTIONS,
    )
    two = Codelet(
        f"popops::BroadcastOp2D<{name}>",
        (
            Field("a", "in", 3, kind="block", size_of="out"),
            Field("b", "in", 3, kind="block", size_of="out", dtype_of="a"),
            _result(name, 3),
        ),
        block,
        binary_block_law(name, BINARY_RATES[name]),
        code_bytes=320,
        source=_SOURCE,
        flops=_flops(name),
        independent=every_dim(3, 3),
        is_selection=name in SELECTIONS,
    )
    return codelet, two


UNARY: dict[str, Codelet] = {}
UNARY_BLOCK: dict[str, Codelet] = {}
for _name in UNARY_FUNCTIONS:
    UNARY[_name], UNARY_BLOCK[_name] = _unary(_name)

BINARY: dict[str, Codelet] = {}
BINARY_BLOCK: dict[str, Codelet] = {}
for _name in BINARY_FUNCTIONS:
    BINARY[_name], BINARY_BLOCK[_name] = _binary(_name)
