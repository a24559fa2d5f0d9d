"""Vertices that write random numbers; values by `tilescope.engine.codelets.poprand.philox`.

Laws: graphcore/poplibs sdk-release-3.4, lib/poprand/poprandCycleEstimators.cpp, whose vertices use
the generator of the hardware. For uniform and Bernoulli numbers that file counts vectors of 16 or
32 elements; the loops of lib/poprand/codelets/asm/Uniform.S and Bernoulli.S store one 64-bit
vector per iteration, as those of the other distributions, and so do these laws. A random number
counts as one operation, its scaling as two (the same file). A cast that rounds by chance is an
ordinary one in a mode of the machine (Graphcore, Tile Worker ISA, $FP_CTL.ESR).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import cast_rows_cycles
from tilescope.engine.codelets.poprand.philox import normal_quantile, philox
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, start_cycles
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "DIGIT_SIZES",
    "DIGIT_STEPS",
    "DROPOUT",
    "N_DIGITS",
    "PLACE_SCALARS",
    "RANDOM",
    "STOCHASTIC_CAST",
]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/poprand/poprandCycleEstimators.cpp"

#: Index of a region's first element, and steps of the index along the region's dimensions. The
#: compiler knows them: they are no part of a vertex's state, because the vertices of the source
#: have none.
PLACE_SCALARS = ("index", "by_plane", "by_row", "by_column")
#: Largest number of dimensions in which indices, which follow the order in memory, become positions
#: in the tensor.
N_DIGITS = 6
#: Sizes of these dimensions, innermost first and 0 for the outermost, and the steps of the position
#: along them.
DIGIT_SIZES = tuple(f"size_{i}" for i in range(N_DIGITS))
DIGIT_STEPS = tuple(f"step_{i}" for i in range(N_DIGITS))
_UNIT = 2.0**-32
#: Of half: the exponent of its smallest normal number, the bits after the first one, its largest.
_LOWEST_EXPONENT, _MANTISSA_BITS, _LARGEST_HALF = -14, 10, 65504.0


@jit
def _uniform(bits: Any, low: float, width: float) -> Any:
    # 24 bits: every value is exact in single precision, and below 1.
    return low + width * (np.int64(bits >> np.uint64(8)) * 2.0**-24)


@jit
def _uniform_int(bits: Any, low: float, width: float) -> Any:
    return np.int64(low) + ((np.int64(bits) * np.int64(width)) >> 32)


@jit
def _bernoulli(bits: Any, threshold: float, _: float) -> Any:
    return 1 if np.int64(bits) < threshold else 0


@jit
def _normal(bits: Any, mean: float, deviation: float) -> Any:
    return mean + deviation * normal_quantile((np.int64(bits) + 0.5) * _UNIT)


@jit
def _truncated(bits: Any, mean: float, deviation: float, below: float) -> Any:
    inside = below + (1 - 2 * below) * ((np.int64(bits) + 0.5) * _UNIT)
    return mean + deviation * normal_quantile(inside)


@jit
def _position(index, sizes, steps):  # type: ignore[no-untyped-def]
    """Return the position in the tensor of an element in memory."""
    position = np.int64(0)
    rest = np.int64(index)
    for size, step in zip(sizes, steps):  # noqa: B905 # numba's zip takes no strict
        if size == 0:
            return position + rest * step
        position += rest % size * step
        rest //= size
    return position


def _kernel(function: Any) -> Any:
    @jit
    def kernel(  # type: ignore[no-untyped-def]
        seed, out, start, size, stride, modifier, index, by_plane, by_row, by_column,
        s0, s1, s2, s3, s4, s5, t0, t1, t2, t3, t4, t5, a, b,
    ):  # fmt: skip
        sizes, steps = (s0, s1, s2, s3, s4, s5), (t0, t1, t2, t3, t4, t5)
        for p in range(size[0]):
            for r in range(size[1]):
                target = start + p * stride[0] + r * stride[1]
                row = index + p * by_plane + r * by_row
                for c in range(size[2]):
                    element = _position(row + c * by_column, sizes, steps)
                    bits = philox(element >> 2, modifier, seed[0], seed[1], element & 3)
                    out[target + c * stride[2]] = function(bits, a, b)

    return kernel


@jit
def _truncated_kernel(  # type: ignore[no-untyped-def]
    seed, out, start, size, stride, modifier, index, by_plane, by_row, by_column,
    s0, s1, s2, s3, s4, s5, t0, t1, t2, t3, t4, t5, mean, deviation, below, iterations,
):  # fmt: skip
    sizes, steps = (s0, s1, s2, s3, s4, s5), (t0, t1, t2, t3, t4, t5)
    for p in range(size[0]):
        for r in range(size[1]):
            target = start + p * stride[0] + r * stride[1]
            row = index + p * by_plane + r * by_row
            for c in range(size[2]):
                element = _position(row + c * by_column, sizes, steps)
                bits = philox(element >> 2, modifier, seed[0], seed[1], element & 3)
                out[target + c * stride[2]] = _truncated(bits, mean, deviation, below)


@jit
def _dropout_kernel(  # type: ignore[no-untyped-def]
    seed, x, x_start, x_size, x_stride, out, start, size, stride,
    modifier, index, by_plane, by_row, by_column,
    s0, s1, s2, s3, s4, s5, t0, t1, t2, t3, t4, t5, threshold, factor,
):  # fmt: skip
    sizes, steps = (s0, s1, s2, s3, s4, s5), (t0, t1, t2, t3, t4, t5)
    for p in range(size[0]):
        for r in range(size[1]):
            source = x_start + p * x_stride[0] + r * x_stride[1]
            target = start + p * stride[0] + r * stride[1]
            row = index + p * by_plane + r * by_row
            for c in range(size[2]):
                element = _position(row + c * by_column, sizes, steps)
                bits = philox(element >> 2, modifier, seed[0], seed[1], element & 3)
                is_kept = np.int64(bits) < threshold
                value = x[source + c * x_stride[2]]
                out[target + c * stride[2]] = value * factor if is_kept else value - value


@jit
def _to_neighbour(x, bits):  # type: ignore[no-untyped-def]
    """Return one of the two halves beside a number, the nearer one more often."""
    value = np.float64(x)
    if not abs(value) < _LARGEST_HALF:
        return value
    step = math.ldexp(1.0, max(math.frexp(value)[1] - 1, _LOWEST_EXPONENT) - _MANTISSA_BITS)
    below = math.floor(value / step)
    return (below + (1 if np.int64(bits) * _UNIT < value / step - below else 0)) * step


@jit
def _stochastic_kernel(  # type: ignore[no-untyped-def]
    seed, x, x_start, x_size, x_stride, out, start, size, stride,
    modifier, index, by_plane, by_row, by_column,
    s0, s1, s2, s3, s4, s5, t0, t1, t2, t3, t4, t5,
):  # fmt: skip
    sizes, steps = (s0, s1, s2, s3, s4, s5), (t0, t1, t2, t3, t4, t5)
    for p in range(size[0]):
        for r in range(size[1]):
            source = x_start + p * x_stride[0] + r * x_stride[1]
            target = start + p * stride[0] + r * stride[1]
            row = index + p * by_plane + r * by_row
            for c in range(size[2]):
                element = _position(row + c * by_column, sizes, steps)
                bits = philox(element >> 2, modifier, seed[0], seed[1], element & 3)
                out[target + c * stride[2]] = _to_neighbour(x[source + c * x_stride[2]], bits)


def _stochastic_law(batch: Batch, machine: Machine) -> Counts:
    """Return the law of a cast: how it rounds is a mode of the floating-point unit."""
    planes, rows, columns = batch.size["out"].T
    types = {name: (batch.dtype[name], batch.item_bytes[name]) for name in ("x", "out")}
    return cast_rows_cycles(planes * rows, columns, types, machine)


def _law(tile: int, worker: tuple[int, int], per_vector: int, rest: tuple[int, int]) -> Any:
    """Return a law from cycles of the tile; of a worker, and of a last part, for float and half."""

    def law(batch: Batch, machine: Machine) -> Counts:
        is_half = int(batch.dtype["out"] == "float16")
        n = batch.n_elements("out")
        width = machine.data_path_bytes // batch.item_bytes["out"]
        work = machine.n_worker_contexts * worker[is_half] + per_vector * -(-n // width)
        return np.asarray(start_cycles(tile, machine) + work + (n % width > 0) * rest[is_half])

    return law


def _truncated_law(batch: Batch, machine: Machine) -> Counts:
    """Return the law of TruncatedNormal, whose loop runs a fixed number of trials."""
    is_half = batch.dtype["out"] == "float16"
    n, trials = batch.n_elements("out"), batch.scalars["iterations"]
    width = machine.data_path_bytes // batch.item_bytes["out"]
    loop, worker = (12, 28) if is_half else (11, 26)
    rest = 12 * trials + 10 if is_half else 13 * trials + 2
    work = machine.n_worker_contexts * worker + (loop * trials + 5) * -(-n // width)
    return np.asarray(start_cycles(4, machine) + work + (n % width > 0) * rest)


_PLACE = tuple(
    Scalar(name, on_device=False) for name in (*PLACE_SCALARS, *DIGIT_SIZES, *DIGIT_STEPS)
)


def _codelet(name: str, kernel: Any, law: Any, scalars: tuple[Scalar, ...], flops: int) -> Codelet:
    dtype = "int32" if name.endswith("Int") else ""
    return Codelet(
        f"poprand::{name}",
        (
            Field("seed", "in", dtype="int32"),
            Field("out", "out", 3, kind="block", dtype=dtype),
        ),
        kernel,
        law,
        code_bytes=160,  # Assumption: 40 instructions, as in lib/poprand/codelets/asm
        source=_SOURCE,
        scalars=(Scalar("modifier"), *_PLACE, *scalars),
        flops=lambda batch: flops * batch.n_elements("out") * batch.is_float("out"),
    )


_PAIR = (Scalar("a", "float"), Scalar("b", "float"))
#: By distribution. Scalars a and b: lowest value and width, mean and deviation, or threshold of 32
#: bits below which a number is one.
RANDOM = {
    "uniform": _codelet("Uniform", _kernel(_uniform), _law(4, (22, 24), 4, (4, 12)), _PAIR, 3),
    "uniform_int": _codelet(
        "UniformInt", _kernel(_uniform_int), _law(4, (22, 22), 6, (2, 2)), _PAIR, 0
    ),
    "bernoulli": _codelet("Bernoulli", _kernel(_bernoulli), _law(4, (23, 21), 1, (1, 9)), _PAIR, 1),
    "normal": _codelet("Normal", _kernel(_normal), _law(4, (22, 24), 4, (3, 12)), _PAIR, 3),
    "truncated_normal": _codelet(
        "TruncatedNormal",
        _truncated_kernel,
        _truncated_law,
        (
            Scalar("mean", "float"),
            Scalar("deviation", "float"),
            Scalar("below", "float"),
            Scalar("iterations"),
        ),
        3,
    ),
}
DROPOUT = Codelet(
    "poprand::Dropout",
    (
        Field("seed", "in", dtype="int32"),
        Field("x", "in", 3, kind="block", size_of="out", dtype_of="out"),
        Field("out", "out", 3, kind="block"),
    ),
    _dropout_kernel,
    _law(6, (24, 24), 2, (1, 9)),
    code_bytes=160,
    source=_SOURCE,
    scalars=(Scalar("modifier"), *_PLACE, Scalar("threshold", "float"), Scalar("factor", "float")),
    flops=lambda batch: 2 * batch.n_elements("out"),
)
#: float32 to half, rounded to one of the two neighbours by chance.
STOCHASTIC_CAST = Codelet(
    "poprand::StochasticCast",
    (
        Field("seed", "in", dtype="int32"),
        Field("x", "in", 3, kind="block", size_of="out", dtype="float32"),
        Field("out", "out", 3, kind="block", dtype="float16"),
    ),
    _stochastic_kernel,
    _stochastic_law,
    code_bytes=160,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/codelets/Cast.cpp",
    scalars=(Scalar("modifier"), *_PLACE),
)
