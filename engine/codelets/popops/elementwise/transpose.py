"""Transposition of matrices within a tile: blocks of 4 x 4 halves or 2 x 2 floats at a time.

Law: graphcore/poplibs sdk-release-2.4, lib/popops/popopsCycleEstimators.cpp, Transpose1D and
Transpose2D, the last release with their source. Division of matrices among workers:
sdk-release-3.4, lib/popops/Rearrange.cpp and RearrangeUtil.cpp. Strided lines of a matrix are
gathered before the transposition or scattered after it. The library uses a separate copy; here the
copy is part of the vertex and its memory is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import COPY_BLOCK, rows_cycles
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch, worker_share

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["TRANSPOSE", "grain_of"]

Counts = NDArray[np.int64]

#: Source: lib/popops/Rearrange.cpp: the machine's strides are ten-bit signed integers.
_LONGEST_STRIDE = 512


def grain_of(item_bytes: int) -> int | None:
    """Return the number that must divide both sides of a matrix, by element size.

    Source: lib/popops/Rearrange.cpp, getMinimumRegroupGrainSize. None for bytes: no
    source gives the cycles of their transposition.
    """
    return {2: 4, 4: 2}.get(item_bytes)


def _fast_half(rows: Counts, columns: Counts, matrices: Counts) -> Counts:
    """Return a worker's cycles for matrices of 4 x 4 blocks; `rows` and `columns` are blocks."""
    small = np.where(matrices == 1, 29, 37 + 4 * (matrices - 2))
    narrow = 27 + matrices * (35 + 4 * (rows - 2))
    wide = 29 + matrices * (18 + rows * (12 + 4 * (columns - 2)))
    return np.where(columns > 1, wide, np.where(rows > 1, narrow, small))


def _half(rows: Counts, columns: Counts, matrices: Counts, workers: int) -> Counts:
    """Return a tile's cycles for matrices of halves; matrices are split if few."""
    may_split = (matrices < workers) & (workers % matrices == 0)
    per_matrix = np.where(may_split, workers // matrices, 1)
    down, across = -(-rows // 4), -(-columns // 4)
    of_rows = -(-down // per_matrix)
    side_by_side = np.maximum(per_matrix // -(-down // of_rows), 1)
    of_columns = -(-across // side_by_side)
    most_matrices = -(-matrices // workers)
    shared = 7 + workers * (_fast_half(of_rows, of_columns, most_matrices) - 7)
    is_small = (rows == 4) & (columns == 4) & (matrices <= 4)
    unit_counts = np.ones_like(rows)
    alone = workers * _fast_half(unit_counts, unit_counts, matrices)
    stride = np.where(columns == 4, rows, columns) // 4 * 3 - 1
    is_fast = (rows % 4 == 0) & (columns % 4 == 0) & (stride <= _LONGEST_STRIDE)
    is_fast &= (columns == 4) | (rows // 4 < _LONGEST_STRIDE)
    slow = workers * (15 + most_matrices * (8 + columns * (5 + rows * 5 // 2)))
    return np.where(is_fast, np.where(is_small, alone, shared), slow)


def _word(rows: Counts, columns: Counts, matrices: Counts, workers: int) -> Counts:
    """Return a tile's cycles for matrices of 4-byte elements; one worker takes a matrix."""
    is_fast = (rows % 2 == 0) & (columns % 2 == 0) & (rows < _LONGEST_STRIDE)
    is_fast &= rows * (columns - 2) // 2 < _LONGEST_STRIDE
    most_matrices = -(-matrices // workers)
    fast = 27 + most_matrices * (11 + rows // 2 * (6 + 3 * (columns // 2 - 1)))
    slow = 13 + most_matrices * (8 + columns * (5 + rows * 2))
    return workers * np.where(is_fast, fast, slow)


def _law(batch: Batch, machine: Machine) -> Counts:
    """Return the cycles: a plane is a matrix whose rows are the output's columns."""
    workers = machine.n_worker_contexts
    planes, columns, rows = batch.size["out"].T
    of_type = _half if batch.item_bytes["out"] == 2 else _word
    work = of_type(rows, columns, planes, workers)
    # Strided lines cost a copy.
    for stride, lines, line in (
        (batch.stride["x"][:, 2], rows, columns),
        (batch.stride["out"][:, 1], columns, rows),
    ):
        copying = rows_cycles(worker_share(planes * lines, machine), line, batch, machine)
        work = work + np.where((stride == line) | (lines == 1), 0, workers * (20 + copying))
    return np.asarray(work)


# Reuses the kernel of a block copy: only the iteration order differs.
TRANSPOSE = Codelet(
    "poplar_rt::Transpose",
    COPY_BLOCK.fields,
    COPY_BLOCK.kernel,
    _law,
    code_bytes=340,
    source="graphcore/poplibs sdk-release-2.4, lib/popops/popopsCycleEstimators.cpp",
    independent=COPY_BLOCK.independent,
    is_selection=True,
)
