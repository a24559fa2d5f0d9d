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
from engine.codelets.codelet import Batch, Codelet, Field, Scalar, worker_share

if TYPE_CHECKING:
    from engine.machine import Machine

__all__ = ["BINARY", "BINARY_BLOCK", "FILL", "UNARY", "UNARY_BLOCK"]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp"

# Cycles per data-path vector of a worker: (4-byte types, 2-byte types).
_UNARY_CYCLES = {
    "relu": (3, 3),
    "sigmoid": (12, 6),
    "tanh": (12, 4),
    "exp": (6, 4),
    "log": (12, 4),
    "sqrt": (10, 23),
    "inverse": (6, 15),
    "negate": (2, 2),
    "absolute": (5, 5),
    "square": (2, 2),
    "erf": (82, 52),
}
_BINARY_CYCLES = {
    "add": (3, 3),
    "subtract": (3, 3),
    "multiply": (3, 3),
    "divide": (10, 21),
    "maximum": (3, 4),
    "minimum": (3, 4),
    "power": (624, 1300),
}


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
_BINARY_FUNCTIONS = {
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


def _per_vector(cycles: tuple[int, int], batch: Batch) -> int:
    return cycles[0] if batch.item_bytes["out"] >= 4 else cycles[1]


def _vector_law(prologue: int, base: int, cycles: tuple[int, int]) -> Any:
    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        share = worker_share(batch.n_elements("out"), machine)
        vectors = batch.n_vectors(share, "out", machine)
        workers = machine.n_worker_contexts
        return np.asarray(prologue + workers * (base + _per_vector(cycles, batch) * vectors))

    return law


def _block_law(cycles: tuple[int, int]) -> Any:
    """Rows are shared out; a row costs 7 cycles and its vectors (popops vector-outer broadcast)."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        planes, rows_of_plane, n_columns = batch.size["out"].T
        n_rows = planes * rows_of_plane
        is_split_by_row = n_rows >= machine.n_worker_contexts
        rows = np.where(is_split_by_row, worker_share(n_rows, machine), n_rows)
        columns = np.where(is_split_by_row, n_columns, worker_share(n_columns, machine))
        vectors = batch.n_vectors(columns, "out", machine)
        is_strided = np.zeros(batch.n_vertices, dtype=bool)
        for name, stride in batch.stride.items():
            is_strided |= (stride[:, 2] > 1) & (batch.size[name][:, 2] > 1)
        units = np.where(is_strided, columns, vectors)
        per_row = 7 + _per_vector(cycles, batch) * units
        return np.asarray(11 + machine.n_worker_contexts * (15 + rows * per_row))

    return law


def _flops(batch: Batch) -> NDArray[np.int64]:
    return batch.n_elements("out")


def _unary(name: str) -> tuple[Codelet, Codelet]:
    vector, block = _unary_kernels(_UNARY_FUNCTIONS[name])
    cycles = _UNARY_CYCLES[name]
    one = Codelet(
        f"popops::UnaryOp1D<{name}>",
        (Field("x", "in"), Field("out", "out")),
        vector,
        _vector_law(20, 33 if name == "exp" else 17, cycles),
        code_bytes=180,
        source=_SOURCE,
        flops=_flops,
    )
    two = Codelet(
        f"popops::UnaryOp2D<{name}>",
        (Field("x", "in", 3, kind="block"), Field("out", "out", 3, kind="block")),
        block,
        _block_law(cycles),
        code_bytes=260,
        source=_SOURCE,
        flops=_flops,
    )
    return one, two


def _binary(name: str) -> tuple[Codelet, Codelet]:
    vector, block = _binary_kernels(_BINARY_FUNCTIONS[name])
    cycles = _BINARY_CYCLES[name]
    one = Codelet(
        f"popops::BinaryOp1D<{name}>",
        (Field("a", "in"), Field("b", "in"), Field("out", "out")),
        vector,
        _vector_law(11, 29, cycles),
        code_bytes=220,
        source=_SOURCE,
        flops=_flops,
    )
    two = Codelet(
        f"popops::BroadcastOp2D<{name}>",
        (
            Field("a", "in", 3, kind="block"),
            Field("b", "in", 3, kind="block"),
            Field("out", "out", 3, kind="block"),
        ),
        block,
        _block_law(cycles),
        code_bytes=320,
        source=_SOURCE,
        flops=_flops,
    )
    return one, two


@jit
def _fill_kernel(out, value):  # type: ignore[no-untyped-def]
    out[:] = value


def _fill_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    vectors = batch.n_vectors(worker_share(batch.n_elements("out"), machine), "out", machine)
    return np.asarray(machine.n_worker_contexts * (16 + vectors + 7))


UNARY: dict[str, Codelet] = {}
UNARY_BLOCK: dict[str, Codelet] = {}
for _name in _UNARY_FUNCTIONS:
    UNARY[_name], UNARY_BLOCK[_name] = _unary(_name)

BINARY: dict[str, Codelet] = {}
BINARY_BLOCK: dict[str, Codelet] = {}
for _name in _BINARY_FUNCTIONS:
    BINARY[_name], BINARY_BLOCK[_name] = _binary(_name)

FILL = Codelet(
    "popops::Fill",
    (Field("out", "out"),),
    _fill_kernel,
    _fill_law,
    code_bytes=90,
    source=_SOURCE,
    scalars=(Scalar("value", "float"),),
)
