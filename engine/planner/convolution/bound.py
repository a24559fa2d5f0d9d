"""Lower bounds of the costs of splits, from the sizes of their parts alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.planner.convolution.traffic import Traffic
from tilescope.engine.planner.families import Family

__all__ = ["least_bytes_of_sums", "least_compute_cycles", "least_costs"]


def least_compute_cycles(family: Family, splits: Splits, machine: Machine) -> NDArray[np.float64]:
    """Return a lower bound of the cycles: the multiplications of the largest part at full rate.

    Parameters
    ----------
    family, splits, machine
        As for `tilescope.engine.planner.convolution.cost.cost_of`.
    """
    grouping = splits.grouping
    grain = grouping.groups * grouping.inputs * grouping.outputs
    products = splits.serial.n_parts * grain * splits.largest().prod(axis=1)
    return np.asarray(products / family.most_products(splits.shape, grouping, machine))


def least_bytes_of_sums(splits: Splits) -> NDArray[np.int64]:
    """Return a lower bound of the temporary memory: partial sums, and results of serial parts.

    Parameters
    ----------
    splits
        The splits.
    """
    shape, serial, largest = splits.shape, splits.serial, splits.most
    sums = largest.groups * largest.batch * largest.rows * largest.columns * largest.outputs
    sums = sums * splits.grouping.groups * splits.grouping.outputs
    is_reduced = splits.n_partials > 1
    n_bytes = np.where(is_reduced, 2, 1) * sums * shape.partial_bytes
    if serial.n_parts > 1:
        n_bytes += serial.outputs * (sums // splits.n_partials * shape.result_bytes)
    return np.asarray(n_bytes)


def least_costs(
    family: Family, splits: Splits, machine: Machine
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return lower bounds of temporary memory and cycles: operands and their exchange as well.

    Parameters
    ----------
    family, splits, machine
        As for `tilescope.engine.planner.convolution.cost.cost_of`.
    """
    traffic = Traffic.of(splits, machine)
    start = machine.sync_cycles + machine.latest_start_cycles
    exchanged = traffic.least_cycles(machine)
    exchanged += start * ((exchanged > 0).astype(np.int64) + (splits.n_partials > 1))
    cycles = least_compute_cycles(family, splits, machine) + splits.serial.n_parts * exchanged
    return traffic.held_bytes + least_bytes_of_sums(splits), cycles
