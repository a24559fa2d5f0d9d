"""Exchange, inferred: what vertices use but their tile does not hold has to come or go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from engine.compiler.executable import StepCost
from engine.compiler.kernels.intervals import expand_runs, join_runs, split_by_owner
from engine.graph import ComputeSet, Graph
from engine.machine import Machine, link_loads

__all__ = ["Addresses", "Exchange", "exchange_of"]


class Addresses:
    """Numbers for all elements of all variables, and which tile owns each.

    Parameters
    ----------
    base : ndarray of int64, shape (n_variables + 1,)
        Number of each variable's element 0.
    map_start, map_tile : ndarray of int64
        Mapped intervals in that numbering.
    """

    def __init__(self, graph: Graph) -> None:
        sizes = np.array([v.n_elements for v in graph.variables], dtype=np.int64)
        self.base = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self.item_bytes = np.array([v.dtype.n_bytes for v in graph.variables], dtype=np.int64)
        self.map_start = np.concatenate(
            [v.map_start + b for v, b in zip(graph.variables, self.base, strict=False)]
            or [np.zeros(0, np.int64)]
        )
        self.map_tile = np.concatenate(
            [v.map_tile for v in graph.variables] or [np.zeros(0, np.int32)]
        ).astype(np.int64)

        self._first_byte = np.concatenate(
            [np.zeros(1, np.int64), np.cumsum(sizes * self.item_bytes)]
        )

    def bytes_before(self, element: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of all elements before each: ndarray of int64."""
        variable = np.minimum(self.variable_of(element), self.item_bytes.size - 1)
        inside = (element - self.base[variable]) * self.item_bytes[variable]
        before: NDArray[np.int64] = self._first_byte[variable] + inside
        return before

    def variable_of(self, element: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the variable of each element: ndarray of int64."""
        return np.searchsorted(self.base, element, side="right") - 1


@dataclass(frozen=True)
class Exchange:
    """Pieces that go from tile to tile in one phase.

    Parameters
    ----------
    sender, receiver : ndarray of int64, shape (n_pieces,)
        Tiles.
    start, length : ndarray of int64, shape (n_pieces,)
        Elements.
    n_bytes : ndarray of int64, shape (n_pieces,)
        Size on the device.
    """

    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    n_bytes: NDArray[np.int64]
    addresses: Addresses

    @property
    def is_empty(self) -> bool:
        """Whether nothing moves."""
        return self.sender.size == 0

    def received(self, n_tiles: int) -> NDArray[np.int64]:
        """Bytes each tile receives: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.receiver, self.n_bytes, n_tiles).astype(np.int64)

    def fragments(self, n_tiles: int) -> NDArray[np.int64]:
        """Pieces each tile receives: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.receiver, minlength=n_tiles)

    def sent(self, n_tiles: int) -> NDArray[np.int64]:
        """Bytes each tile sends, to however many receivers: ndarray of int64, shape (n_tiles,).

        An element that several tiles receive is sent once: the exchange is a multicast.
        """
        order = np.argsort(self.start, kind="stable")
        tile, start, length = join_runs(self.sender[order], self.start[order], self.length[order])
        n_bytes = self.addresses.bytes_before(start + length) - self.addresses.bytes_before(start)
        return np.bincount(tile, n_bytes, n_tiles).astype(np.int64)

    def cost(self, machine: Machine) -> StepCost:
        """Return what the phase costs: the busiest endpoint at the exchange's rate."""
        n_tiles, n_ipus = machine.n_tiles, machine.n_ipus
        cost = StepCost.nothing(machine)
        cost.sent_bytes = self.sent(n_tiles)
        cost.received_bytes = self.received(n_tiles)
        cost.fragments = self.fragments(n_tiles)
        busiest = np.maximum(cost.sent_bytes, cost.received_bytes)
        words = np.ceil(busiest / machine.exchange_bytes_per_cycle).astype(np.int64)
        cost.tile_cycles = np.maximum(words, cost.fragments * machine.exchange_fragment_cycles)
        by_ipu = cost.tile_cycles.reshape(n_ipus, -1).max(axis=1)
        cost.cycles = np.where(by_ipu > 0, by_ipu + machine.exchange_start_cycles, 0)
        cost.sync_zone = "internal"
        self._charge_links(cost, machine)
        return cost

    def _charge_links(self, cost: StepCost, machine: Machine) -> None:
        """Charge what crosses IPUs to every link on its route; the phase waits for the slowest."""
        if machine.n_ipus == 1:
            return
        source = self.sender // machine.tiles_per_ipu
        target = self.receiver // machine.tiles_per_ipu
        crosses = source != target
        if not crosses.any():
            return
        # To one IPU an element goes once, however many of its tiles receive it.
        pair = source * machine.n_ipus + target
        pair, start, length = join_runs(pair[crosses], self.start[crosses], self.length[crosses])
        n_bytes = self.addresses.bytes_before(start + length) - self.addresses.bytes_before(start)
        n_ipus = machine.n_ipus
        cost.link_out_bytes = np.bincount(pair // n_ipus, n_bytes, n_ipus).astype(np.int64)
        cost.link_in_bytes = np.bincount(pair % n_ipus, n_bytes, n_ipus).astype(np.int64)
        traffic = np.bincount(pair, n_bytes, n_ipus * n_ipus).astype(np.int64)
        loads = link_loads(traffic.reshape(n_ipus, n_ipus), machine.link_topology)
        slowest = max(
            ceil(carried / machine.bundle_bytes_per_cycle(link.kind))
            for link, carried in loads.items()
        )
        cost.cycles = np.full(n_ipus, max(int(cost.cycles.max()), slowest))
        cost.sync_zone = "external"


def exchange_of(
    compute_sets: Iterable[ComputeSet], addresses: Addresses, *, is_input: bool
) -> Exchange:
    """Return the exchange before (inputs) or after (outputs) compute sets.

    Parameters
    ----------
    compute_sets
        Those that run in one phase.
    addresses
        Who owns which element.
    is_input
        Whether to look at what vertices read or at what they write.
    """
    runs = []
    for compute_set in compute_sets:
        for batch in compute_set.batches:
            for field in batch.codelet.fields:
                if field.is_read if is_input else field.is_written:
                    regions = batch.fields[field.name]
                    base = int(addresses.base[regions.variable.variable_id])
                    runs.append(
                        expand_runs(regions.start, regions.size, regions.stride, batch.tile, base)
                    )
    empty = np.zeros(0, np.int64)
    tile, start, length = (
        (np.concatenate(columns) for columns in zip(*runs, strict=True))
        if runs
        else (empty, empty, empty)
    )
    tile, start, length = join_runs(tile, start, length)
    owner, user, start, length = split_by_owner(
        tile, start, length, addresses.map_start, addresses.map_tile
    )
    n_bytes = length * addresses.item_bytes[addresses.variable_of(start)]
    sender, receiver = (owner, user) if is_input else (user, owner)
    return Exchange(sender, receiver, start, length, n_bytes, addresses)
