"""Cycle law of the vertical MAC: a channel of each of several convolution groups at a time.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp. Each
worker sums its share of rows and kernel rows into partial sums of its own, which the workers add
up at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.codelets.work import Counts, Work

if TYPE_CHECKING:
    from engine.machine import Machine

__all__ = ["vertical_mac_cycles"]


def vertical_mac_cycles(work: Work, machine: Machine) -> Counts:
    """Return the cycles of a tile for a depthwise convolution on the vector unit.

    Parameters
    ----------
    work
        Shapes.
    machine
        Gives the width of the data path.

    Notes
    -----
    Source: getConvPartialVerticalMacSupervisorCycleEstimate, for groups of one data-path vector.
    Assumption: the library has this vertex for half only; float is taken to work alike on vectors
    of two.
    """
    workers = machine.n_worker_contexts
    item = work.item_bytes
    vectors = -(-work.groups_inside * item // machine.data_path_bytes)
    share = -(-work.field // workers)
    worker = 18 + share * vectors * (7 + 3 + 3 + 2 * (work.kernel - 1))
    elements = work.field * work.groups_inside
    zeroing = 4 + -(-elements * item // machine.data_path_bytes)
    reduction = 10 + (7 + workers - 1) * -(-elements // workers) * item // machine.data_path_bytes
    each = zeroing + 32 + 24 + workers * worker + reduction
    return np.asarray(61 + 14 + 25 + work.groups * each)
