"""Cycle law of the outer product: one input channel times a row of outputs.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.codelets.poplin.work import Counts, Work

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["outer_product_cycles"]


def outer_product_cycles(work: Work, machine: Machine) -> Counts:
    """Return a tile's cycles for products over one input channel.

    Parameters
    ----------
    work
        Shapes: one image, one row, one input.
    machine
        Source of the worker contexts.

    Notes
    -----
    Source: getOuterProductCycleEstimate; depends on a worker's share of the columns.
    """
    workers = machine.n_worker_contexts
    width = -(-work.columns // workers)
    blocks = work.out_groups * work.groups
    outputs = work.outputs
    if work.item_bytes == 4:
        is_fast = (outputs >= 6) & (outputs % 2 == 0)
        row = np.where(is_fast, 6 + (outputs - 6) // 2, 10 + 2 * outputs)
        start = 11
    else:
        is_fast = (outputs >= 12) & (outputs % 4 == 0)
        row = np.where(is_fast, 6 + (outputs - 12) // 4, 10 + outputs * 5 // 2)
        start = 10
    return np.asarray(workers * (25 + blocks * (start + width * row)))
