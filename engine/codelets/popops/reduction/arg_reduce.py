"""Position and value of the largest or smallest element: of a chunk, and of candidates.

The gather splits a chunk of a row over the workers of a tile and writes a candidate per worker. The
sparse vertex chooses one of several candidates. Of equal elements, the first or the last is chosen.

Law: graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp, ReduceMaxClassGather and
ReduceMaxClassSparse: 3 cycles per float or half in assembly, 6 per integer in compiled code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["ARG_GATHER", "ARG_SPARSE"]

Counts = NDArray[np.int64]

#: Cycles of a worker besides its loop in assembly: the state, its range, first and last elements,
#: and the results.
_GATHER, _SPARSE = 3 + 2 + 4 + 3 + 1 + 3 + 1 + 3 + 6 + 4, 5 + 2 + 3 + 3 + 1 + 3 + 6 + 4


@jit
def _larger(a: float, b: float) -> bool:
    return a > b


@jit
def _smaller(a: float, b: float) -> bool:
    return a < b


def _gather_kernel(is_better: Any) -> Any:
    @jit
    def kernel(  # type: ignore[no-untyped-def]
        x, x_start, x_size, x_stride, values, indices, offset, share, is_last
    ):
        for part in range(values.size):
            begin = part * share
            best = x[x_start + begin * x_stride[0]]
            best_index = begin
            for i in range(begin + 1, min(begin + share, x_size[0])):
                value = x[x_start + i * x_stride[0]]
                if is_better(value, best) or (is_last and value == best):
                    best, best_index = value, i
            values[part] = best
            indices[part] = offset + best_index

    return kernel


def _sparse_kernel(is_better: Any) -> Any:
    @jit
    def kernel(values, indices, value, index, is_last):  # type: ignore[no-untyped-def]
        best = 0
        for i in range(1, values.size):
            if is_better(values[i], values[best]) or (is_last and values[i] == values[best]):
                best = i
        value[0] = values[best]
        index[0] = indices[best]

    return kernel


def _gather_law(batch: Batch, machine: Machine) -> Counts:
    """Return the cycles of a tile: a start, then the worker with the most elements."""
    size = batch.n_elements("x")
    share = np.asarray(batch.scalars["share"])
    if batch.is_float("x"):
        worker = _GATHER + 3 * np.minimum(share - 1, size - 1)
    else:  # one worker does all
        worker = 22 + batch.n_elements("values") * (6 * share + 25)
    return np.asarray(5 + 4 + machine.n_worker_contexts * worker)


def _sparse_law(batch: Batch, machine: Machine) -> Counts:
    n = batch.n_elements("values")
    return np.asarray(_SPARSE + 3 * (n - 1) if batch.is_float("values") else 5 + 18 + 6 * n)


def _gather(name: str, is_better: Any) -> Codelet:
    return Codelet(
        f"popnn::Reduce{name}ClassGather",
        (
            Field("x", "in", kind="block"),
            Field("values", "out"),
            Field("indices", "out", dtype="int32", size_of="values"),
        ),
        _gather_kernel(is_better),
        _gather_law,
        code_bytes=160,
        source="graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp",
        scalars=(Scalar("offset"), Scalar("share"), Scalar("is_last", on_device=False)),
        flops=lambda batch: np.asarray(
            (batch.n_elements("x") - batch.n_elements("values")) * batch.is_float("x")
        ),
    )


def _sparse(name: str, is_better: Any) -> Codelet:
    return Codelet(
        f"popnn::Reduce{name}ClassSparse",
        (
            Field("values", "in"),
            Field("indices", "in", dtype="int32", size_of="values"),
            Field("value", "out", dtype_of="values"),
            Field("index", "out", dtype="int32"),
        ),
        _sparse_kernel(is_better),
        _sparse_law,
        code_bytes=120,
        source="graphcore/poplibs sdk-release-3.4, lib/popnn/popnnCycleEstimators.cpp",
        scalars=(Scalar("is_last", on_device=False),),
        flops=lambda batch: np.asarray((batch.n_elements("values") - 1) * batch.is_float("values")),
        is_supervisor=False,
    )


#: By operation; halves give candidates in float.
ARG_GATHER = {"max": _gather("Max", _larger), "min": _gather("Min", _smaller)}
ARG_SPARSE = {"max": _sparse("Max", _larger), "min": _sparse("Min", _smaller)}
