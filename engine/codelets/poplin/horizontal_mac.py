"""Cycle law of the horizontal MAC: dot products over the inputs of one output at a time.

Source: graphcore/poplibs sdk-release-3.4 (7eac0f2), lib/poplin/PerformanceEstimation.hpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.codelets.poplin.work import Counts, Work, row_shares, zeroing_cycles

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["horizontal_mac_cycles", "horizontal_mac_products"]


def horizontal_mac_products(
    inputs: int, item_bytes: int, partial_bytes: int, machine: Machine
) -> float:
    """Return an upper bound of the law's multiplications per cycle: the rate of its dot products.

    Parameters
    ----------
    inputs
        Input channels per group.
    item_bytes, partial_bytes
        Size of an input and of a partial sum.
    machine
        Source of the data path.
    """
    at_once = 2 if partial_bytes == 2 else 1
    cycles = _dot_product(np.array([inputs]), item_bytes, partial_bytes, machine)
    return at_once * inputs / int(cycles[0])


def _dot_product(inputs: Counts, item_bytes: int, partial_bytes: int, machine: Machine) -> Counts:
    """Return the cycles of a dot product over a group's inputs: two at once for half sums.

    Source: getDenseDotProductCycles. Vectors are as wide as divides the inputs. If they are
    narrower than the data path, activations and weights are loaded separately.
    """
    is_float = item_bytes == 4
    is_half_out = partial_bytes == 2
    at_once = 2 if is_half_out else 1
    fixed = 3 * at_once + is_half_out + 3 + 1 - (not is_float)
    widest = machine.data_path_bytes // item_bytes
    cycles = fixed + at_once + 2 * inputs
    width = 2
    while width <= widest:
        is_wide = width == widest
        wider = fixed + (0 if is_wide else at_once) + inputs // width * (1 if is_wide else 2)
        cycles = np.where(inputs % width == 0, wider, cycles)
        width *= 2
    return np.asarray(cycles)


def horizontal_mac_cycles(work: Work, machine: Machine) -> Counts:
    """Return a tile's cycles for a convolution by dot products on the vector unit.

    Parameters
    ----------
    work
        Shapes; groups of one output, or of two for half sums.
    machine
        Source of the worker contexts and the data path.

    Notes
    -----
    Source: getConvPartialHorizontalMacSupervisorCycleEstimate,
    estimateConvPartialHorizontalMacInnerLoopCycles and, for the zeroing,
    getZeroSupervisorVertexCycleEstimate.
    """
    workers = machine.n_worker_contexts
    is_float, is_float_out = work.item_bytes == 4, work.partial_bytes == 4
    # Halves summed in float have a shorter path for one row and a kernel of one element.
    is_short = (work.kernel == 1) & (work.images * work.rows == 1) & (is_float_out > is_float)
    outputs = work.outputs if is_float_out else -(-work.outputs // 2)
    dot = _dot_product(work.inputs, work.item_bytes, work.partial_bytes, machine)
    whole_rows, parts, cut = row_shares(work.images * work.rows, work.columns, workers)

    def row(n: Counts) -> Counts:
        """Cycles of a row, or part of a row, of n elements."""
        usual = 19 + n * (7 + outputs * dot)
        short = np.where(outputs == 1, 14 + n * (2 + dot), 13 + n * (7 + outputs * dot))
        return np.asarray(np.where(is_short, short, usual))

    # A worker's parts of rows form one worklist entry.
    rows = whole_rows * row(work.columns) + np.where(parts > 0, row(parts * cut), 0)
    saved = np.where(is_short, 15, 0 if is_float else 6)
    inner = workers * (work.kernel * (16 - saved + rows) + 16)
    zero_saved = 9 if is_float_out else 10
    retained = np.where(is_short, 15, 0 if is_float_out else 6)
    fixed = (58 if is_float else 65) - 10 * is_short + workers * (zero_saved + retained)
    loops = 23 + work.in_groups * (15 + work.out_groups * (10 + inner))
    is_written = is_short & (work.in_groups == 1) & (work.outputs == 1)
    zeroing = zeroing_cycles(work, workers, machine.data_path_bytes)
    return np.asarray(fixed + work.groups * loops + np.where(is_written, 0, zeroing))
