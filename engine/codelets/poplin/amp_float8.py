"""Cycle laws of convolution vertices on the AMP unit with float8 operands and half partial sums.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp, the
estimates for quarter. These vertices are compiled supervisor code that starts compiled workers, so
most overheads are multiples of the worker contexts. No state is retained between calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.codelets.poplin.work import Counts, Work, slowest_and_quickest, zeroing_cycles

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["amp_float8_1x1_cycles", "amp_float8_nx1_cycles"]


def _part(n: Counts) -> Counts:
    """Return a worker's cycles for a run of n field elements."""
    return np.asarray(np.select([n == 0, n == 1, n == 2], [4, 18, 23], 27 + 4 * (n - 3)))


def _weight_load(machine: Machine) -> int:
    n_bytes = machine.float8_conv_units * machine.float8_conv_inputs
    return n_bytes // machine.weight_load_bytes_per_cycle


def amp_float8_1x1_cycles(work: Work, machine: Machine) -> Counts:
    """Return a tile's cycles for a 1x1 convolution or product of float8.

    Parameters
    ----------
    work
        Shapes; the workers treat all images and the whole field as one row.
    machine
        Source of the conv units, the weights per unit and the weight load rate.

    Notes
    -----
    Source: getConvPartial1x1SupervisorInnerLoopCycleEstimateQuarter and its outer loop. Groups of
    outputs are as wide as the unit, because these vertices have no loop over passes.
    """
    workers = machine.n_worker_contexts
    groups = work.in_groups * -(-work.inputs // machine.float8_conv_inputs)
    load = _weight_load(machine)
    call = 6 * workers

    def inner(*, zeroes: bool) -> Counts:
        shares = (-(-work.field // workers), work.field // workers)
        # Starting a sum takes 5 cycles less than continuing one.
        costs = [workers * (17 + _part(n) - 5 * zeroes * (n > 0)) for n in shares]
        slowest, quickest = np.maximum(*costs), np.minimum(*costs)
        return np.asarray(np.maximum(slowest, quickest + 14))

    first = 14 * workers + 11 + call + load + inner(zeroes=True)
    further_groups = (groups - 1) * (11 * workers + 6 + call + load + inner(zeroes=False))
    of_outputs = work.out_groups * (6 * workers + 10 + first + further_groups)
    return np.asarray(46 + work.groups * (2 * workers + 9 + of_outputs))


def amp_float8_nx1_cycles(work: Work, kernel_rows: Counts, machine: Machine) -> Counts:
    """Return a tile's cycles for a convolution of float8 with a larger kernel.

    Parameters
    ----------
    work
        Shapes; every kernel position is assumed to cover the whole field.
    kernel_rows : ndarray of int64
        Weight loads down the kernel; one load may hold several rows.
    machine
        Source of the conv units, the weights per unit and the weight load rate.

    Notes
    -----
    Source: getConvPartialnx1SupervisorInnerLoopCycleEstimateQuarter and its outer loop, and
    getZeroSupervisorVertexCycleEstimate. The source charges two weight loads per kernel
    row, regardless of the number of columns.
    """
    workers = machine.n_worker_contexts
    groups = work.in_groups * -(-work.inputs // machine.float8_conv_inputs)
    lengths = np.arange(int(work.columns.max(initial=1)) + 1)
    slowest, quickest = slowest_and_quickest(
        work.images * work.rows, work.columns, workers, 16 + _part(lengths)
    )
    pass_cycles = np.maximum(workers * (18 + slowest), workers * (18 + quickest) + 9)
    call = 6 * workers
    row = 5 * workers + 3 + 9 * workers + 13 + call + 2 * _weight_load(machine)
    further = (work.kernel_columns - 1) * (7 * workers + 8 + call)
    loops = kernel_rows * (row + further + work.kernel_columns * pass_cycles)
    of_outputs = 8 * workers + 10 + groups * (8 * workers + 13 + loops)
    zeroing = zeroing_cycles(work, workers, machine.data_path_bytes)
    total = 83 + work.groups * (5 * workers + 7 + work.out_groups * of_outputs)
    return np.asarray(zeroing + total)
