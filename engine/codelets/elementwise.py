"""Elementwise codelets: one operand or two, contiguous or in blocks with any strides.

Laws: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp. A vertex uses all
worker contexts of its tile; each gets an equal share of the vectors (1-D) or rows (2-D).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.codelets._jit import jit
from engine.codelets.codelet import Batch, Codelet, Field, start_cycles, worker_share
from engine.codelets.elementwise_rates import (
    BINARY_RATES,
    BROADCAST_RATES,
    UNARY_RATES,
    Rate,
    rate_of,
)
from engine.errors import BadGraph

if TYPE_CHECKING:
    from engine.machine import Machine

__all__ = ["BINARY", "BINARY_BLOCK", "BINARY_FUNCTIONS", "UNARY", "UNARY_BLOCK"]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp"

#: Operations with an assembly codelet for one number a row, of floats or halves.
_VECTOR_OUTER = frozenset({"add", "subtract", "multiply"})


@jit
def _relu(x: Any) -> Any:
    return x if x > 0 or x != x else np.float32(0)  # a NaN stays one


@jit
def _sigmoid(x: Any) -> Any:
    one = np.float32(1)
    if x >= 0:
        return one / (one + np.exp(-x))
    e = np.exp(x)
    return e / (one + e)


@jit
def _tanh(x: float) -> Any:
    return np.tanh(x)


@jit
def _exp(x: float) -> Any:
    return np.exp(x)


@jit
def _log(x: float) -> Any:
    return np.log(x)


@jit
def _sqrt(x: float) -> Any:
    return np.sqrt(x)


@jit
def _inverse(x: float) -> Any:
    return np.float32(1) / x


@jit
def _negate(x: float) -> float:
    return -x


@jit
def _absolute(x: float) -> float:
    return abs(x)


@jit
def _square(x: float) -> float:
    return x * x


@jit
def _erf(x: float) -> Any:
    return math.erf(x)


@jit
def _add(a: float, b: float) -> float:
    return a + b


@jit
def _subtract(a: float, b: float) -> float:
    return a - b


@jit
def _multiply(a: float, b: float) -> float:
    return a * b


@jit
def _divide(a: float, b: float) -> float:
    return a / b


@jit
def _maximum(a: float, b: float) -> float:
    return a if a > b or a != a else b


@jit
def _minimum(a: float, b: float) -> float:
    return a if a < b or a != a else b


@jit
def _power(a: float, b: float) -> Any:
    return a**b


_UNARY_FUNCTIONS = {
    "relu": _relu,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "inverse": _inverse,
    "negate": _negate,
    "absolute": _absolute,
    "square": _square,
    "erf": _erf,
}
BINARY_FUNCTIONS = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "maximum": _maximum,
    "minimum": _minimum,
    "power": _power,
}


def _unary_kernels(function: Any) -> tuple[Any, Any]:
    @jit
    def vector(x, out):  # type: ignore[no-untyped-def]
        for i in range(out.size):
            out[i] = function(x[i])

    @jit
    def block(  # type: ignore[no-untyped-def]
        x, x_start, x_size, x_stride, out, out_start, out_size, out_stride
    ):
        for p in range(out_size[0]):
            for r in range(out_size[1]):
                source = x_start + p * x_stride[0] + r * x_stride[1]
                target = out_start + p * out_stride[0] + r * out_stride[1]
                for c in range(out_size[2]):
                    out[target + c * out_stride[2]] = function(x[source + c * x_stride[2]])

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
        for p in range(out_size[0]):
            for r in range(out_size[1]):
                left = a_start + p * a_stride[0] + r * a_stride[1]
                right = b_start + p * b_stride[0] + r * b_stride[1]
                target = out_start + p * stride[0] + r * stride[1]
                for c in range(out_size[2]):
                    out[target + c * stride[2]] = function(
                        a[left + c * a_stride[2]], b[right + c * b_stride[2]]
                    )

    return vector, block


def _loop(rate: Rate, batch: Batch) -> tuple[int, int]:
    """Return the cycles of a loop and its elements for the type that is written.

    Raises
    ------
    BadGraph
        When there is no vertex for the type.
    """
    dtype = batch.dtype["out"]
    found = rate_of(rate, dtype)
    if found is None:
        raise BadGraph(f"There is no vertex of this operation for {dtype}: cast its operands first")
    return found


def _loop_cycles(rate: Rate, count: NDArray[np.int64], batch: Batch) -> NDArray[np.int64]:
    cycles, elements = _loop(rate, batch)
    return np.asarray(cycles * -(-count // elements))


def _vector_law(prologue: int, base: tuple[int, int], rate: Rate) -> Any:
    """Return the law of a 1-D vertex; `base` is for float and for all other types."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        share = worker_share(batch.n_elements("out"), machine)
        begin = base[0] if batch.dtype["out"] == "float32" else base[1]
        worker = begin + _loop_cycles(rate, share, batch)
        return np.asarray(start_cycles(prologue, machine) + machine.n_worker_contexts * worker)

    return law


def _rows(batch: Batch, machine: Machine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the slowest worker; few rows are shared out by columns."""
    planes, rows_of_plane, n_columns = batch.size["out"].T
    n_rows = planes * rows_of_plane
    is_split_by_row = n_rows >= machine.n_worker_contexts
    rows = np.where(is_split_by_row, worker_share(n_rows, machine), n_rows)
    columns = np.where(is_split_by_row, n_columns, worker_share(n_columns, machine))
    return rows, columns


def _row_cycles(rate: Rate, columns: NDArray[np.int64], batch: Batch) -> NDArray[np.int64]:
    """Return the cycles of a row; where elements are apart, a loop takes one of them."""
    is_apart = np.zeros(batch.n_vertices, dtype=bool)
    for name, stride in batch.stride.items():
        is_apart |= (stride[:, 2] > 1) & (batch.size[name][:, 2] > 1)
    cycles, elements = _loop(rate, batch)
    return np.where(is_apart, cycles * columns, cycles * -(-columns // elements))


def _unary_block_law(rate: Rate) -> Any:
    """Return the law of UnaryOp2D: 20 instructions, then the rows."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        rows, columns = _rows(batch, machine)
        work = 20 + rows * _row_cycles(rate, columns, batch)
        return np.asarray(machine.n_worker_contexts * work)

    return law


def _is_repeated(batch: Batch, dim: int) -> NDArray[np.bool_]:
    """Return whether an operand has one element for all places along a dimension."""
    repeated = np.zeros(batch.n_vertices, dtype=bool)
    for name, stride in batch.stride.items():
        repeated |= (stride[:, dim] == 0) & (batch.size[name][:, dim] > 1)
    return repeated


def _binary_block_law(name: str) -> Any:
    """Return the law of two operands in blocks, by what is repeated.

    Nothing: BinaryOp2D. One number a row: BroadcastVectorOuter where there is assembly, else
    BroadcastScalar2D. The former gives each worker whole rows where these have fewer vectors than
    there are workers, else a part of every row. The same row for all, where `vector_inner` has no
    vertex for it: Assumption: as BroadcastVectorOuter without its saving in the loop.
    """
    rate, broadcast = BINARY_RATES[name], BROADCAST_RATES[name]

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        workers = machine.n_worker_contexts
        rows, columns = _rows(batch, machine)
        own = _row_cycles(rate, columns, batch)
        plain = workers * (5 + rows * own)
        per_vector = machine.data_path_bytes // batch.item_bytes["out"]
        begin = np.where(columns % per_vector == 0, 7, 25)
        if name in _VECTOR_OUTER and batch.dtype["out"].startswith("float"):
            planes, rows_of_plane, whole = batch.size["out"].T
            n_rows = planes * rows_of_plane
            is_by_row = whole < workers * per_vector
            share = np.where(is_by_row, whole, worker_share(whole, machine))
            n_turns = np.where(is_by_row, worker_share(n_rows, machine), n_rows)
            row = np.where(whole % per_vector == 0, 7, 25) + _row_cycles(broadcast, share, batch)
            one_a_row = np.asarray(start_cycles(11, machine) + workers * (15 + n_turns * row))
        else:
            shared = _row_cycles(broadcast, columns, batch)
            one_a_row = np.asarray(workers * (20 + rows * (28 + shared)))
        same_row = start_cycles(11, machine) + workers * (15 + rows * (begin + own))
        is_same_row = _is_repeated(batch, 0) | _is_repeated(batch, 1)
        return np.where(_is_repeated(batch, 2), one_a_row, np.where(is_same_row, same_row, plain))

    return law


def _flops(batch: Batch) -> NDArray[np.int64]:
    return batch.n_elements("out")


def _unary(name: str) -> tuple[Codelet, Codelet]:
    vector, block = _unary_kernels(_UNARY_FUNCTIONS[name])
    rate = UNARY_RATES[name]
    one = Codelet(
        f"popops::UnaryOp1D<{name}>",
        (Field("x", "in", size_of="out"), Field("out", "out")),
        vector,
        _vector_law(20, (33, 33) if name == "exp" else (17, 17), rate),
        code_bytes=180,
        source=_SOURCE,
        flops=_flops,
    )
    two = Codelet(
        f"popops::UnaryOp2D<{name}>",
        (Field("x", "in", 3, kind="block", size_of="out"), Field("out", "out", 3, kind="block")),
        block,
        _unary_block_law(rate),
        code_bytes=260,
        source=_SOURCE,
        flops=_flops,
    )
    return one, two


def _binary(name: str) -> tuple[Codelet, Codelet]:
    vector, block = _binary_kernels(BINARY_FUNCTIONS[name])
    one = Codelet(
        f"popops::BinaryOp1D<{name}>",
        (Field("a", "in", size_of="out"), Field("b", "in", size_of="out"), Field("out", "out")),
        vector,
        _vector_law(11, (29, 26), BINARY_RATES[name]),
        code_bytes=220,
        source=_SOURCE,
        flops=_flops,
    )
    two = Codelet(
        f"popops::BroadcastOp2D<{name}>",
        (
            Field("a", "in", 3, kind="block", size_of="out"),
            Field("b", "in", 3, kind="block", size_of="out"),
            Field("out", "out", 3, kind="block"),
        ),
        block,
        _binary_block_law(name),
        code_bytes=320,
        source=_SOURCE,
        flops=_flops,
    )
    return one, two


UNARY: dict[str, Codelet] = {}
UNARY_BLOCK: dict[str, Codelet] = {}
for _name in _UNARY_FUNCTIONS:
    UNARY[_name], UNARY_BLOCK[_name] = _unary(_name)

BINARY: dict[str, Codelet] = {}
BINARY_BLOCK: dict[str, Codelet] = {}
for _name in BINARY_FUNCTIONS:
    BINARY[_name], BINARY_BLOCK[_name] = _binary(_name)
