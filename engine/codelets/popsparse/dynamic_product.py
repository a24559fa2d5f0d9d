"""Vertices of products with a sparse matrix whose pattern the host changes between runs.

Laws: graphcore/poplibs sdk-release-3.4, lib/popsparse/PerformanceEstimation.hpp:
sparseDenseElementwiseMultiply, sparseDenseTransposeElementwiseMultiply, sparseDenseBlockMultiply,
sparseDenseGradWElementwiseMultiply and sparseDenseBlockMultiplyGradW, with the division among
workers of lib/popsparse/FullyConnectedPlan.cpp. A bucket has one group of a tile's part; which rows
and blocks are in it is counted while the program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popsparse.bucket import Work, count_of, work_of
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["FORWARD", "TRANSPOSED", "VALUE_GRADIENT", "forward_cycles"]

Counts = NDArray[np.int64]
Cycles = Callable[[Work, Counts, int, int, "Machine"], Counts]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popsparse/PerformanceEstimation.hpp"
#: Cycles of a worker for a row, and around its columns, for blocks of floats and of halves with
#: sums in float, of a wide product; cycles for a column of the dense operand.
_BLOCK = {
    (4, 4): (26, 14, 4), (4, 2): (26, 19, 2),
    (8, 4): (23, 23, 8), (8, 2): (20, 23, 4),
    (16, 4): (23, 24, 4), (16, 2): (23, 24, 4),
}  # fmt: skip
#: For gradients of blocks: cycles of a worker, around a row, around a block, for a column.
_BLOCK_GRADIENT = {
    (4, 4): (27, 9, 45, 12), (4, 2): (26, 9, 33, 6),
    (8, 4): (24, 7, 8 + 8 * (5 + 2 * 10), 8 * 2 * 3), (8, 2): (26, 9, 9 + 8 * 13, 8 * 3),
    (16, 4): (27, 9, 505, 96), (16, 2): (27, 9, 505, 96),
}  # fmt: skip


def _per_row(work: Work) -> Counts:
    """Return the mean of the blocks of a row, rounded up."""
    return np.asarray(-(-work.blocks // np.maximum(work.rows, 1)))


def _supervisor(work: Work, start: int, foreign: int, own: int) -> Counts:
    """Return the cycles that a tile's supervisor takes for the groups of a bucket."""
    return np.asarray(start + foreign * work.foreign + np.where(work.rows > 0, own, 0))


def _of_floats(rows: Counts, columns: Counts, n: Counts) -> Counts:
    """Return a worker's cycles for rows of single floats."""
    pairs = np.where(n & 2, 8 + n // 2 * 2 * columns, 0)
    wide = np.where(n // 4 > 0, 12 + n // 4 * 3 * columns, 0)
    other = wide + pairs + (n & 1) * (8 + 2 * columns) + np.where(n & 3, 3, 1)
    start = np.where(n == 4, 25, np.where(n == 2, 27, 30))
    around = np.where(n == 2, 11, 13)
    inner = np.where(n == 4, 3 * columns, np.where(n == 2, 2 * columns, other))
    return np.asarray(start + rows * (around + inner))


def _of_halves(rows: Counts, columns: Counts, n: Counts) -> Counts:
    """Return a worker's cycles for rows of single halves."""
    wide = np.where(n // 8 > 0, 16 + n // 8 * 3 * columns, 0)
    half = np.where(n & 4, 13 + 2 * columns, 0)
    other = wide + half + np.where(n & 3, 11 + 2 * columns * (n & 3), 0)
    start = np.where(n == 8, 28, np.where(n == 4, 30, 33))
    around = np.where(n == 8, 15, np.where(n == 4, 11, 12))
    inner = np.where(n == 8, 3 * columns, np.where(n == 4, 2 * columns, other))
    return np.asarray(start + rows * (around + inner))


def _block_cycles(
    work: Work, n: Counts, size: int, item_bytes: int, machine: Machine, *, retains: bool
) -> Counts:
    """Return a tile's cycles for blocks; the workers share the columns of the dense operand.

    Parameters
    ----------
    retains
        Whether the sums of a row stay in registers from block to block.
    """
    start, around, per_column = _BLOCK[size, item_bytes]
    load = size * size * item_bytes // machine.data_path_bytes
    supervisor = _supervisor(work, 40, 33, 46 + 56)
    loads = work.blocks * (load + 3 + 12) + retains * work.rows + 2
    worker = start + work.blocks * (around + worker_share(n, machine) * per_column - 3 * retains)
    return np.asarray(supervisor + loads + worker * machine.n_worker_contexts)


def forward_cycles(work: Work, n: Counts, size: int, item_bytes: int, machine: Machine) -> Counts:
    """Return the cycles of a tile to multiply its part of a bucket: ndarray of int64.

    Parameters
    ----------
    work
        Rows and blocks of the part, and other groups of the bucket.
    n : ndarray of int64
        Columns of the dense operand.
    size
        Rows and columns of a block.
    item_bytes
        Bytes of an element: 2 for half, 4 for float.
    machine
        Source of the worker contexts and the data path.
    """
    if size > 1:
        return _block_cycles(work, n, size, item_bytes, machine, retains=True)
    # Workers share rows, and then columns of the dense operand.
    across = np.maximum(machine.n_worker_contexts // np.maximum(work.rows, 1), 1)
    grain = machine.data_path_bytes // item_bytes
    columns = np.where(across > 1, np.minimum(-(-n // across // grain) * grain, n), n)
    of_rows = _of_halves if item_bytes == 2 else _of_floats
    worker = of_rows(worker_share(work.rows, machine), _per_row(work), columns)
    return np.asarray(
        _supervisor(work, 30, 32, 47 + 46)
        + np.where(work.rows > 0, worker * machine.n_worker_contexts, 0)
    )


def _transposed_cycles(
    work: Work, n: Counts, size: int, item_bytes: int, machine: Machine
) -> Counts:
    """Return the cycles of a tile to multiply by its part of the transpose."""
    if size > 1:
        return _block_cycles(work, n, size, item_bytes, machine, retains=False)
    columns = worker_share(_per_row(work), machine)
    if item_bytes == 4:
        inner = 8 + np.where(n // 2 > 0, (2 + n // 2 * 3) * columns, 0) + (n & 1) * 4 * columns
        worker = 23 + work.rows * (24 + inner)
    else:
        fours = np.where(n // 4 > 0, (2 + n // 4 * 5) * columns, 0)
        rest = np.where(n & 3, (5 + 3 * (n & 3)) * columns, 0)
        around = np.where(n == 8, 18, np.where(n == 4, 21, 22))
        wide, half = 10 * columns, 7 * columns
        inner = np.where(n == 8, wide, np.where(n == 4, half, 8 + fours + rest))
        worker = np.where((n == 8) | (n == 4), 20, 26) + work.rows * (around + inner)
    worker = np.where(work.rows > 0, worker * machine.n_worker_contexts, 0)
    return np.asarray(_supervisor(work, 30, 32, 44 + 68) + worker)


def _gradient_cycles(work: Work, n: Counts, size: int, item_bytes: int, machine: Machine) -> Counts:
    """Return the cycles of a tile for the gradients of its part's values."""
    rows, columns = worker_share(work.rows, machine), _per_row(work)
    if size > 1:
        first, of_row, of_block, per_column = _BLOCK_GRADIENT[size, item_bytes]
        worker = np.asarray(first + rows * (of_row + columns * (of_block + n * per_column)))
    elif item_bytes == 4:
        one = np.where(n == 4, 5, np.where(n == 2, 4, 9 + n // 2 + (n & 1)))
        start = 28 + np.where(n == 4, 2, np.where(n == 2, 4, 6))
        worker = start + rows * (np.where(n == 2, 7, 9) + one * columns)
    else:
        rest = np.where(n & 2, 3, 0) + (n & 1) * 4
        one = np.where(n == 8, 5, np.where(n == 4, 4, 11 + n // 4 + rest))
        start = 28 + np.where(n == 8, 2, np.where(n == 4, 4, 7))
        around = np.where(n == 8, 11, np.where(n == 4, 10, 8))
        worker = start + rows * (around + one * columns)
    worker = np.where(work.rows > 0, worker * machine.n_worker_contexts, 0)
    return np.asarray(_supervisor(work, 37 + 38, 0, 26) + worker)


def _product_kernel(size: int, *, is_transposed: bool) -> Any:
    @jit
    def kernel(values, places, dense, out, part, width):  # type: ignore[no-untyped-def]
        place, block, rows, blocks, foreign = 0, 0, 0, 0, 0
        while place < places.size and places[place] != 0:
            is_own = places[place] == part + 1
            n_rows = int(places[place + 1])
            place += 2
            if is_own:
                rows += n_rows
            else:
                foreign += 1
            for _ in range(n_rows):
                row, n_blocks = int(places[place]), int(places[place + 1])
                place += 2
                if is_own:
                    blocks += n_blocks
                    for k in range(n_blocks):
                        column = int(places[place + k])
                        for i in range(size):
                            for c in range(size):
                                value = values[((block + k) * size + i) * size + c]
                                to, of = row * size + i, column * size + c
                                if is_transposed:
                                    to, of = of, to
                                for j in range(width):
                                    out[to * width + j] += value * dense[of * width + j]
                place += n_blocks
                block += n_blocks
        return count_of(rows, blocks, foreign)

    return kernel


def _gradient_kernel(size: int) -> Any:
    @jit
    def kernel(places, gradient, dense, out, part, width):  # type: ignore[no-untyped-def]
        place, block, rows, blocks, foreign = 0, 0, 0, 0, 0
        while place < places.size and places[place] != 0:
            is_own = places[place] == part + 1
            n_rows = int(places[place + 1])
            place += 2
            if is_own:
                rows += n_rows
            else:
                foreign += 1
            for _ in range(n_rows):
                row, n_blocks = int(places[place]), int(places[place + 1])
                place += 2
                if is_own:
                    blocks += n_blocks
                    for k in range(n_blocks):
                        column = int(places[place + k])
                        for i in range(size):
                            for c in range(size):
                                up, of = (row * size + i) * width, (column * size + c) * width
                                total = gradient[up] * dense[of]
                                for j in range(1, width):
                                    total += gradient[up + j] * dense[of + j]
                                out[((block + k) * size + i) * size + c] = total
                place += n_blocks
                block += n_blocks
        return count_of(rows, blocks, foreign)

    return kernel


def _codelet(
    name: str, fields: tuple[Field, ...], kernel: Any, cycles: Cycles, size: int
) -> Codelet:
    operand = fields[1].name if fields[0].name == "places" else "values"

    def law(batch: Batch, machine: Machine) -> Counts:
        width = np.asarray(batch.scalars["width"])
        return cycles(work_of(batch), width, size, batch.item_bytes[operand], machine)

    def flops(batch: Batch) -> Counts:
        width = np.asarray(batch.scalars["width"])
        return np.asarray(2 * work_of(batch).blocks * size * size * width)

    return Codelet(
        f"popsparse::{name}",
        fields,
        kernel,
        law,
        code_bytes=400,
        source=_SOURCE,
        scalars=(Scalar("part"), Scalar("width")),
        flops=flops,
        is_data_dependent=True,
    )


def _product(size: int, *, is_transposed: bool) -> Codelet:
    if size == 1:
        name = f"SparseDenseMatMulElementWise{'Transpose' * is_transposed}"
    else:
        name = f"SparseDenseMatMulBlock{'GradA' * is_transposed}<{size},{size}>"
    fields = (
        Field("values", "in"),
        Field("places", "in", dtype="uint16"),
        Field("dense", "in", dtype_of="values"),
        Field("out", "inout", dtype="float32"),
    )
    kernel = _product_kernel(size, is_transposed=is_transposed)
    cycles = _transposed_cycles if is_transposed else forward_cycles
    return _codelet(name, fields, kernel, cycles, size)


def _gradient(size: int) -> Codelet:
    name = (
        "SparseDenseMatMulGradWElementWise"
        if size == 1
        else f"SparseDenseMatMulBlockGradW<{size},{size}>"
    )
    fields = (
        Field("places", "in", dtype="uint16"),
        Field("gradient", "in"),
        Field("dense", "in", dtype_of="gradient"),
        Field("out", "inout", dtype="float32"),
    )
    return _codelet(name, fields, _gradient_kernel(size), _gradient_cycles, size)


_SIZES = (1, 4, 8, 16)
#: By size of a block: add the products of a bucket's blocks, or of their transposes, to sums.
FORWARD = {size: _product(size, is_transposed=False) for size in _SIZES}
TRANSPOSED = {size: _product(size, is_transposed=True) for size in _SIZES}
#: By size of a block: gradients of a bucket's values, from those of results and the dense operand.
VALUE_GRADIENT = {size: _gradient(size) for size in _SIZES}
