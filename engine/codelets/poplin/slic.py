"""Cycle law of SLIC: four neighbouring columns of the kernel for few channels at a time.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp. The
weights of a 1x4 window stay in the unit while a row of inputs passes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.codelets.poplin.slic_float8 import slic_float8_cycles
from tilescope.engine.codelets.poplin.work import Counts, Work, slowest_and_quickest

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["slic_cycles", "slic_workspace"]

#: Kernel columns that pass through the unit together.
WINDOW = 4


def _row(n: Counts, stride: int, *, is_first: bool, is_float_out: bool) -> Counts:
    """Return a worker's cycles for n columns of a row, by stride; the first pass zeroes."""
    if stride == 1:
        few = (
            10 + np.where(n > 1, n, 0) + 3
            if is_first
            else 7 + np.where(n == 1, 6, 1 + (n - 1) + 2 + (4 - n) + 2 + (3 - (4 - n)) + 3)
        )
        cycles = np.where(n < 5, few, 15 + n - 5)
    else:
        cycles = np.where(n < 3, 7 + np.where(n == 1, 3, 5) + 3, 15 + 2 * (n - 3))
    return np.asarray(cycles - is_float_out)


def _workers(work: Work, machine: Machine, *, is_first: bool) -> Counts:
    """Return the cycles of all workers for one kernel window and one block of groups."""
    is_float_out = work.partial_bytes == 4
    # Half outputs use four chains of units in one pass; float outputs use two in two passes.
    passes = 2 if is_float_out else 1
    n = np.arange(int(work.columns.max(initial=1)) + 1)
    slowest = [
        slowest_and_quickest(
            work.images * work.rows,
            work.columns,
            machine.n_worker_contexts,
            np.asarray(
                10
                + is_first
                + 3 * is_float_out
                + passes * _row(n, stride, is_first=is_first, is_float_out=is_float_out),
                dtype=np.int64,
            ),
        )[0]
        for stride in (1, 2)
    ]
    start = 17 + np.where(work.groups_inside > 4, 4, 0)
    return np.asarray(machine.n_worker_contexts * (start + np.where(work.stride_x == 1, *slowest)))


def slic_cycles(work: Work, machine: Machine) -> Counts:
    """Return a tile's cycles for a convolution of halves with few channels.

    Parameters
    ----------
    work
        Shapes; four channels in 1, 2 or 4 convolution groups, or 8 or 16 groups of one; eight
        channels of float8.
    machine
        Source of the worker contexts.

    Notes
    -----
    Source: getConvPartialSlicSupervisorWeightLoadCycleEstimate,
    getConvPartialSlicSupervisorInnerLoopCycleEstimate and
    getConvPartialSlicSupervisorOuterLoopCycleEstimate, for units of 16.
    """

    def loop(n: Counts) -> Counts:
        """Cycles of the branches of a supervisor's loop."""
        return np.asarray(6 * (n - 1) + 1)

    inside = work.groups_inside
    windows = work.kernel_rows * -(-work.kernel_columns // WINDOW)
    if work.item_bytes == 1:
        return slic_float8_cycles(work, windows, machine)
    rearranging = np.where(inside == 2, 12, 10) + (inside > 4)
    shuffled = 9 + 6 + rearranging * machine.n_worker_contexts + 6
    load = 16 + np.where(work.inputs == 4, 18, shuffled)
    first = _workers(work, machine, is_first=True)
    later_windows = _workers(work, machine, is_first=False)

    strides = np.maximum(1, inside // 4)
    few = load + 3 + 2 + 1 + 6 + 1 + 6 + 1
    many = (load + 6 + 1 + 6 + 2 + 6) * strides + loop(strides) + 2 + 2 + 6 + 3 + 2
    is_few = inside <= 4
    a_window = np.where(is_few, few, many)
    a_group = np.where(is_few, 15, 15 + 2 + 6)
    later_windows = np.where(is_few, later_windows, later_windows * strides)
    return np.asarray(
        28
        + a_group * work.groups
        + loop(work.groups)
        + a_window * windows
        + loop(windows)
        + work.groups * (first + (windows - 1) * later_windows)
    )


def slic_workspace(work: Work) -> Counts:
    """Return the size of the second buffer for a block's outputs, bytes.

    Parameters
    ----------
    work
        Shapes.

    Notes
    -----
    Source: poplin ConvModel.cpp, addConvTempMemoryEstimate.
    """
    outputs = work.groups_inside * work.outputs * work.out_groups
    return np.asarray(work.field * outputs * work.partial_bytes + 200)
