"""What the planner expects an exchange to take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine

__all__ = ["exchange_cycles"]


def exchange_cycles(
    own_bytes: NDArray[np.int64],
    paired_bytes: NDArray[np.int64],
    tiles_used: NDArray[np.int64],
    machine: Machine,
    pieces: NDArray[np.int64] | int = 0,
) -> NDArray[np.int64]:
    """Return the cycles of an exchange, its sync included: ndarray of int64.

    Parameters
    ----------
    own_bytes : ndarray of int64
        What the busiest tile receives by itself, bytes.
    paired_bytes : ndarray of int64
        What it receives together with the other tile of its pair, bytes.
    tiles_used : ndarray of int64
        Tiles that receive as much; more than an IPU has lie on several.
    machine
        Gives the rates and the fixed costs.
    pieces : ndarray of int64, or int
        Pieces that it comes in: each takes a few instructions.

    Notes
    -----
    Assumption: what is exchanged lies evenly over the IPUs used, so that all but one part in their
    number crosses links.
    """
    n_bytes = own_bytes + paired_bytes
    words = own_bytes / machine.exchange_bytes_per_cycle
    words = np.ceil(words + paired_bytes / machine.paired_exchange_bytes_per_cycle).astype(np.int64)
    words = np.maximum(words, pieces * machine.exchange_fragment_cycles)
    cycles = machine.sync_cycles + machine.latest_start_cycles + words
    n_ipus = -(-tiles_used // machine.tiles_per_ipu)
    if (n_ipus > 1).any():
        crossing = n_bytes * tiles_used / n_ipus * (1 - 1 / n_ipus)
        on_links = crossing / machine.bundle_bytes_per_cycle("pair")
        fixed = machine.external_sync_cycles + machine.latest_start_cycles
        fixed += machine.link_start_cycles
        across = fixed + np.maximum(words, np.ceil(on_links)).astype(np.int64)
        cycles = np.where(n_ipus > 1, across, cycles)
    return np.where(n_bytes > 0, cycles, 0)
