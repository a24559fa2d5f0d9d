"""Cycle laws of convolution vertices on the AMP unit, and of the vertical MAC.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp. A tile's
field is shared out to its worker contexts element by element; the supervisor loads weights, starts
the workers and waits for the slowest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.codelets._jit import cached_jit

if TYPE_CHECKING:
    from engine.machine import Machine

__all__ = ["amp_1x1_cycles", "amp_nx1_cycles", "vertical_mac_cycles"]

Counts = NDArray[np.int64]


def _unit(machine: Machine, item_bytes: int) -> tuple[int, int, int]:
    """Return conv units, inputs a pass, and the cycles to load the weights of a pass."""
    is_half = item_bytes == 2
    units = machine.half_conv_units if is_half else machine.float_conv_units
    inputs = machine.half_conv_inputs if is_half else machine.float_conv_inputs
    return units, inputs, units * inputs * item_bytes // machine.weight_load_bytes_per_cycle


def _worker_1x1(
    n: Counts, machine: Machine, item_bytes: int, partial_bytes: int, *, zeroes: bool
) -> Counts:
    """Return a worker's cycles for n field elements; a worker without any does not start."""
    units = _unit(machine, item_bytes)[0]
    if item_bytes == 4:
        per_element = 8 if units == 16 else 4
        zeroing = (2 + per_element * n) * zeroes
        cycles = np.select(
            [n == 1, n == 2], [47 + zeroing, 46 + zeroing], 46 + zeroing + 8 * (n - 3)
        )
    elif units == 16 or partial_bytes == 4:
        extra = 1 if zeroes else 2
        long = (37 if zeroes else 38) + 4 * (n - 3)
        # State that stays from call to call saves 7.
        cycles = np.select([n == 1, n == 2], [31 + extra, 40 + extra], long) - 7
    else:
        zeroing = (2 + 2 * n) * zeroes
        cycles = np.select(
            [n == 1, n == 2], [39 + zeroing, 40 + zeroing], 41 + zeroing + 4 * (n - 3)
        )
    return np.where(n == 0, 0, cycles)


def amp_1x1_cycles(
    field: Counts,
    n_inputs: Counts,
    n_outputs: Counts,
    machine: Machine,
    item_bytes: int,
    partial_bytes: int,
) -> Counts:
    """Return the cycles of a tile for a 1x1 convolution or product on the AMP unit.

    Parameters
    ----------
    field : ndarray of int64
        Output field elements (rows of a product).
    n_inputs, n_outputs : ndarray of int64
        Input and output channels of the vertex.
    machine
        Gives the conv units, inputs a pass and rate of the weight load.
    item_bytes, partial_bytes
        Size of an input and of an output: 2 for half, 4 for float.

    Notes
    -----
    Source: getConvPartial1x1SupervisorCycleEstimate.
    """
    units, inputs, load = _unit(machine, item_bytes)
    workers = machine.n_worker_contexts
    groups = -(-n_inputs // inputs)
    passes = -(-n_outputs // units)
    shares = (-(-field // workers), field // workers)

    def inner(*, zeroes: bool) -> Counts:
        costs = [
            workers * _worker_1x1(n, machine, item_bytes, partial_bytes, zeroes=zeroes)
            for n in shares
        ]
        slowest, quickest = np.maximum(*costs), np.minimum(*costs)
        return np.asarray(np.maximum(slowest, quickest + 14))

    common = int(partial_bytes == 4 or (item_bytes == 2 and units == 16))
    saved = (7, 3) if item_bytes == 2 and common else (0, 0)
    others = (groups - 1) * (16 - common + 19 + passes * (6 + load + inner(zeroes=False)))
    first = 11 + 19 - common + passes * (7 + load + inner(zeroes=True))
    state = workers * (saved[0] + saved[1] * (groups - 1))
    return np.asarray(50 + state + 12 + common + others + first)


@cached_jit
def _nx1_workers(rows, columns, workers, is_half, extra):  # type: ignore[no-untyped-def]
    """Return the cycles of the slowest and the quickest worker of each vertex.

    The field is shared out element by element; a worker pays for each row it has a part of.
    """
    n = rows.size
    slowest = np.zeros(n, np.int64)
    quickest = np.zeros(n, np.int64)
    for v in range(n):
        total = rows[v] * columns[v]
        for i in range(workers):
            begin, end = i * total // workers, (i + 1) * total // workers
            cycles = 0
            while begin < end:
                part = min(end, (begin // columns[v] + 1) * columns[v]) - begin
                begin += part
                cycles += 3 - 9
                if is_half:
                    cycles += 29 if part == 1 else 33 + extra if part == 2 else 34 + (part - 3) * 4
                else:
                    cycles += 33 if part == 1 else 44 if part == 2 else 45 + (part - 3) * 8
            slowest[v] = max(slowest[v], cycles)
            quickest[v] = cycles if i == 0 else min(quickest[v], cycles)
    return slowest, quickest


def amp_nx1_cycles(
    rows: Counts,
    columns: Counts,
    kernel: tuple[Counts, Counts],
    n_inputs: Counts,
    n_outputs: Counts,
    machine: Machine,
    item_bytes: int,
    partial_bytes: int,
) -> Counts:
    """Return the cycles of a tile for a convolution with a larger kernel on the AMP unit.

    Parameters
    ----------
    rows, columns : ndarray of int64
        Output field of the vertex.
    kernel : pair of ndarray of int64
        Kernel rows and columns; all positions are taken to reach the whole field.
    n_inputs, n_outputs : ndarray of int64
        Input and output channels of the vertex.
    machine
        Gives the conv units, inputs a pass and rate of the weight load.
    item_bytes, partial_bytes
        Size of an input and of an output: 2 for half, 4 for float.

    Notes
    -----
    Source: getConvPartialnx1SupervisorCycleEstimate with a filter height of 1, and
    getZeroSupervisorVertexCycleEstimate.
    """
    units, inputs, load = _unit(machine, item_bytes)
    workers = machine.n_worker_contexts
    is_half = item_bytes == 2
    extra = int(is_half and (partial_bytes == 2) == (units == 16))
    groups = -(-n_inputs // inputs)
    passes = -(-n_outputs // units)
    slowest, quickest = _nx1_workers(rows, columns, workers, is_half, extra)
    start = 17 if partial_bytes == 4 else 18
    inner = np.maximum(workers * (start + slowest), workers * (start + quickest) + 9) * passes
    kernel_rows, kernel_columns = kernel
    loops = kernel_rows * (14 + kernel_columns * (12 + passes * (load + 18)))
    loops = loops + inner * kernel_rows * kernel_columns
    zero_saved, zero_start = (9, 14) if partial_bytes == 4 else (10, 15)
    share = -(-rows * columns * n_outputs // workers)
    vectors = -(-share * partial_bytes // machine.data_path_bytes)
    zeroing = workers * (vectors + zero_start - zero_saved)
    fixed = 109 + workers * (9 + zero_saved) + 17 + 1 + 1 + 16
    return np.asarray(zeroing + fixed + groups * (14 + 14 + loops))


def vertical_mac_cycles(
    field: Counts,
    kernel: Counts,
    n_channels: Counts,
    machine: Machine,
    item_bytes: int,
) -> Counts:
    """Return the cycles of a tile for a depthwise convolution on the vector unit.

    Parameters
    ----------
    field : ndarray of int64
        Output field elements.
    kernel : ndarray of int64
        Kernel positions.
    n_channels : ndarray of int64
        Channels of the vertex.
    machine
        Gives the width of the data path.
    item_bytes
        2 for half, 4 for float.

    Notes
    -----
    Source: getConvPartialVerticalMacSupervisorCycleEstimate, for groups of one data-path vector.
    Assumption: the library has this vertex for half only; float is taken to work alike on vectors
    of two.
    """
    workers = machine.n_worker_contexts
    vectors = -(-n_channels * item_bytes // machine.data_path_bytes)
    share = -(-field // workers)
    worker = 18 + share * vectors * (7 + 3 + 3 + 2 * (kernel - 1))
    elements = field * n_channels
    zeroing = 4 + -(-elements * item_bytes // machine.data_path_bytes)
    reduction = (
        10 + (7 + workers - 1) * -(-elements // workers) * item_bytes // machine.data_path_bytes
    )
    return np.asarray(61 + 14 + 25 + zeroing + 32 + 24 + workers * worker + reduction)
