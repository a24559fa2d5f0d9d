"""Predicted cycles of an exchange."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine, tile_rows
from tilescope.engine.machine.exchange_law import bus_cycles

__all__ = ["exchange_cycles", "exchange_cycles_of_tiles"]


def exchange_cycles(
    own_bytes: NDArray[np.int64],
    paired_bytes: NDArray[np.int64],
    tiles_used: NDArray[np.int64],
    machine: Machine,
    fragments: NDArray[np.int64] | int = 0,
) -> NDArray[np.int64]:
    """Return the cycles of an exchange, its sync included: ndarray of int64.

    Parameters
    ----------
    own_bytes : ndarray of int64
        Bytes that the busiest tile receives on its own bus.
    paired_bytes : ndarray of int64
        Bytes that it receives together with the other tile of its pair.
    tiles_used : ndarray of int64
        Tiles that receive as much; they span several IPUs if one has fewer.
    machine
        Source of the rates and the fixed costs.
    fragments : ndarray of int64, or int
        Fragments received; a fragment costs a few instructions.

    Notes
    -----
    Assumption: the data is spread evenly over the n IPUs used, so that (n - 1) / n of it crosses
    links.
    """
    n_bytes = own_bytes + paired_bytes
    words = bus_cycles(own_bytes, machine, paired_bytes)
    words = np.maximum(words, fragments * machine.exchange_fragment_cycles)
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


def exchange_cycles_of_tiles(
    received_bytes: NDArray[np.int64],
    fragments: NDArray[np.int64],
    sent_bytes: NDArray[np.int64],
    machine: Machine,
) -> int:
    """Return the cycles of an exchange whose traffic is known tile by tile, its sync included.

    Parameters
    ----------
    received_bytes, fragments, sent_bytes : ndarray of int64, shape (n_tiles,)
        Traffic of every tile of the machine.
    machine
        Source of the rates and the fixed costs.

    Notes
    -----
    Exact on one IPU if no data is received in pairs. On several, as `exchange_cycles`.
    """
    if not received_bytes.any():
        return 0
    if machine.n_ipus > 1:
        moved = np.array([max(received_bytes.max(), sent_bytes.max())], np.int64)
        used = np.array([np.count_nonzero(received_bytes)])
        none = np.zeros_like(moved)
        return int(exchange_cycles(moved, none, used, machine, fragments.max(keepdims=True))[0])
    receiving = bus_cycles(received_bytes, machine)
    receiving = np.maximum(receiving, fragments * machine.exchange_fragment_cycles)
    sending = int(bus_cycles(sent_bytes.max(), machine))
    rows = tile_rows(machine.tiles_per_ipu, machine.exchange_rows)
    end_cycle = np.where(receiving > 0, receiving + machine.exchange_row_cycles * rows, 0)
    busiest = max(int(end_cycle.max()), sending)
    return machine.sync_cycles + machine.exchange_start_cycles + busiest
