"""Cycle law of SLIC with float8 operands and half partial sums: eight channels at a time.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp, the
estimates for quarter. The vertex is compiled code around short assembly loops, one per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.codelets.poplin.work import Counts, Work, slowest_and_quickest

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["slic_float8_cycles"]

#: Weight load of the unit: 32 loads and a register stall.
_WEIGHT_LOAD_CYCLES = 32 + 6


def _row(n: Counts, stride: int, *, is_first: bool) -> Counts:
    """Return the cycles of a pass over n columns of a row, by stride; the first pass zeroes."""
    if stride == 2:
        few, many = np.where(n == 1, 6 + 3, 6 + 6), 13 + 2 * (n - 3)
        return np.asarray(np.where(n < 3, few, many))
    short = np.minimum(n, 4)
    if is_first:
        few, many = 8 + np.array([0, 3, 5, 9, 10])[short], 14 + n - 5
    else:
        few, many = 18 + 2 + np.array([0, 8, 10, 13, 13])[short], 18 + 12 + n - 5
    return np.asarray(np.where(n < 5, few, many))


def slic_float8_cycles(work: Work, windows: Counts, machine: Machine) -> Counts:
    """Return a tile's cycles for a convolution of float8 with few channels.

    Parameters
    ----------
    work
        Shapes; eight channels of one convolution group.
    windows : ndarray of int64, shape (n,)
        Kernel windows that pass through the unit in sequence.
    machine
        Source of the worker contexts.

    Notes
    -----
    Source: getConvPartialSlicSupervisorInnerLoopCycleEstimateQuarter, which makes two passes
    over the inputs, and getConvPartialSlicSupervisorOuterLoopCycleEstimateQuarter.
    """
    workers = machine.n_worker_contexts
    n = np.arange(int(work.columns.max(initial=1)) + 1)
    rows, columns = work.images * work.rows, work.columns

    def inner(*, is_first: bool) -> Counts:
        slowest = [
            slowest_and_quickest(
                rows, columns, workers, 24 + 2 * _row(n, stride, is_first=is_first)
            )[0]
            for stride in (1, 2)
        ]
        return np.asarray(workers * (20 + np.where(work.stride_x == 1, *slowest)))

    call = 6 * workers + _WEIGHT_LOAD_CYCLES
    first = call + 6 * workers + 12 + inner(is_first=True)
    later_windows = (windows - 1) * (call + 5 * workers + 8 + inner(is_first=False))
    return np.asarray(43 + work.groups * (13 * workers + 15 + first + later_windows))
