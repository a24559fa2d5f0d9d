"""Gradients of non-linearities: the gradient of the result times the slope, by element.

Laws: graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp, NonLinearityGrad1D and
NonLinearityGrad2D, for aligned data and without the unpacking of pointers; cycles per element and
per vector: lib/popnn/PerformanceEstimation.hpp, getNonLinearityGradOpCycles, which marks those of
``gelu`` as unverified and those of ``gelu_erf`` as placeholders. Rows of constant stride take one
element at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.popops.elementwise.operations import worker_rows
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, Law, start_cycles, worker_share
from tilescope.engine.host.jit._jit import inlined_jit, jit
from tilescope.engine.host.kernels._exponential import gelu_erf_slope, gelu_slope, swish_slope
from tilescope.engine.host.kernels._pairs import combine_blocks

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "NON_LINEARITY_GRADIENT",
    "NON_LINEARITY_GRADIENT_BLOCK",
    "NON_LINEARITY_GRADIENT_FLOPS",
]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp"


# The vertices multiply by a mask: a gradient that is no number stays so.
@jit
def _relu(result: Any, gradient: Any) -> Any:
    return gradient * (np.float32(1) if result > 0 else np.float32(0))


@jit
def _sigmoid(result: Any, gradient: Any) -> Any:
    return gradient * (result - result * result)


@jit
def _tanh(result: Any, gradient: Any) -> Any:
    return gradient * (np.float32(1) - result * result)


@jit
def _gelu(x: Any, gradient: Any) -> Any:
    return gradient * gelu_slope(x)


@inlined_jit
def _gelu_erf(x: Any, gradient: Any) -> Any:
    return gradient * gelu_erf_slope(x)


@jit
def _swish(x: Any, gradient: Any) -> Any:
    return gradient * swish_slope(x)


#: Function; cycles of an element and of a vector, for float and half.
_FUNCTIONS: dict[str, tuple[Any, tuple[int, int], tuple[int, int]]] = {
    "relu": (_relu, (3, 3), (3, 3)),
    "sigmoid": (_sigmoid, (3, 3), (3, 3)),
    "tanh": (_tanh, (3, 3), (3, 3)),
    "gelu": (_gelu, (10, 10), (5, 5)),
    "gelu_erf": (_gelu_erf, (30, 30), (15, 15)),
    "swish": (_swish, (10, 15), (7, 9)),
}
#: Floating-point operations per element. Source: the same file, nonlinearityGradFlops.
NON_LINEARITY_GRADIENT_FLOPS = {
    "relu": 1,
    "sigmoid": 2,
    "tanh": 2,
    "gelu": 15,
    "gelu_erf": 15,
    "swish": 5,
}


def _vector_cycles(name: str, n_vectors: Counts, batch: Batch) -> Counts:
    """Return a worker's cycles for whole vectors."""
    _, vector = _FUNCTIONS[name][1 if batch.dtype["out"] == "float32" else 2]
    return np.asarray((n_vectors > 0) * (5 + (n_vectors - 1) * vector))


def _rest_cycles(name: str, rest: Counts, batch: Batch) -> Counts:
    """Return a worker's cycles for the elements after the last whole vector."""
    is_float = batch.dtype["out"] == "float32"
    single, _ = _FUNCTIONS[name][1 if is_float else 2]
    if is_float:
        return np.asarray(2 + (rest & 1) * (1 + single))
    return np.asarray(4 + (rest & 2 > 0) * (2 + single) + (rest & 1) * (4 + single))


def _vector_law(name: str) -> Law:
    def law(batch: Batch, machine: Machine) -> Counts:
        n = batch.n_elements("out")
        per_vector = machine.data_path_bytes // batch.item_bytes["out"]
        worker = 20 + _vector_cycles(name, worker_share(n // per_vector, machine), batch)
        worker += 2 + _rest_cycles(name, n % per_vector, batch)
        return np.asarray(start_cycles(9, machine) + machine.n_worker_contexts * worker)

    return law


def _block_law(name: str) -> Law:
    def law(batch: Batch, machine: Machine) -> Counts:
        rows, columns = worker_rows(batch, machine)
        is_float = batch.dtype["out"] == "float32"
        per_vector = machine.data_path_bytes // batch.item_bytes["out"]
        is_apart = np.zeros(batch.n_vertices, dtype=bool)
        for field, stride in batch.stride.items():
            is_apart |= (stride[:, 2] > 1) & (batch.size[field][:, 2] > 1)
        whole = _vector_cycles(name, columns // per_vector, batch)
        whole = whole + _rest_cycles(name, columns % per_vector, batch)
        single = (1 if is_float else 4) + _FUNCTIONS[name][1 if is_float else 2][0]
        worker = 17 + rows * (10 + np.where(is_apart, columns * single, whole))
        return np.asarray(machine.n_worker_contexts * worker)

    return law


def _kernels(function: Any) -> tuple[Any, Any]:
    @jit
    def vector(act, gradient, out):  # type: ignore[no-untyped-def]
        for i in range(out.size):
            out[i] = function(act[i], gradient[i])

    @jit
    def block(  # type: ignore[no-untyped-def]
        act, act_start, act_size, act_stride,
        gradient, gradient_start, gradient_size, gradient_stride,
        out, out_start, out_size, out_stride,
    ):  # fmt: skip
        combine_blocks(
            function, act, act_start, act_stride, gradient, gradient_start, gradient_stride,
            out, out_start, out_size, out_stride,
        )  # fmt: skip

    return vector, block


def _codelets(name: str) -> tuple[Codelet, Codelet]:
    """Return the codelets for vectors and for blocks."""
    kernels = _kernels(_FUNCTIONS[name][0])

    def flops(batch: Batch) -> Counts:
        return np.asarray(NON_LINEARITY_GRADIENT_FLOPS[name] * batch.n_elements("out"))

    vector, block = (
        Codelet(
            f"popnn::NonLinearityGrad{shape}<{name}>",
            (
                Field("act", "in", dims, kind=kind, size_of="out", dtype_of="out"),
                Field("gradient", "in", dims, kind=kind, size_of="out", dtype_of="out"),
                Field("out", "out", dims, kind=kind),
            ),
            kernel,
            law,
            code_bytes=code,  # Assumption: a binary vertex of two pipelines
            source=_SOURCE,
            flops=flops,
            independent=every_dim(3, dims),
        )
        for shape, dims, kind, kernel, law, code in (
            ("1D", 1, "vector", kernels[0], _vector_law(name), 240),
            ("2D", 3, "block", kernels[1], _block_law(name), 320),
        )
    )
    return vector, block


NON_LINEARITY_GRADIENT: dict[str, Codelet] = {}
NON_LINEARITY_GRADIENT_BLOCK: dict[str, Codelet] = {}
for _name in _FUNCTIONS:
    NON_LINEARITY_GRADIENT[_name], NON_LINEARITY_GRADIENT_BLOCK[_name] = _codelets(_name)
