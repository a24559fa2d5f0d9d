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
    # Partial sums in float are stored and loaded again in more cycles, and added two at a time.
    is_mixed = int(item == 2 and work.partial_bytes == 4)
    vectors = -(-work.groups_inside * item // machine.data_path_bytes)
    share = -(-work.field // workers)
    worker = 18 + is_mixed + share * vectors * (7 + 3 + 2 * is_mixed + 3 + 2 * (work.kernel - 1))
    elements = work.field * work.groups_inside
    zeroing = 4 + -(-elements * work.partial_bytes // machine.data_path_bytes)
    adding = 7 + 2 * is_mixed + (1 + is_mixed) * (workers - 1)
    reduction = 10 - is_mixed + adding * -(-elements // workers) * item // machine.data_path_bytes
    each = zeroing + 32 + 24 + workers * worker + reduction
    return np.asarray(61 + 14 + 25 + is_mixed + work.groups * each)
