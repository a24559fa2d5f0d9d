"""Compare and swap: the step of a sorting network.

Law: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp,
CompareAndSwapKeyValueCycleEstimate, in the worst case, where every pair is swapped; pairs are
divided equally among the workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.law import Batch, worker_share
from tilescope.engine.jit._jit import jit

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
def _place(start, stride, p, q, r):  # type: ignore[no-untyped-def]
    return start + p * stride[0] + q * stride[1] + r * stride[2]


@jit
def _swap_keys(  # type: ignore[no-untyped-def]
    low, low_start, size, low_stride, high, high_start, high_size, high_stride, is_descending
):
    for p in range(size[0]):
        for q in range(size[1]):
            for r in range(size[2]):
                first = _place(low_start, low_stride, p, q, r)
                second = _place(high_start, high_stride, p, q, r)
                for i in range(size[3]):
                    left, right = first + i * low_stride[3], second + i * high_stride[3]
                    a, b = low[left], high[right]
                    if (a < b) if is_descending else (b < a):
                        low[left], high[right] = b, a


@jit
def _swap_pairs(  # type: ignore[no-untyped-def]
    low, low_start, size, low_stride, high, high_start, high_size, high_stride,
    low_value, low_value_start, low_value_size, low_value_stride,
    high_value, high_value_start, high_value_size, high_value_stride,
    is_descending, is_stable,
):  # fmt: skip
    for p in range(size[0]):
        for q in range(size[1]):
            for r in range(size[2]):
                first = _place(low_start, low_stride, p, q, r)
                second = _place(high_start, high_stride, p, q, r)
                third = _place(low_value_start, low_value_stride, p, q, r)
                fourth = _place(high_value_start, high_value_stride, p, q, r)
                for i in range(size[3]):
                    left, right = first + i * low_stride[3], second + i * high_stride[3]
                    at = third + i * low_value_stride[3]
                    to = fourth + i * high_value_stride[3]
                    a, b = low[left], high[right]
                    v, w = low_value[at], high_value[to]
                    is_wrong = (a < b) if is_descending else (b < a)
                    if is_stable and a == b:
                        is_wrong = w < v
                    if is_wrong:
                        low[left], high[right] = b, a
                        low_value[at], high_value[to] = w, v


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
)
