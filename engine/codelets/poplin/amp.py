"""Cycle laws of convolution vertices on the AMP unit.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp. A tile's
field is divided among its worker contexts element by element. The supervisor loads weights, starts
the workers and waits for the slowest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.codelets.poplin.amp_float8 import amp_float8_1x1_cycles, amp_float8_nx1_cycles
from tilescope.engine.codelets.poplin.work import Counts, Work, slowest_and_quickest, zeroing_cycles

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["amp_1x1_cycles", "amp_nx1_cycles", "kernel_rows_a_load"]


def _unit(work: Work, machine: Machine) -> tuple[Counts, int, Counts]:
    """Return conv units, weights per unit, and the cycles to load the weights of a pass.

    A group of outputs uses half of the unit if that is wide enough.
    """
    units, weights = machine.conv_unit(work.item_bytes, work.partial_bytes)
    used = np.where(work.outputs == min(8, units), min(8, units), units)
    load = used * weights * work.item_bytes // machine.weight_load_bytes_per_cycle
    return used, weights, load


def kernel_rows_a_load(inputs: Counts, weights: int) -> Counts:
    """Return the kernel rows that one weight load holds: more than one if inputs are few.

    Parameters
    ----------
    inputs : ndarray of int64
        Input channels per group.
    weights
        Weights per conv unit.

    Notes
    -----
    Source: poplin ConvModel.cpp, getConvUnitWeightHeight.
    """
    is_even = weights % inputs == 0
    return np.asarray(np.where(is_even, weights // inputs, 1))


def _worker_1x1(n: Counts, units: Counts, work: Work, *, zeroes: bool) -> Counts:
    """Return a worker's cycles for n field elements; a worker without any does not start."""
    if work.item_bytes == 4:
        per_element = np.where(units == 16, 8, 4)
        zeroing = (2 + per_element * n) * zeroes
        cycles = np.select(
            [n == 1, n == 2], [47 + zeroing, 46 + zeroing], 46 + zeroing + 8 * (n - 3)
        )
        return np.where(n == 0, 0, cycles)
    extra = 1 if zeroes else 2
    long = (37 if zeroes else 38) + 4 * (n - 3)
    # State retained between calls saves 7 cycles.
    usual = np.select([n == 1, n == 2], [31 + extra, 40 + extra], long) - 7
    zeroing = (2 + 2 * n) * zeroes
    narrow = np.select([n == 1, n == 2], [39 + zeroing, 40 + zeroing], 41 + zeroing + 4 * (n - 3))
    is_usual = (units == 16) | (work.partial_bytes == 4)
    return np.where(n == 0, 0, np.where(is_usual, usual, narrow))


def amp_1x1_cycles(work: Work, machine: Machine) -> Counts:
    """Return a tile's cycles for a 1x1 convolution or product on the AMP unit.

    Parameters
    ----------
    work
        Shapes; the workers treat all images and the whole field as one row.
    machine
        Source of the conv units, the weights per unit and the weight load rate.

    Notes
    -----
    Source: getConvPartial1x1SupervisorCycleEstimate.
    """
    if work.item_bytes == 1:
        return amp_float8_1x1_cycles(work, machine)
    units, weights, load = _unit(work, machine)
    workers = machine.n_worker_contexts
    groups = work.in_groups * -(-work.inputs // weights)
    passes = -(-work.outputs // units)
    shares = (-(-work.field // workers), work.field // workers)

    def inner(*, zeroes: bool) -> Counts:
        costs = [workers * _worker_1x1(n, units, work, zeroes=zeroes) for n in shares]
        slowest, quickest = np.maximum(*costs), np.minimum(*costs)
        return np.asarray(np.maximum(slowest, quickest + 14))

    is_half = work.item_bytes == 2
    common = ((work.partial_bytes == 4) | (is_half & (units == 16))).astype(np.int64)
    saves = common * is_half
    further_groups = (groups - 1) * (
        16 - common + work.out_groups * (19 + passes * (6 + load + inner(zeroes=False)))
    )
    first = 11 + work.out_groups * (19 - common + passes * (7 + load + inner(zeroes=True)))
    state = workers * saves * (7 + 3 * (groups * work.groups - 1))
    return np.asarray(50 + state + work.groups * (12 + common + further_groups + first))


def _parts_nx1(longest: int, work: Work, *, has_extra: bool) -> Counts:
    """Return a worker's cycles for a part of a row, by length."""
    n = np.arange(longest + 1)
    if work.item_bytes == 2:
        cycles = np.select([n == 1, n == 2], [29, 33 + has_extra], 34 + (n - 3) * 4)
    else:
        cycles = np.select([n == 1, n == 2], [33, 44], 45 + (n - 3) * 8)
    # A second pointer costs 3 cycles; state retained between calls saves 9.
    return np.asarray(3 - 9 + cycles, dtype=np.int64)


def amp_nx1_cycles(work: Work, machine: Machine) -> Counts:
    """Return a tile's cycles for a convolution with a larger kernel on the AMP unit.

    Parameters
    ----------
    work
        Shapes; every kernel position is assumed to cover the whole field.
    machine
        Source of the conv units, the weights per unit and the weight load rate.

    Notes
    -----
    Source: getConvPartialnx1SupervisorCycleEstimate and getZeroSupervisorVertexCycleEstimate.
    """
    if work.item_bytes == 1:
        height = kernel_rows_a_load(work.inputs, machine.float8_conv_inputs)
        return amp_float8_nx1_cycles(work, -(-work.kernel_rows // height), machine)
    units, weights, load = _unit(work, machine)
    workers = machine.n_worker_contexts
    is_half, is_half_out = work.item_bytes == 2, work.partial_bytes == 2
    groups = work.in_groups * -(-work.inputs // weights)
    passes = -(-work.outputs // units)
    longest = int(work.columns.max(initial=1))
    costs = [
        slowest_and_quickest(
            work.images * work.rows,
            work.columns,
            workers,
            _parts_nx1(longest, work, has_extra=has_extra),
        )
        for has_extra in (False, True)
    ]
    has_extra = is_half & (is_half_out == (units == 16))
    slowest, quickest = (
        np.where(has_extra, extra, plain) for plain, extra in zip(*costs, strict=True)
    )
    start = 18 if is_half_out else 17
    inner = np.maximum(workers * (start + slowest), workers * (start + quickest) + 9) * passes

    height = kernel_rows_a_load(work.inputs, weights)
    # Shuffled rows of weights do not support the double load rate.
    load = np.where((height == 4) & (machine.weight_load_bytes_per_cycle > 8), 2 * load, load)
    fetch = load + np.select([height == 4, height == 2, height == 1], [60, 46, 15], 20 * height)
    kernel_rows = -(-work.kernel_rows // height)
    loops = kernel_rows * (14 + work.kernel_columns * (12 + passes * (fetch + 3)))
    loops = loops + inner * kernel_rows * work.kernel_columns
    zero_saved = 10 if is_half_out else 9
    fixed = 109 + workers * (9 + zero_saved)
    zeroing_calls = work.groups * (17 * work.out_groups + 6 * (work.out_groups - 1) + 1)
    zeroing_calls = zeroing_calls + 6 * (work.groups - 1) + 1
    passes_over_groups = work.groups * (16 + groups * (14 + work.out_groups * (14 + loops)))
    zeroing = zeroing_cycles(work, workers, machine.data_path_bytes)
    return np.asarray(zeroing + fixed + zeroing_calls + passes_over_groups)
