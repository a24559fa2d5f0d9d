"""Binary operations that broadcast one row over all rows: a bias, a scale.

Laws: graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp:
BroadcastVectorInner1D for contiguous data, else BroadcastVectorInner2D, and both with InPlace.
Maximum, minimum and power have no such vertex. lib/popops/ElementWise.cpp lists the supported
types: see `has_vector_inner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.binary_functions import BINARY_FUNCTIONS
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._pairs import combine_blocks

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["VECTOR_INNER", "VECTOR_INNER_IN_PLACE", "has_vector_inner"]

Counts = NDArray[np.int64]

#: Instructions per float division: 1 or 3 on silicon, data-dependent; the library counts 3.
_DIVIDE = 3
#: Halves of a 64-bit vector.
_VECTOR = 4


def has_vector_inner(function: str, dtype: str, columns: Counts) -> NDArray[np.bool_]:
    """Return whether the library uses these vertices, by length of the shared row.

    An ndarray of bool with the shape of `columns`. Halves need whole vectors; division supports any
    length. Floats are added and multiplied faster by copying the row and using a vertex of two
    equal operands.
    """
    is_divide = function == "divide" and dtype in ("float16", "float32")
    is_half = function in ("add", "subtract", "multiply") and dtype == "float16"
    return np.asarray(is_divide | (is_half & (columns % _VECTOR == 0)))


def _of_floats(columns: Counts, blocks: Counts) -> Counts:
    """Return a worker's cycles for a row of floats: one element over all blocks at a time."""
    return 7 + columns * (8 + 2 * blocks)


def _add_core(columns: Counts, blocks: Counts, is_half: bool) -> Counts:
    """Return a worker's cycles to add a row to the blocks."""
    if not is_half:
        return _of_floats(columns, blocks)
    eights, fours = columns // 8, columns // 4
    one_by_one = 6 + columns * (5 + 9 * blocks)
    in_eights = np.where(blocks == 1, 11 + 7 * eights, 12 + eights * (15 + 2 * (blocks - 1)))
    in_fours = 15 + fours * (13 + 2 * (blocks // 2 - 1) + blocks % 2)
    short = np.where(blocks < 2, 7 + one_by_one, in_fours)
    long = 3 + one_by_one
    return np.where(columns > 2048, long, np.where(columns % 8 == 0, in_eights, short))


def _multiply_core(columns: Counts, blocks: Counts, is_half: bool) -> Counts:
    """Return a worker's cycles to multiply; above 2,044 halves, loads and stores alternate."""
    if not is_half:
        return _of_floats(columns, blocks)
    vectors = columns // _VECTOR
    turns, together = 4 + vectors * (7 + 2 * blocks), 4 + vectors * (9 + blocks)
    return np.where(columns > 2044, 7 + turns, 9 + np.where(blocks < 2, turns, together))


def _multiply_in_place_core(columns: Counts, blocks: Counts, is_half: bool) -> Counts:
    """Return a worker's cycles to multiply in place, where loads and stores always alternate."""
    if not is_half:
        return _of_floats(columns, blocks)
    return 9 + columns // _VECTOR * (7 + 2 * blocks)


def _divide_core(columns: Counts, blocks: Counts, is_half: bool) -> Counts:
    """Return a worker's cycles to divide: in pairs if the row or the blocks allow it."""
    pairs = columns // 2
    if not is_half:
        odd_cycles = 2 + columns * (3 + 2 * _DIVIDE + (blocks - 1) * (_DIVIDE + 1))
        even = 3 + pairs * (5 + 2 * _DIVIDE + (blocks - 1) * 2 * _DIVIDE)
        return 7 + np.where(columns % 2 == 1, odd_cycles, even)
    alone, loop = 5 + _DIVIDE, 2 + 2 * _DIVIDE
    is_odd = blocks % 2
    single_cycles = np.where(
        blocks == 1,
        19 + _DIVIDE,
        20 + 2 * _DIVIDE + (blocks // 2 - 1) * loop + is_odd * alone,
    )
    first = 6 + 2 * _DIVIDE + (pairs - 1) * (3 + 2 * _DIVIDE)
    second = 12 + 4 * _DIVIDE + (pairs - 1) * (4 + 2 * _DIVIDE)
    odd_cycles = 8 + blocks // 2 * (first + second) + is_odd * (first + alone)
    even = 12 + pairs * (7 + 2 * _DIVIDE + (blocks - 1) * loop)
    return 2 + np.where(columns == 1, single_cycles, np.where(columns % 2 == 1, odd_cycles, even))


class _Frame(NamedTuple):
    """The core of a function in 1-D and in 2-D, and what its vertices take besides, in cycles.

    Parameters
    ----------
    core, core_2d
        A worker's cycles from columns, blocks, and whether elements are halves.
    tile
        Of the tile in 1-D.
    worker, region
        Of a worker in 1-D, and of a region in 2-D, for half and float.
    worker_2d
        Of a worker in 2-D.
    """

    core: Any
    core_2d: Any
    tile: int
    worker: tuple[int, int]
    worker_2d: int
    region: tuple[int, int]


_FRAMES = {
    "add": _Frame(_add_core, _add_core, 19, (22, 20), 7, (15, 9)),
    "subtract": _Frame(_add_core, _add_core, 19, (22, 20), 8, (15, 9)),
    "multiply": _Frame(_multiply_core, _multiply_core, 13, (45, 36), 6, (13, 9)),
    "divide": _Frame(_divide_core, _divide_core, 18, (24, 19), 10, (15, 9)),
}
#: In 2-D, the library counts a product in place like one with a result of its own.
_FRAMES_IN_PLACE = {
    "add": _Frame(_add_core, _add_core, 13, (21, 19), 6, (15, 9)),
    "subtract": _Frame(_add_core, _add_core, 19, (22, 20), 8, (15, 9)),
    "multiply": _Frame(_multiply_in_place_core, _multiply_core, 19, (46, 37), 7, (13, 9)),
    "divide": _Frame(_divide_core, _divide_core, 16, (24, 19), 9, (15, 9)),
}


def _in_one_piece(batch: Batch, field: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether a block's rows are contiguous within planes, and across planes."""
    planes, rows, columns = batch.size[field].T
    plane_stride, row_stride, _ = batch.stride[field].T
    in_plane = (rows == 1) | (row_stride == columns)
    return in_plane, in_plane & ((planes == 1) | (plane_stride == rows * columns))


def _law(frame: _Frame, result: str) -> Any:
    """Return the law of a vertex whose result is in a field of that name."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        workers = machine.n_worker_contexts
        is_half = batch.dtype[result] == "float16"
        planes, rows, columns = batch.size[result].T
        slices = batch.size["b"][:, 0]
        data, out = _in_one_piece(batch, "a"), _in_one_piece(batch, result)
        work = frame.core(columns, worker_share(planes * rows // slices, machine), is_half)
        further_slices = np.where(slices > 1, 17, 0)
        begin = frame.worker[0] if is_half else frame.worker[1]
        start = start_cycles(frame.tile, machine)
        one_piece = start + workers * (begin + slices * (further_slices + work))
        # Regions are runs of contiguous blocks; they are divided among workers by blocks.
        share = worker_share(planes * rows, machine)
        run = np.minimum(np.where(data[0] & out[0], rows, 1), share)
        per_region = frame.region[0 if is_half else 1] + frame.core_2d(columns, run, is_half)
        apart = workers * (frame.worker_2d + -(-share // run) * per_region)
        return np.asarray(np.where(data[1] & out[1], one_piece, apart))

    return law


def _kernels(function: Any) -> tuple[Any, Any]:
    """Return the kernels with a result of their own, and in place.

    Joined planes may be a multiple of the rows of `b`, which then serve them in turn.
    """

    @jit
    def shared_row(  # type: ignore[no-untyped-def]
        a, a_start, a_size, a_stride, b, b_start, b_size, b_stride, out, out_start, size, stride
    ):
        # One row for all planes, or one per plane.
        n, step = (size[0], 0) if b_size[0] == 1 else (b_size[0], b_stride[0])
        for p in range(0, size[0], max(n, 1)):
            combine_blocks(
                function, a, a_start + p * a_stride[0], a_stride, b, b_start,
                (step, 0, b_stride[1]), out, out_start + p * stride[0],
                (n, size[1], size[2]), stride,
            )  # fmt: skip

    @jit
    def shared_row_in_place(a, start, size, stride, b, b_start, b_size, b_stride):  # type: ignore[no-untyped-def]
        shared_row(a, start, size, stride, b, b_start, b_size, b_stride, a, start, size, stride)

    return shared_row, shared_row_in_place


_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp"


def _independent(n_results: int) -> tuple[tuple[int, ...], ...]:
    """Return planes with the same rows of `b`, planes with rows of their own, rows, and columns."""
    return tuple(
        (dim, dim_of_b, *(dim,) * n_results) for dim, dim_of_b in ((0, -1), (0, 0), (1, -1), (2, 1))
    )


def _codelet(name: str) -> Codelet:
    return Codelet(
        f"popops::BroadcastVectorInner<{name}>",
        (
            Field("a", "in", 3, kind="block", dtype_of="out", size_of="out"),
            Field("b", "in", 2, kind="block", dtype_of="out"),
            Field("out", "out", 3, kind="block"),
        ),
        _kernels(BINARY_FUNCTIONS[name])[0],
        _law(_FRAMES[name], "out"),
        code_bytes=300,
        source=_SOURCE,
        flops=lambda batch: batch.n_elements("out"),
        # Source: the same release, lib/popops/codelets/BroadcastVectorInner1D.cpp and
        # BroadcastVectorInner2D.cpp.
        apart=(("a", "out"),),
        independent=_independent(1),
    )


def _codelet_in_place(name: str) -> Codelet:
    return Codelet(
        f"popops::BroadcastVectorInnerInPlace<{name}>",
        (
            # Only halves are added, subtracted and multiplied by these vertices.
            # Source: the same release, lib/popops/codelets/BroadcastVectorInner1DInPlace.cpp and
            # BroadcastVectorInner2DInPlace.cpp, needsInterleave.
            Field("a", "inout", 3, kind="block", interleaved=name != "divide"),
            Field("b", "in", 2, kind="block", dtype_of="a"),
        ),
        _kernels(BINARY_FUNCTIONS[name])[1],
        _law(_FRAMES_IN_PLACE[name], "a"),
        code_bytes=300,
        source=_SOURCE,
        flops=lambda batch: batch.n_elements("a"),
        independent=_independent(0),
    )


#: By function: fields a and out are planes, rows and contiguous columns; b is one row for all
#: planes, or one row per plane.
VECTOR_INNER = {name: _codelet(name) for name in _FRAMES}
#: The same without out: a is the result as well.
VECTOR_INNER_IN_PLACE = {name: _codelet_in_place(name) for name in _FRAMES_IN_PLACE}
