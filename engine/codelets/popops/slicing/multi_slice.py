"""Slices and updates at positions that the data give.

Rows of a base are read or written at an offset (dynamic slice), or at several (multi-slice). Base,
offsets and slices have a leading dimension of groups, which are independent of each other.

Laws: graphcore/poplibs sdk-release-3.4, lib/popops: popopsCycleEstimators.cpp
(getDynamicSlice1DEstimate) and PerformanceEstimation.cpp (getMultiSliceCycleEstimate,
getMultiUpdateOpCycleEstimate). A law depends on shapes only. As in the planner of that library,
lib/popops/DynamicSlice.cpp, offsets are assumed to be distributed uniformly on the hardware. The
IPU Model's estimators (popopsCycleEstimators.cpp, multiSlicer and MultiUpdateOp) assume the worst
case: all offsets are in the range of every vertex, and of one worker of an update. Slices divide
the offsets among the workers, updates the rows of the base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import lowest_bit, unsigned

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "DYNAMIC_SLICE",
    "MULTI_SLICE",
    "MULTI_SLICE_PARTS",
    "MULTI_UPDATE",
    "MULTI_UPDATE_OP",
    "dynamic_slice_cycles",
    "multi_slice_cycles",
    "part_slice_cycles",
]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops: slice estimators"
#: Cycles per iteration of a slice's inner loop, and its bytes, by element size.
_SLICE_LOOP = {1: (3, 4), 2: (2, 4), 4: (2, 8)}
#: Worker cycles per offset in range and out of range of the base.
_IN_RANGE, _OUT_OF_RANGE = 19, 8
#: Offsets that a multi-slice looks at before it copies rows of them: one bit each.
_LOOK_AHEAD = 64


@jit
def _copy_row(source, start, step, target, to, target_step, n):  # type: ignore[no-untyped-def]
    start, step, to, target_step = (
        unsigned(start),
        unsigned(step),
        unsigned(to),
        unsigned(target_step),
    )
    if step == 1 and target_step == 1:
        for c in range(unsigned(n)):
            target[to + c] = source[start + c]
        return
    for c in range(unsigned(n)):
        target[to + c * target_step] = source[start + c * step]


@jit
def _dynamic_slice(  # type: ignore[no-untyped-def]
    base, start, size, stride, offset, sub, sub_start, sub_size, sub_stride
):
    first = offset[0]
    if first < 0 or first >= size[1]:
        first = 0
    for g in range(sub_size[0]):
        row = first
        for k in range(sub_size[1]):
            row_start = start + g * stride[0] + row * stride[1]
            to = sub_start + g * sub_stride[0] + k * sub_stride[1]
            _copy_row(base, row_start, stride[2], sub, to, sub_stride[2], sub_size[2])
            row += 1
            if row == size[1]:
                row = 0


@jit
def _wanted(  # type: ignore[no-untyped-def]
    offsets, first, step, n, base_offset, n_rows, n_entries
):
    """Return a bit for each of up to 64 offsets: whether it is in range of a vertex, or of none.

    The loops become vectors; a step of one has a loop of its own, which loads no element singly.
    """
    offset, apart, zero = unsigned(first), unsigned(step), np.int32(0)
    low, high, end_of_all = (
        np.int32(base_offset),
        np.int32(base_offset + n_rows),
        np.int32(n_entries),
    )
    mask = np.uint64(0)
    if step == 1:
        for k in range(unsigned(n)):
            row = offsets[offset + k]
            is_known = (row >= zero) & (row < end_of_all)
            is_wanted = ((row >= low) & (row < high)) | (not is_known)
            mask |= np.uint64(is_wanted) << np.uint64(k)
        return mask
    for k in range(unsigned(n)):
        row = offsets[offset + k * apart]
        is_known = (row >= zero) & (row < end_of_all)
        is_wanted = ((row >= low) & (row < high)) | (not is_known)
        mask |= np.uint64(is_wanted) << np.uint64(k)
    return mask


@jit
def _multi_slice(  # type: ignore[no-untyped-def]
    base, start, size, stride, offsets, o_start, o_size, o_stride,
    sub, sub_start, sub_size, sub_stride, base_offset, n_entries,
):  # fmt: skip
    """Rows that are in no part of the base become zeros; those of other parts stay as they are."""
    for g in range(sub_size[0]):
        first = o_start + g * o_stride[0]
        for begin in range(0, sub_size[1], _LOOK_AHEAD):
            n = min(_LOOK_AHEAD, sub_size[1] - begin)
            at = first + begin * o_stride[1]
            mask = _wanted(offsets, at, o_stride[1], n, base_offset, size[1], n_entries)
            while mask != np.uint64(0):
                k = lowest_bit(mask)
                mask &= mask - np.uint64(1)
                row = offsets[at + k * o_stride[1]] - base_offset
                to = sub_start + g * sub_stride[0] + (begin + k) * sub_stride[1]
                if 0 <= row < size[1]:
                    row_start = start + g * stride[0] + row * stride[1]
                    _copy_row(base, row_start, stride[2], sub, to, sub_stride[2], sub_size[2])
                else:
                    for c in range(sub_size[2]):
                        sub[to + c * sub_stride[2]] = 0


@jit
def _multi_slice_parts(  # type: ignore[no-untyped-def]
    base, start, size, stride, parts, p_start, p_size, p_stride,
    sub, sub_start, sub_size, sub_stride,
):  # fmt: skip
    """Take base [part, group, lookup, column]; in all parts, rows of no part are zeros."""
    for g in range(sub_size[0]):
        for k in range(sub_size[1]):
            part = parts[p_start + g * p_stride[0] + k * p_stride[1]]
            if part < 0 or part >= size[0]:
                part = 0
            row_start = start + part * stride[0] + g * stride[1] + k * stride[2]
            to = sub_start + g * sub_stride[0] + k * sub_stride[1]
            _copy_row(base, row_start, stride[3], sub, to, sub_stride[2], sub_size[2])


@jit
def _multi_update(  # type: ignore[no-untyped-def]
    base, start, size, stride, offsets, o_start, o_size, o_stride,
    sub, sub_start, sub_size, sub_stride, base_offset, n_entries,
):  # fmt: skip
    for g in range(size[0]):
        first = o_start + g * o_stride[0]
        for begin in range(0, o_size[1], _LOOK_AHEAD):
            n = min(_LOOK_AHEAD, o_size[1] - begin)
            at = first + begin * o_stride[1]
            mask = _wanted(offsets, at, o_stride[1], n, base_offset, size[1], n_entries)
            while mask != np.uint64(0):
                k = lowest_bit(mask)
                mask &= mask - np.uint64(1)
                row = offsets[at + k * o_stride[1]] - base_offset
                if 0 <= row < size[1]:
                    to = start + g * stride[0] + row * stride[1]
                    row_start = sub_start + g * sub_stride[0] + (begin + k) * sub_stride[1]
                    _copy_row(sub, row_start, sub_stride[2], base, to, stride[2], size[2])


def _update_kernel(combine: Any) -> Any:
    @jit
    def kernel(  # type: ignore[no-untyped-def]
        base, start, size, stride, offsets, o_start, o_size, o_stride,
        sub, sub_start, sub_size, sub_stride, base_offset, n_entries, scale,
    ):  # fmt: skip
        for g in range(size[0]):
            first = o_start + g * o_stride[0]
            for begin in range(0, o_size[1], _LOOK_AHEAD):
                n = min(_LOOK_AHEAD, o_size[1] - begin)
                at = first + begin * o_stride[1]
                mask = _wanted(offsets, at, o_stride[1], n, base_offset, size[1], n_entries)
                while mask != np.uint64(0):
                    k = lowest_bit(mask)
                    mask &= mask - np.uint64(1)
                    row = offsets[at + k * o_stride[1]] - base_offset
                    if row < 0 or row >= size[1]:
                        continue
                    to = start + g * stride[0] + row * stride[1]
                    row_start = sub_start + g * sub_stride[0] + (begin + k) * sub_stride[1]
                    for c in range(size[2]):
                        new = sub[row_start + c * sub_stride[2]]
                        old = base[to + c * stride[2]]
                        if scale == 1:
                            base[to + c * stride[2]] = combine(old, new)  # integers wrap around
                        else:
                            base[to + c * stride[2]] = combine(old, new * scale)

    return kernel


@jit
def _add(a: float, b: float) -> float:
    return a + b


@jit
def _multiply(a: float, b: float) -> float:
    return a * b


@jit
def _maximum(a: float, b: float) -> float:
    return a if a > b or a != a else b


@jit
def _minimum(a: float, b: float) -> float:
    return a if a < b or a != a else b


def dynamic_slice_cycles(
    n_rows: Counts, n_columns: Counts, item_bytes: int, machine: Machine
) -> Counts:
    """Return a tile's cycles to slice `n_rows` rows of `n_columns` elements: ndarray of int64."""
    share = worker_share(n_columns, machine)
    width = 4 if item_bytes == 1 else machine.data_path_bytes // item_bytes
    start, per_row = (76, 72) if item_bytes == 1 else (39, 24)
    worker = start + (per_row + 2 * (share // width)) * n_rows
    return np.asarray(25 + machine.n_worker_contexts * worker)


def _row_cycles(n_columns: Counts, item_bytes: int) -> Counts:
    cycles, loop_bytes = _SLICE_LOOP[item_bytes]
    return np.asarray(cycles * -(-n_columns // (loop_bytes // item_bytes)))


def multi_slice_cycles(
    n_offsets: Counts, n_columns: Counts, in_range: Any, item_bytes: int, machine: Machine
) -> Counts:
    """Return a tile's cycles for a multi-slice of one group: ndarray of int64.

    Parameters
    ----------
    n_offsets, n_columns : ndarray of int64
        Offsets, and elements of a row.
    in_range : ndarray of float64
        Share of the offsets that are expected in the tile's part of the base; all of them in the
        worst case.
    item_bytes
        Element size.
    machine
        Source of the worker contexts.
    """
    share = worker_share(n_offsets, machine)
    hit = 1.0 if machine.estimates_worst_case else np.asarray(in_range)
    inside = np.ceil(share * hit).astype(np.int64)
    row = _row_cycles(n_columns, item_bytes)
    # The columns of a single row are divided among the workers.
    row = np.where(n_offsets == 1, worker_share(row, machine), row)
    worker = 30 + inside * (_IN_RANGE + row) + (share - inside) * _OUT_OF_RANGE
    return np.asarray(machine.n_worker_contexts * worker)


def part_slice_cycles(
    n_offsets: Counts, n_columns: Counts, item_bytes: int, machine: Machine
) -> Counts:
    """Return a tile's cycles to choose between the parts of one group: ndarray of int64."""
    return multi_slice_cycles(n_offsets, n_columns, 1.0, item_bytes, machine)


def _dynamic_slice_law(batch: Batch, machine: Machine) -> Counts:
    groups, rows, columns = batch.size["sub"].T
    return dynamic_slice_cycles(rows, groups * columns, batch.item_bytes["sub"], machine)


def _in_range(batch: Batch) -> NDArray[np.float64]:
    rows = batch.size["base"][:, 1]
    return np.asarray(rows / np.maximum(batch.scalars["n_entries"], 1))


def _multi_slice_law(batch: Batch, machine: Machine) -> Counts:
    groups, offsets, columns = batch.size["sub"].T
    item = batch.item_bytes["sub"]
    return np.asarray(
        groups * multi_slice_cycles(offsets, columns, _in_range(batch), item, machine)
    )


def _multi_slice_parts_law(batch: Batch, machine: Machine) -> Counts:
    groups, offsets, columns = batch.size["sub"].T
    cycles = part_slice_cycles(offsets, columns, batch.item_bytes["sub"], machine)
    return np.asarray(groups * cycles)


def _updates_in_range(batch: Batch, machine: Machine) -> tuple[Counts, Counts]:
    """Return the offsets of a worker that are in range of its rows, and the other ones."""
    n_offsets = batch.size["offsets"][:, 1]
    if machine.estimates_worst_case:
        return n_offsets, np.zeros_like(n_offsets)
    rows = worker_share(batch.size["base"][:, 1], machine)
    inside = np.ceil(n_offsets * (rows / np.maximum(batch.scalars["n_entries"], 1)))
    inside = np.minimum(inside, n_offsets).astype(np.int64)
    return inside, n_offsets - inside


def _multi_update_law(batch: Batch, machine: Machine) -> Counts:
    groups, _, columns = batch.size["base"].T
    inside, outside = _updates_in_range(batch, machine)
    row = _row_cycles(columns, batch.item_bytes["base"])
    worker = 29 + inside * (_IN_RANGE + row) + outside * _OUT_OF_RANGE
    return np.asarray(groups * machine.n_worker_contexts * worker)


def _multi_update_op_law(batch: Batch, machine: Machine) -> Counts:
    """Return the law of the operation in assembly: 3 cycles per 4 bytes of a row.

    Elements narrower than 4 bytes in rows of no whole words take 20 cycles each.
    """
    groups, _, columns = batch.size["base"].T
    inside, outside = _updates_in_range(batch, machine)
    item = batch.item_bytes["base"]
    is_word = item == 4
    is_scaled = np.asarray(batch.scalars["scale"]) != 1
    per_atom = max(4 // item, 1)
    atoms_cycles = 3 * (columns // per_atom - 1)
    row = np.where(columns % per_atom == 0, atoms_cycles, 20 * columns)
    row = row + (11 if is_word else 12) + (is_scaled & (not is_word))
    worker = 3 + (29 if is_word else 30) + np.where(is_scaled, 4 + 2 * is_word, 0)
    worker = worker + inside * row + outside * 5
    return np.asarray(groups * machine.n_worker_contexts * worker)


def _update_flops(batch: Batch) -> Counts:
    """Count one per updated element, or two with a scale.

    The offsets decide which vertex performs them: each part of the base gets its share by rows, so
    that the parts add up to the whole.
    """
    groups, rows, columns = batch.size["base"].T
    total = batch.size["offsets"][:, 1] * columns
    first = np.asarray(batch.scalars["base_offset"])
    entries = np.maximum(batch.scalars["n_entries"], 1)
    share = total * (first + rows) // entries - total * first // entries
    is_scaled = np.asarray(batch.scalars["scale"]) != 1
    return np.asarray(groups * share * (1 + is_scaled) * batch.is_float("base"))


def _update_codelet(name: str, kernel: Any) -> Codelet:
    return Codelet(
        f"popops::MultiUpdateOp<{name}>",
        (_base("inout"), _offsets("in"), _slices("in")),
        kernel,
        _multi_update_op_law,
        code_bytes=280,
        source=_SOURCE,
        scalars=(*_SCALARS, Scalar("scale", "float")),
        flops=_update_flops,
    )


def _base(direction: str) -> Field:
    return Field("base", direction, 3, kind="block")


def _offsets(direction: str) -> Field:
    return Field("offsets", direction, 2, kind="block", dtype="int32")


def _slices(direction: str) -> Field:
    return Field("sub", direction, 3, kind="block", dtype_of="base")


#: First row of the base on this tile; rows of the whole base, which only the law needs.
_SCALARS = (Scalar("base_offset"), Scalar("n_entries", on_device=False))

DYNAMIC_SLICE = Codelet(
    "popops::DynamicSlice1D",
    (_base("in"), Field("offset", "in", dtype="int32"), _slices("out")),
    _dynamic_slice,
    _dynamic_slice_law,
    code_bytes=200,
    source=_SOURCE,
    independent=((0, -1, 0), (2, -1, 2)),
    is_selection=True,
)
MULTI_SLICE = Codelet(
    "popops::MultiSlice",
    (_base("in"), _offsets("in"), _slices("out")),
    _multi_slice,
    _multi_slice_law,
    code_bytes=220,
    source=_SOURCE,
    scalars=_SCALARS,
    independent=((0, 0, 0), (2, -1, 2)),
    is_selection=True,
)
#: The second stage of a multi-slice: chooses between the parts of the first. Offsets are the parts.
MULTI_SLICE_PARTS = Codelet(
    "popops::MultiSlice<parts>",
    (Field("base", "in", 4, kind="block"), _offsets("in"), _slices("out")),
    _multi_slice_parts,
    _multi_slice_parts_law,
    code_bytes=220,
    source=_SOURCE,
    independent=((1, 0, 0), (3, -1, 2)),
    is_selection=True,
)
MULTI_UPDATE = Codelet(
    "popops::MultiUpdate",
    (_base("inout"), _offsets("in"), _slices("in")),
    _multi_update,
    _multi_update_law,
    code_bytes=220,
    source=_SOURCE,
    scalars=_SCALARS,
    is_selection=True,
)
#: Assumption: a minimum takes as long as a maximum; the library has none.
MULTI_UPDATE_OP = {
    name: _update_codelet(name, _update_kernel(combine))
    for name, combine in {
        "add": _add,
        "multiply": _multiply,
        "maximum": _maximum,
        "minimum": _minimum,
    }.items()
}
