"""Cycle law of the vertical MAC: one channel of several convolution groups at a time.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp. A
worker sums its share of rows into its own partial sums; the workers add these up at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.codelets.poplin.work import Counts, Work, row_shares

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["vertical_mac_cycles", "vertical_mac_workspace"]


def vertical_mac_cycles(work: Work, machine: Machine) -> Counts:
    """Return a tile's cycles for a depthwise convolution of halves on the vector unit.

    Parameters
    ----------
    work
        Shapes; groups of 4, 8 or 16 convolution groups with one channel.
    machine
        Source of the worker contexts.

    Notes
    -----
    Source: getConvPartialVerticalMacSupervisorCycleEstimate and
    estimateConvPartialVerticalMacInnerLoopCycles.
    """
    workers = machine.n_worker_contexts
    is_float = work.partial_bytes == 4
    whole_rows, parts, cut = row_shares(work.field, work.kernel_columns, workers)
    inside = work.groups_inside

    def product(size: Counts) -> Counts:
        """Cycles of one kernel row."""
        per_element = np.where(inside >= 8, 3 * (inside // 8), 2 * (inside // 4))
        return np.asarray(3 + per_element * (size - 1))

    def eights(size: Counts) -> Counts:
        return np.asarray(7 + 15 + 3 + 3 * (size - 1))

    def fours(size: Counts) -> Counts:
        return np.asarray(7 + (5 if is_float else 3) + product(size))

    def worker(of_row: Counts, of_part: Counts) -> Counts:
        return np.asarray(work.kernel_rows * (whole_rows * of_row + parts * of_part))

    by_eights = worker(eights(work.kernel_columns), eights(cut))
    by_eights = np.where(inside == 8, 13 + by_eights, 25 + 2 * by_eights)
    by_fours = (19 if is_float else 18) + worker(fours(work.kernel_columns), fours(cut))
    inner = workers * np.where((inside >= 8) & (not is_float), by_eights, by_fours)

    elements = work.field * inside
    zeroing = 4 + -(-elements // (2 if is_float else 4))
    share = -(-elements // workers)
    vector_cycles = 7 + 2 * is_float + (2 if is_float else 1) * (workers - 1)
    reduction = 10 - is_float + vector_cycles * share // inside
    group = zeroing + 32 + work.in_groups * (24 + inner) + reduction
    return np.asarray(61 + 14 + 25 + is_float + group * work.groups)


def vertical_mac_workspace(work: Work, machine: Machine) -> Counts:
    """Return the size of the workers' partial sums for a block of groups, bytes.

    Parameters
    ----------
    work
        Shapes.
    machine
        Source of the worker contexts.

    Notes
    -----
    Source: poplin ConvVertices.cpp, the vertex's field of partials.
    """
    elements = work.field * work.groups_inside
    return np.asarray(machine.n_worker_contexts * elements * work.partial_bytes)
