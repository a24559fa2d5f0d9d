"""Copies within a tile: contiguous, in blocks of rows, or element by element.

Law: 8 bytes per cycle if both sides are contiguous (graphcore/poplibs sdk-release-3.4, planner's
copy rate); 4 worker instructions per element if one side is strided, from 126,283 cycles for
5,888 halves per tile (osmarks/ipu-stack, SDK_ONNX_PROFILE_ANALYSIS, one worker per tile). The
copies of a tile in one compute set are dealt to its workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.independent import every_dim
from tilescope.engine.codelets.popops.elementwise.operations import unary_kernels
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, SharedWork, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._moves import move_block

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = [
    "CAST",
    "CAST_BLOCK",
    "CAST_TO_BOOL",
    "CAST_TO_BOOL_BLOCK",
    "COPY",
    "COPY_BLOCK",
    "batch_of_rows",
    "block_cycles",
    "cast_cycles",
    "cast_rows_cycles",
    "copy_cycles",
    "rows_cycles",
]


@jit
def _copy(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = x[i]


@jit
def _copy_block(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, out, out_start, out_size, out_stride
):
    move_block(x, x_start, x_stride, out, out_start, out_size, out_stride)


@jit
def _is_any(x: Any) -> Any:
    return x != 0


_any_vector, _any_block = unary_kernels(_is_any)


def _vectors(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    n_bytes = batch.n_elements("out") * batch.item_bytes["out"]
    vectors: NDArray[np.int64] = -(-n_bytes // machine.data_path_bytes)
    return vectors


def _vectors_share(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    return worker_share(_vectors(batch, machine), machine)


def rows_cycles(
    n_rows: NDArray[np.int64], columns: NDArray[np.int64], batch: Batch, machine: Machine
) -> NDArray[np.int64]:
    """Return a worker's cycles to copy contiguous rows: ndarray of int64."""
    vectors = -(-columns * batch.item_bytes["out"] // machine.data_path_bytes)
    cycles: NDArray[np.int64] = n_rows * (9 + vectors)
    return cycles


def _block_work(batch: Batch, machine: Machine, n_workers: int) -> NDArray[np.int64]:
    """Return the instructions of the busiest of `n_workers` that share a block."""
    n_planes, rows_of_plane, n_columns = batch.size["out"].T
    n_rows = n_planes * rows_of_plane
    is_plain = ((batch.stride["x"][:, 2] == 1) & (batch.stride["out"][:, 2] == 1)) | (
        n_columns == 1
    )
    plain = rows_cycles(-(-n_rows // n_workers), n_columns, batch, machine)
    strided = 4 * -(-n_rows * n_columns // n_workers)
    return np.where(is_plain & (n_columns > 1), plain, strided)


def _block(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    return _block_work(batch, machine, 1)


def _block_share(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    return _block_work(batch, machine, machine.n_worker_contexts)


#: Copies on a tile are vertices of one worker each: the IPU Model's list of a halo exchange
#: (thorbenlouw/lbm-graphcore, experiments/halo-exchange-approaches/results.txt) has 12,744 short
#: and 1,220 64-bit copies of 76 and 83 cycles, less than it takes to start all workers once.
_START, _PIECE = 11, 20
_OF_VECTOR = SharedWork(_START, _PIECE, _vectors, _vectors_share)
_OF_BLOCK = SharedWork(_START, _PIECE, _block, _block_share)


def _copy_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    return _PIECE + _vectors(batch, machine)


def _copy_block_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    return _PIECE + _block(batch, machine)


def block_cycles(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    """Return the cycles of a tile that copies a single block: ndarray of int64, (n_vertices,)."""
    return _OF_BLOCK.alone(batch, machine)


def batch_of_rows(
    dtypes: Mapping[str, tuple[str, int]], n_rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> tuple[Batch, Batch]:
    """Return vertices over rows of constant stride, and vertices over one contiguous run.

    Parameters
    ----------
    dtypes
        Element type and its size in bytes, by field.
    n_rows, columns : ndarray of int64
        Rows per vertex, and contiguous elements per row.
    """
    unit_counts = np.ones_like(n_rows)
    batch = Batch(
        n_rows.size,
        dict.fromkeys(dtypes, np.stack([n_rows, unit_counts, columns], axis=1)),
        dict.fromkeys(dtypes, np.stack([columns, columns, unit_counts], axis=1)),
        {name: item_bytes for name, (_, item_bytes) in dtypes.items()},
        {name: kind for name, (kind, _) in dtypes.items()},
        {},
        np.zeros_like(n_rows),
    )
    return batch, replace(batch, size=dict.fromkeys(dtypes, columns[:, None]))


def copy_cycles(
    n_rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    dtype: tuple[str, int],
    machine: Machine,
) -> NDArray[np.int64]:
    """Return a tile's cycles to copy rows of constant stride, or one run: ndarray of int64.

    Parameters
    ----------
    n_rows, columns : ndarray of int64
        Rows, and contiguous elements per row.
    dtype
        Element type and its size in bytes.
    machine
        Source of the worker contexts.
    """
    blocks, vectors = batch_of_rows({"x": dtype, "out": dtype}, n_rows, columns)
    return np.where(n_rows > 1, block_cycles(blocks, machine), _OF_VECTOR.alone(vectors, machine))


#: Cycles per vector and elements per vector, by source and result type of a cast.
_CAST_VECTORS = {
    ("float32", "float16"): (2, 4),
    ("float16", "float32"): (1, 2),
    ("float16", "float8"): (2, 8),
    ("float8", "float16"): (1, 4),
}
#: Casts with an unrolled loop: cycles before it, elements per pass, cycles of the first pass and of
#: a further pass, and cycles for 0, 1, 2 or 3 remaining elements. Further ones cost as much as one.
_CAST_LOOPS = {
    ("uint8", "float16"): (4, 4, 14, 9, (2, 12, 14, 22)),
    ("float16", "int8"): (8, 4, 19, 16, (2, 14, 21, 29)),
    ("float16", "uint8"): (8, 4, 19, 16, (2, 14, 21, 29)),
    ("float8", "uint8"): (4, 8, 0, 28, (2, 5, 5, 5)),
    ("uint8", "float8"): (4, 8, 0, 37, (2, 7, 7, 7)),
    ("float8", "float8"): (4, 8, 0, 13, (2, 5, 5, 5)),
}


def _cast_worker(count: NDArray[np.int64], types: tuple[str, str]) -> NDArray[np.int64]:
    """Return a worker's cycles for `count` elements.

    Types without an instruction are cast singly in compiled code. The remainder after whole vectors
    costs one check per power of two, and 2 more cycles per bit set.

    Source: PerformanceEstimation.cpp, castWorkerCycles.
    """
    if types in _CAST_LOOPS:
        begin, elements, first, further, left_over = _CAST_LOOPS[types]
        passes, left = count // elements, count % elements
        total = begin + np.where(passes > 0, first + (passes - 1) * further, 0)
        few = np.asarray(left_over)[np.minimum(left, 3)]
        return np.asarray(total + np.where(left > 3, left_over[1] * left, few))
    cycles, elements = _CAST_VECTORS.get(types, (2, 1))
    total = 19 + cycles * (count // elements)
    left = count % elements
    for bit in range(elements.bit_length() - 1):
        total = total + 1 + 2 * ((left >> bit) & 1)
    return np.asarray(total)


def cast_cycles(
    count: NDArray[np.int64], types: tuple[str, str], machine: Machine
) -> NDArray[np.int64]:
    """Return a tile's cycles to cast contiguous elements.

    Parameters
    ----------
    count : ndarray of int64
        Elements.
    types
        Source and result type.
    machine
        Source of the worker contexts.
    """
    share = worker_share(count, machine)
    work = 18 + _cast_worker(share, types)
    return np.asarray(start_cycles(12, machine) + machine.n_worker_contexts * work)


def _types(batch: Batch) -> tuple[str, str]:
    return batch.dtype["x"], batch.dtype["out"]


def _cast_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    return cast_cycles(batch.n_elements("out"), _types(batch), machine)


def _cast_block_law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
    """Add 11 cycles per row and restart the loop; few rows are divided by columns."""
    planes, rows_of_plane, columns = batch.size["out"].T
    n_rows = planes * rows_of_plane
    is_split_by_row = n_rows >= machine.n_worker_contexts
    rows = np.where(is_split_by_row, worker_share(n_rows, machine), n_rows)
    columns = np.where(is_split_by_row, columns, worker_share(columns, machine))
    work = 5 + rows * (11 + _cast_worker(columns, _types(batch)))
    return np.asarray(machine.n_worker_contexts * work)


def cast_rows_cycles(
    n_rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    dtypes: Mapping[str, tuple[str, int]],
    machine: Machine,
) -> NDArray[np.int64]:
    """Return a tile's cycles to cast rows of constant stride, or one run: ndarray of int64.

    Parameters
    ----------
    n_rows, columns : ndarray of int64
        Rows, and contiguous elements per row.
    dtypes
        Types of the operand ``x`` and of the result ``out``, with their sizes in bytes.
    machine
        Source of the worker contexts.
    """
    blocks, vectors = batch_of_rows(dtypes, n_rows, columns)
    return np.where(n_rows > 1, _cast_block_law(blocks, machine), _cast_law(vectors, machine))


COPY = Codelet(
    "poplar::Memcpy",
    (Field("x", "in", dtype_of="out", size_of="out"), Field("out", "out")),
    _copy,
    _copy_law,
    code_bytes=120,
    source="graphcore/poplibs sdk-release-3.4, copy rate of the planner",
    is_supervisor=False,
    independent=every_dim(2),
    pieces=_OF_VECTOR,
    is_selection=True,
    is_copy=True,
)

COPY_BLOCK = Codelet(
    "poplar::StridedCopy",
    (
        Field("x", "in", 3, kind="block", dtype_of="out", size_of="out"),
        Field("out", "out", 3, kind="block"),
    ),
    _copy_block,
    _copy_block_law,
    code_bytes=200,
    source="osmarks/ipu-stack, SDK_ONNX_PROFILE_ANALYSIS: strided copies of attention scores",
    is_supervisor=False,
    independent=every_dim(2, 3),
    pieces=_OF_BLOCK,
    is_selection=True,
    is_copy=True,
)

# Casts reuse the copy kernels: only the memory types differ. Source of the memory constraints: the
# same release, lib/popops/codelets/elemwiseMiscCodelets.cpp, Cast1D and Cast2D.
CAST = Codelet(
    "popops::Cast1D",
    (Field("x", "in", size_of="out"), Field("out", "out")),
    _copy,
    _cast_law,
    code_bytes=240,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/PerformanceEstimation.cpp",
    apart=(("x", "out"),),
    independent=every_dim(2),
)

CAST_BLOCK = Codelet(
    "popops::Cast2D",
    (Field("x", "in", 3, kind="block", size_of="out"), Field("out", "out", 3, kind="block")),
    _copy_block,
    _cast_block_law,
    code_bytes=280,
    source="graphcore/poplibs sdk-release-3.4, lib/popops/PerformanceEstimation.cpp",
    apart=(("x", "out"),),
    independent=every_dim(2, 3),
)

# The host stores a bool as a byte: a cast to bool compares with zero, as in C++.
CAST_TO_BOOL = replace(CAST, kernel=_any_vector)
CAST_TO_BOOL_BLOCK = replace(CAST_BLOCK, kernel=_any_block)
