"""The law of the exchange: for how long bytes occupy a tile's bus.

Planner, library and compiler share it, so that another form of it is one edit. The rates come from
the machine's parameters, which name their sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tilescope.engine.machine.machine import Machine

__all__ = ["bus_cycles", "bus_time"]

Bytes = NDArray[np.int64] | NDArray[np.float64] | float


def bus_time(own_bytes: Bytes, machine: Machine, paired_bytes: Bytes = 0) -> NDArray[np.float64]:
    """Return how long bytes occupy the bus of a tile, cycles, not rounded: ndarray of float64.

    Parameters
    ----------
    own_bytes
        Bytes on the tile's own bus.
    machine
        Source of the rates.
    paired_bytes
        Bytes that both tiles of a pair receive together, on the buses of both.
    """
    own_time = own_bytes / machine.exchange_bytes_per_cycle
    return np.asarray(own_time + paired_bytes / machine.paired_exchange_bytes_per_cycle)


def bus_cycles(own_bytes: Bytes, machine: Machine, paired_bytes: Bytes = 0) -> NDArray[np.int64]:
    """Return the cycles that bytes occupy the bus of a tile, as `bus_time`: ndarray of int64."""
    return np.asarray(np.ceil(bus_time(own_bytes, machine, paired_bytes)).astype(np.int64))
