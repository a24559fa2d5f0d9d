"""Compare and swap: the step of a sorting network.

Law: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp,
CompareAndSwapKeyValueCycleEstimate, in the worst case, where every pair is swapped; pairs are
divided equally among the workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["COMPARE_AND_SWAP", "COMPARE_AND_SWAP_PAIRS"]

Counts = NDArray[np.int64]


class _Cycles(NamedTuple):
    """Worker cycles per pair, per block of pairs, per entry of the worklist, and to start."""

    pair: int
    block: int
    entry: int
    start: int


#: By the kind of key, and by values: none, ones that are moved, ones that break ties.
_CYCLES = {
    ("float", "none"): _Cycles(13, 13, 17, 40),
    ("int", "none"): _Cycles(12, 17, 22, 42),
    ("float", "moved"): _Cycles(11, 11, 4, 23),
    ("int", "moved"): _Cycles(17, 22, 30, 43),
    ("float", "compared"): _Cycles(25, 24, 30, 45),
    ("int", "compared"): _Cycles(27, 25, 30, 49),
}
_SUPERVISOR = 19


@jit
def _longest(size):  # type: ignore[no-untyped-def]
    """Return the longest dimension after the first, and the other two."""
    if size[3] >= size[2] and size[3] >= size[1]:
        return 3, 1, 2
    if size[2] >= size[1]:
        return 2, 1, 3
    return 1, 2, 3


@jit
def _swap_keys(  # type: ignore[no-untyped-def]
    low, low_start, size, low_stride, high, high_start, high_size, high_stride, is_descending
):
    """Order pairs: the longest dimension is the inner loop, which has no branch."""
    d, e, f = _longest(size)
    n, step, high_step = unsigned(size[d]), unsigned(low_stride[d]), unsigned(high_stride[d])
    for p in range(size[0]):
        for q in range(size[e]):
            for r in range(size[f]):
                first = low_start + p * low_stride[0] + q * low_stride[e] + r * low_stride[f]
                second = high_start + p * high_stride[0] + q * high_stride[e] + r * high_stride[f]
                first, second = unsigned(first), unsigned(second)
                for i in range(n):
                    left, right = first + i * step, second + i * high_step
                    a, b = low[left], high[right]
                    is_wrong = (a < b) if is_descending else (b < a)
                    low[left], high[right] = b if is_wrong else a, a if is_wrong else b


@jit
def _swap_pairs(  # type: ignore[no-untyped-def]
    low, low_start, size, low_stride, high, high_start, high_size, high_stride,
    low_value, low_value_start, low_value_size, low_value_stride,
    high_value, high_value_start, high_value_size, high_value_stride,
    is_descending, is_stable,
):  # fmt: skip
    """Order pairs of keys with their values, as `_swap_keys`."""
    d, e, f = _longest(size)
    for p in range(size[0]):
        for q in range(size[e]):
            for r in range(size[f]):
                first = low_start + p * low_stride[0] + q * low_stride[e] + r * low_stride[f]
                second = high_start + p * high_stride[0] + q * high_stride[e] + r * high_stride[f]
                third = (
                    low_value_start + p * low_value_stride[0]
                    + q * low_value_stride[e] + r * low_value_stride[f]
                )  # fmt: skip
                fourth = (
                    high_value_start + p * high_value_stride[0]
                    + q * high_value_stride[e] + r * high_value_stride[f]
                )  # fmt: skip
                for i in range(size[d]):
                    left, right = first + i * low_stride[d], second + i * high_stride[d]
                    offset, to = third + i * low_value_stride[d], fourth + i * high_value_stride[d]
                    a, b = low[left], high[right]
                    v, w = low_value[offset], high_value[to]
                    is_wrong = (a < b) if is_descending else (b < a)
                    is_wrong |= is_stable and a == b and w < v
                    low[left], high[right] = b if is_wrong else a, a if is_wrong else b
                    low_value[offset], high_value[to] = w if is_wrong else v, v if is_wrong else w


def _worker(batch: Batch, values: str, machine: Machine) -> Counts:
    """Return the cycles of the busiest worker."""
    kind = "float" if batch.is_float("low") else "int"
    cycles = _CYCLES[kind, values]
    n_pairs = batch.n_elements("low")
    share = worker_share(n_pairs, machine)
    blocks = -(-share // batch.size["low"][:, 3])
    return np.asarray(
        cycles.start + cycles.entry + share * cycles.pair + blocks * cycles.block, np.int64
    )


def _keys_law(batch: Batch, machine: Machine) -> Counts:
    return _SUPERVISOR + machine.n_worker_contexts * _worker(batch, "none", machine)


def _pairs_law(batch: Batch, machine: Machine) -> Counts:
    is_stable = np.asarray(batch.scalars["is_stable"]) != 0
    compared, moved = (_worker(batch, values, machine) for values in ("compared", "moved"))
    return np.asarray(
        _SUPERVISOR + machine.n_worker_contexts * np.where(is_stable, compared, moved)
    )


def _flops(batch: Batch) -> Counts:
    """Count one comparison per pair, as the estimator does."""
    return np.asarray(batch.n_elements("low") * batch.is_float("low"))


_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp"
_KEYS = (
    Field("low", "inout", 4, kind="block"),
    Field("high", "inout", 4, kind="block", dtype_of="low", size_of="low"),
)

COMPARE_AND_SWAP = Codelet(
    "popops::CompareAndSwapAtDistance",
    _KEYS,
    _swap_keys,
    _keys_law,
    code_bytes=240,
    source=_SOURCE,
    scalars=(Scalar("is_descending"),),
    flops=_flops,
    is_selection=True,
)
COMPARE_AND_SWAP_PAIRS = Codelet(
    "popops::CompareAndSwapAtDistanceKeyVal",
    (
        *_KEYS,
        Field("low_value", "inout", 4, kind="block", size_of="low"),
        Field("high_value", "inout", 4, kind="block", dtype_of="low_value", size_of="low"),
    ),
    _swap_pairs,
    _pairs_law,
    code_bytes=360,
    source=_SOURCE,
    scalars=(Scalar("is_descending"), Scalar("is_stable")),
    flops=_flops,
    is_selection=True,
)
