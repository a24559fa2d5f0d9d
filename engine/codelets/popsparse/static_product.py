"""Vertices of products with a sparse matrix whose pattern is known when the program is compiled.

A vertex multiplies the blocks that are on its tile by the rows of the dense operand that they
need, which are brought to it, and writes a part of the sum of every row of blocks that it has.

Laws: graphcore/poplibs sdk-release-3.4, lib/popsparse/StaticMatMulPartitioner.cpp:
matmulComputeCycles and zeroingCycles (the estimators of the vertices themselves,
lib/popsparse/popsparseCycleEstimators.cpp, return 0). The rows of blocks of one element, and the
columns of others, are divided among workers as in lib/popsparse/StaticMatMul.cpp, divideWork.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import allocating_jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["STATIC_PRODUCT", "static_product_cycles"]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popsparse/StaticMatMulPartitioner.cpp"
#: Cycles of a worker by size of a block and bytes of an element: of a vertex, of a row of blocks.
_PER_VERTEX = {(4, 2): 17, (4, 4): 13, (8, 2): 13, (8, 4): 13, (16, 2): 13, (16, 4): 16}
_PER_ROW = {(4, 2): 1, (4, 4): 1, (8, 2): 1, (8, 4): 4, (16, 2): 1, (16, 4): 4}
#: The same of the supervisor, which starts the workers for a block: of a vertex, a row, a block.
_SUPERVISOR = (30, 17, 16)


def _of_block(n: Counts, size: int, item_bytes: int) -> Counts:
    """Return a worker's cycles for a block and its `n` columns of the dense operand."""
    is_half = item_bytes == 2
    if size == 4:
        return np.where(n <= 2, 7 + n, 13 + n) if is_half else 12 + (n - 1) * 4
    if size == 8:
        return 14 + (n - 1) * 2 if is_half else 19 + (n - 1) * 8
    if is_half:
        return 19 + (n - 1) * 4
    return np.where(n == 1, 29 * 2, (37 + (n - 1) * 8) * 2)


def _of_elements(rows: Counts, values: Counts, n: Counts, item_bytes: int) -> Counts:
    """Return a worker's cycles for rows of single elements, `values` of them in all its rows.

    Two widths have loops of their own, as wide as the data path and half of it.
    """
    more = values - rows
    if item_bytes == 2:
        narrow, wide = 31 + rows * 7 + more * 2, 31 + rows * 8 + more * 3
        full, rest = n // 8, (n % 8 != 0).astype(np.int64)
        other = 33 + rows * (11 + full * 14 + rest * 9) + more * (full * 3 + rest * 2)
        return np.where(n == 4, narrow, np.where(n == 8, wide, other))
    narrow, wide = 29 + rows * 5 + more * 2, 30 + rows * 6 + more * 3
    full, rest = n // 4, (n % 4 != 0).astype(np.int64)
    other = 31 + rows * (12 + full * 10 + rest * 10) + more * (full * 3 + rest * 2)
    return np.where(n == 2, narrow, np.where(n == 4, wide, other))


def static_product_cycles(
    rows: Counts, blocks: Counts, n: Counts, block_size: int, item_bytes: int, machine: Machine
) -> Counts:
    """Return the cycles of a tile for its part of a static sparse product: ndarray of int64.

    Parameters
    ----------
    rows, blocks : ndarray of int64
        Rows of blocks that have some on the tile, and blocks on it.
    n : ndarray of int64
        Columns of the dense operand on the tile; narrower vectors than the data path count as one.
    block_size
        Rows and columns of a block: 1, 4, 8 or 16.
    item_bytes
        Bytes of an element: 2 for half, 4 for float.
    machine
        Source of the worker contexts and the data path.
    """
    workers = machine.n_worker_contexts
    vector = machine.data_path_bytes // item_bytes
    n = -(-n // vector) * vector
    if block_size == 1:
        # Few rows: one half of the workers has them, and half of the columns each.
        is_halved = (2 * rows <= workers) & (n % 8 == 0)
        share = np.where(is_halved, -(-2 * rows // workers), worker_share(rows, machine))
        per_row = -(-blocks // np.maximum(rows, 1))
        columns = np.where(is_halved, -(-n // 2 // vector) * vector, n)
        return np.asarray(workers * _of_elements(share, share * per_row, columns, item_bytes))
    key = block_size, item_bytes
    load = block_size * block_size * item_bytes // machine.data_path_bytes
    of_vertex, of_row, of_block = _SUPERVISOR
    columns = worker_share(n, machine)
    cycles = of_vertex + _PER_VERTEX[key] * workers + rows * (_PER_ROW[key] * workers + of_row)
    worker = _of_block(columns, block_size, item_bytes)
    cycles = cycles + blocks * (of_block + load + worker * workers)
    if item_bytes == 4 and block_size > 4:
        vectors = -(-rows * block_size * n * item_bytes // machine.data_path_bytes)
        cycles = cycles + (12 + worker_share(vectors, machine)) * workers
    return np.asarray(cycles)


def _kernel(size: int) -> Any:
    @allocating_jit
    def kernel(values, places, dense, out):  # type: ignore[no-untyped-def]
        place, block = 0, 0
        for row in range(len(out)):
            total = out[row]
            n = total.size // size
            for i in range(total.size):
                total[i] = 0
            n_blocks = places[place]
            place += 1
            for _ in range(n_blocks):
                source = dense[places[place]]
                place += 1
                for i in range(size):
                    for c in range(size):
                        value = values[block * size * size + i * size + c]
                        for j in range(n):
                            total[i * n + j] += value * source[c * n + j]
                block += 1

    return kernel


def _sizes(batch: Batch) -> tuple[Counts, Counts, Counts]:
    """Return rows of blocks, stored values, and elements of a row of blocks by vertex."""
    first = batch.first["out"]
    return np.diff(first), batch.size["values"][:, 0], batch.size["out"][first[:-1], 0]


def _codelet(size: int) -> Codelet:
    def law(batch: Batch, machine: Machine) -> Counts:
        rows, values, in_row = _sizes(batch)
        blocks, item = values // size**2, batch.item_bytes["values"]
        return static_product_cycles(rows, blocks, in_row // size, size, item, machine)

    def flops(batch: Batch) -> Counts:
        _, values, in_row = _sizes(batch)
        return np.asarray(2 * values * (in_row // size))

    name = "StaticSparseDenseElementWise"
    if size > 1:
        name = f"StaticSparseDenseMatMulBlock<{size},{size}>"
    return Codelet(
        f"popsparse::{name}",
        (
            Field("values", "in"),
            Field("places", "in", dtype="uint16"),
            Field("dense", "in", kind="list", dtype_of="values"),
            Field("out", "out", kind="list", dtype_of="values"),
        ),
        _kernel(size),
        law,
        code_bytes=360 if size == 1 else 420,
        source=_SOURCE,
        flops=flops,
    )


#: By size of a block. Fields: the blocks in the order of their rows; for every row, the number of
#: its blocks and then the interval of `dense` that each one multiplies; an interval of `dense` has
#: the rows of a block's columns, one of `out` a row of blocks.
STATIC_PRODUCT = {size: _codelet(size) for size in (1, 4, 8, 16)}
