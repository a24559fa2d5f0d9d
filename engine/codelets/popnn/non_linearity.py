"""Non-linearities with vertices of their own: gelu by tanh, and swish.

Laws: graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp, NonLinearity1D and
NonLinearity2D, for aligned data and without the unpacking of pointers; cycles per element and per
vector: lib/popnn/PerformanceEstimation.hpp, getNonLinearityOpCycles. Rows of constant stride take
one element at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.popops.elementwise.in_place import as_apart, unary_kernels_in_place
from tilescope.engine.codelets.popops.elementwise.operations import unary_kernels, worker_rows
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, Law, start_cycles, worker_share
from tilescope.engine.host.kernels._exponential import gelu, swish

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "NON_LINEARITY",
    "NON_LINEARITY_BLOCK",
    "NON_LINEARITY_FLOPS",
    "NON_LINEARITY_IN_PLACE",
    "NON_LINEARITY_IN_PLACE_BLOCK",
]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp"


#: Function; cycles of an element and of a vector, for float and half.
_FUNCTIONS: dict[str, tuple[Any, tuple[int, int], tuple[int, int]]] = {
    "gelu": (gelu, (10, 10), (5, 5)),
    "swish": (swish, (6, 11), (3, 5)),
}
#: Floating-point operations per element. Source: the same file, nonlinearityFlops.
NON_LINEARITY_FLOPS = {"gelu": 8, "swish": 2}


def _row(name: str, columns: Counts, batch: Batch, machine: Machine) -> tuple[Counts, Counts]:
    """Return a worker's cycles for the whole vectors of a row, and for the rest."""
    is_float = batch.dtype["out"] == "float32"
    single, vector = _FUNCTIONS[name][1 if is_float else 2]
    per_vector = machine.data_path_bytes // batch.item_bytes["out"]
    n_vectors, rest = columns // per_vector, columns % per_vector
    vector_cycles = np.where(n_vectors > 0, 2 + single + (n_vectors - 1) * vector + 1 + single, 0)
    last_two = (rest & 2 > 0) * (2 + single)
    return np.asarray(vector_cycles), last_two + (rest & 1) * ((2 if is_float else 3) + single)


def _vector_law(name: str) -> Any:
    def law(batch: Batch, machine: Machine) -> Counts:
        is_float = batch.dtype["out"] == "float32"
        n = batch.n_elements("out")
        per_vector = machine.data_path_bytes // batch.item_bytes["out"]
        share = worker_share(n // per_vector, machine) * per_vector
        row_cycles, _ = _row(name, share, batch, machine)
        _, rest = _row(name, n % per_vector, batch, machine)
        worker = 20 + row_cycles + (3 if is_float else 4) + rest
        return np.asarray(start_cycles(9, machine) + machine.n_worker_contexts * worker)

    return law


def _block_law(name: str) -> Any:
    def law(batch: Batch, machine: Machine) -> Counts:
        rows, columns = worker_rows(batch, machine)
        is_float = batch.dtype["out"] == "float32"
        is_apart = np.zeros(batch.n_vertices, dtype=bool)
        for field, stride in batch.stride.items():
            is_apart |= (stride[:, 2] > 1) & (batch.size[field][:, 2] > 1)
        row_cycles, rest = _row(name, columns, batch, machine)
        single = _FUNCTIONS[name][1 if is_float else 2][0]
        row = np.where(is_apart, columns * (3 + single), row_cycles + rest)
        before, after = (9, 3) if is_float else (12, 5)
        worker = 14 + rows * (before + row + after)
        return np.asarray(machine.n_worker_contexts * worker)

    return law


def _laws_in_place(name: str) -> tuple[Law, Law]:
    """Return the laws of vectors and blocks in place.

    A worker of a swish in place takes one cycle more for a vector, and one in place of nine before
    its rows, since the estimator's sum depends on its condition as a whole.
    """
    vector, block = _vector_law(name), _block_law(name)
    is_swish = name == "swish"

    def vector_in_place(batch: Batch, machine: Machine) -> Counts:
        return np.asarray(vector(as_apart(batch), machine) + is_swish * machine.n_worker_contexts)

    def block_in_place(batch: Batch, machine: Machine) -> Counts:
        saved = 8 * is_swish * machine.n_worker_contexts
        return np.asarray(block(as_apart(batch), machine) - saved)

    return vector_in_place, block_in_place


def _codelets(name: str, *, is_in_place: bool = False) -> tuple[Codelet, Codelet]:
    """Return the codelets for vectors and for blocks."""
    if is_in_place:
        kernels, laws = unary_kernels_in_place(_FUNCTIONS[name][0]), _laws_in_place(name)
    else:
        kernels, laws = unary_kernels(_FUNCTIONS[name][0]), (_vector_law(name), _block_law(name))
    written = "x" if is_in_place else "out"

    def flops(batch: Batch) -> Counts:
        return np.asarray(NON_LINEARITY_FLOPS[name] * batch.n_elements(written))

    codelets = []
    for kind, dims, kernel, law, code in (
        ("vector", 1, kernels[0], laws[0], 220),
        ("block", 3, kernels[1], laws[1], 300),
    ):
        fields: tuple[Field, ...] = (Field("x", "inout", dims, kind=kind),)
        if not is_in_place:
            fields = (
                Field("x", "in", dims, kind=kind, size_of="out", dtype_of="out"),
                Field("out", "out", dims, kind=kind),
            )
        shape = f"{'1D' if dims == 1 else '2D'}{'InPlace' if is_in_place else ''}"
        codelets.append(
            Codelet(
                f"popnn::NonLinearity{shape}<{name}>",
                fields,
                kernel,
                law,
                code_bytes=code,  # Assumption: a unary vertex of two pipelines
                source=_SOURCE,
                flops=flops,
                independent=every_dim(len(fields), dims),
            )
        )
    return codelets[0], codelets[1]


NON_LINEARITY: dict[str, Codelet] = {}
NON_LINEARITY_BLOCK: dict[str, Codelet] = {}
NON_LINEARITY_IN_PLACE: dict[str, Codelet] = {}
NON_LINEARITY_IN_PLACE_BLOCK: dict[str, Codelet] = {}
for _name in _FUNCTIONS:
    NON_LINEARITY[_name], NON_LINEARITY_BLOCK[_name] = _codelets(_name)
    _vector, _block = _codelets(_name, is_in_place=True)
    NON_LINEARITY_IN_PLACE[_name], NON_LINEARITY_IN_PLACE_BLOCK[_name] = _vector, _block
