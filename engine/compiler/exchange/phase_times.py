"""What every tile does in an exchange, and when it has done it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine, tile_rows

__all__ = ["PhaseTimes"]


@dataclass(frozen=True)
class PhaseTimes:
    """A way to carry out an exchange: what every tile does, and when it has done it.

    Parameters
    ----------
    receiving, sending : ndarray of int64, shape (n_tiles,)
        Cycles in which a tile receives and sends.
    received_at, sent_at : ndarray of int64, shape (n_tiles,)
        Cycles from the first payload until it has received and sent all, 0 for nothing.
    paired_bytes : ndarray of int64, shape (n_tiles,), or 0
        Bytes that it receives together with the other tile of its pair.
    """

    receiving: NDArray[np.int64]
    sending: NDArray[np.int64]
    received_at: NDArray[np.int64]
    sent_at: NDArray[np.int64]
    paired_bytes: NDArray[np.int64] | int = 0

    def cycles(
        self, fragments: NDArray[np.int64], machine: Machine
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return every tile's busy cycles, and its finish time counted from the sync."""
        control = fragments * machine.exchange_fragment_cycles
        receiving = np.maximum(self.receiving, control)
        received_at = np.maximum(self.received_at, control)
        rows = np.tile(tile_rows(machine.tiles_per_ipu, machine.exchange_rows), machine.n_ipus)
        latency = machine.exchange_start_cycles + machine.exchange_row_cycles * rows
        end_cycle = np.maximum(
            np.where(receiving > 0, received_at + latency, 0),
            np.where(self.sending > 0, self.sent_at + machine.exchange_start_cycles, 0),
        )
        return np.maximum(receiving, self.sending), end_cycle
