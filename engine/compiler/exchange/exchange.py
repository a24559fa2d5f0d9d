"""Inferred exchange: what vertices use but their tile does not hold is received or sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.exchange.phase_times import PhaseTimes
from tilescope.engine.compiler.exchange.sends import Parts, Schedule, Sends
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.compiler.kernels.pairs import split_by_pair
from tilescope.engine.graph import ComputeSet, Regions
from tilescope.engine.intervals.runs import (
    join_ordered_runs,
    join_runs,
    order_by_tile,
    split_by_owner,
    union_runs,
)
from tilescope.engine.machine import Machine, link_loads, partners
from tilescope.engine.machine.exchange_law import bus_cycles

__all__ = ["Exchange", "accessed", "exchange_of"]

#: The exchange moves words of this many bytes.
_WORD_BYTES = 4


@dataclass(frozen=True)
class Exchange:
    """The fragments sent from tile to tile in one phase.

    Parameters
    ----------
    sender, receiver : ndarray of int64, shape (n_fragments,)
        Tiles.
    start, length : ndarray of int64, shape (n_fragments,)
        Elements.
    n_bytes : ndarray of int64, shape (n_fragments,)
        Size on the device.
    addresses
        The variables of the elements, and where they lie.
    """

    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    n_bytes: NDArray[np.int64]
    addresses: Addresses

    @cached_property
    def variable(self) -> NDArray[np.int64]:
        """Number of each fragment's variable: ndarray of int64, shape (n_fragments,)."""
        return self.addresses.variable_of(self.start)

    @property
    def is_empty(self) -> bool:
        """Whether nothing moves."""
        return self.sender.size == 0

    def received(self, n_tiles: int) -> NDArray[np.int64]:
        """Bytes each tile receives: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.receiver, self.n_bytes, n_tiles).astype(np.int64)

    def fragments(self, n_tiles: int) -> NDArray[np.int64]:
        """Fragments each tile receives: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.receiver, minlength=n_tiles)

    def sent(self, n_tiles: int) -> NDArray[np.int64]:
        """Bytes each tile sends, whatever the number of receivers: ndarray of int64, (n_tiles,).

        An element that several tiles receive is sent once: the exchange multicasts.
        """
        tile, start, length = self.sent_runs
        return np.bincount(tile, self.addresses.bytes_of(start, length), n_tiles).astype(np.int64)

    def cost(self, machine: Machine, schedule: Schedule) -> StepCost:
        """Return the cost of the phase: when the last tile has received and sent all.

        Parameters
        ----------
        machine
            Source of the rates and the fixed costs.
        schedule
            That of this exchange.

        Notes
        -----
        Tiles send by a schedule, in which no tile sends or receives two things at a time; the IPU
        Model counts the bytes of the busiest tile instead.
        Data that both tiles of a pair receive arrives over their shared bus at double rate, in
        items of two contiguous words; the sender then also uses its partner's lane. Data that goes
        to pairs and to single tiles is then sent twice. A phase uses paired transfers where that
        makes it shorter.
        Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ExchangeEstimator.hpp (shared bus);
        osmarks/ipu-stack, EXCHANGE_INSTRUCTION_REFERENCE (64-bit items, the partner's lane).
        """
        n_ipus = machine.n_ipus
        fragments = self.fragments(machine.n_tiles)
        received, sent = self.received(machine.n_tiles), self.sent(machine.n_tiles)
        cycles_one_by_one = _one_by_one(received, sent, machine, schedule)
        cycles = cycles_one_by_one.cycles(fragments, machine)
        paired_bytes = np.zeros(machine.n_tiles, np.int64)
        if machine.paired_exchange_bytes_per_cycle > machine.exchange_bytes_per_cycle:
            in_pairs = self._in_pairs(machine)
            if in_pairs is not None:
                paired = in_pairs.cycles(fragments, machine)
                # Each IPU chooses on its own: its phases last as long as its latest tile.
                alone_by_ipu, paired_by_ipu = (
                    end_cycle.reshape(n_ipus, -1).max(axis=1) for _, end_cycle in (cycles, paired)
                )
                takes_pairs = np.repeat(paired_by_ipu < alone_by_ipu, machine.tiles_per_ipu)
                paired_bytes = np.where(takes_pairs, in_pairs.paired_bytes, 0)
                cycles = (
                    np.where(takes_pairs, paired[0], cycles[0]),
                    np.where(takes_pairs, paired[1], cycles[1]),
                )
        phase = {
            "cycles": cycles[1].reshape(n_ipus, -1).max(axis=1),
            "tile_cycles": cycles[0],
            "sent_bytes": sent,
            "received_bytes": received,
            "paired_bytes": paired_bytes,
            "fragments": fragments,
        }
        links = self._link_columns(int(phase["cycles"].max()), machine)
        if links is None:
            return StepCost.of(machine, "internal", **phase)
        return StepCost.of(machine, "external", **{**phase, **links})

    def _in_pairs(self, machine: Machine) -> PhaseTimes | None:
        """Return the way in which pairs receive together what both tiles need.

        None where no pair shares data, so paired transfers cannot be faster.
        """
        if not self.is_multicast:
            return None
        n_tiles = machine.n_tiles
        partner = partners(n_tiles, machine.tiles_per_ipu)
        order, sender, receiver = self.in_order
        is_near = np.ones(sender.size, np.bool_)
        if machine.n_ipus > 1:
            is_near = sender // machine.tiles_per_ipu == receiver // machine.tiles_per_ipu
        fragment, start, length, is_shared = split_by_pair(
            receiver, self.start[order], self.length[order], partner, is_near
        )
        if not is_shared.any():
            return None
        n_bytes = self.addresses.bytes_of(start, length)
        sender, receiver = sender[fragment], receiver[fragment]
        # Both tiles of a pair receive single words that they share, each by itself.
        pair = is_shared & (n_bytes >= 2 * _WORD_BYTES)
        twice = np.flatnonzero(is_shared & ~pair)
        alone = np.concatenate([np.flatnonzero(~pair), twice])
        receiver_alone = receiver[alone]
        receiver_alone[alone.size - twice.size :] = partner[receiver[twice]]
        received = np.bincount(receiver_alone, n_bytes[alone], n_tiles)
        shared = np.bincount(receiver[pair], n_bytes[pair], n_tiles)
        shared += np.bincount(partner[receiver[pair]], n_bytes[pair], n_tiles)
        sent = self._bytes_of_union(sender[alone], start[alone], length[alone], n_tiles)
        wide = self._bytes_of_union(sender[pair], start[pair], length[pair], n_tiles)
        # A sender of double words uses its partner's lane, so each of the two waits for both.
        wide = wide + np.where(partner >= 0, wide[partner], 0)
        receiving = bus_cycles(received, machine, shared)
        sending = bus_cycles(sent, machine, wide)
        paired_bytes = shared.astype(np.int64)
        if not machine.exchange_is_scheduled:
            return PhaseTimes(receiving, sending, receiving, sending, paired_bytes)
        columns = sender, receiver, start, length, n_bytes
        wide_parts = Parts.of(*(column[pair] for column in columns))
        sender, _, start, length, n_bytes = (column[alone] for column in columns)
        narrow = Sends.of(Parts.of(sender, receiver_alone, start, length, n_bytes), machine)
        of_pairs = Sends.of(wide_parts, machine, partner)
        schedule = Schedule.of(narrow.and_then(of_pairs), n_tiles)
        ends = schedule.received_at, schedule.sent_at
        return PhaseTimes(receiving, sending, *ends, paired_bytes)

    def schedule(self, machine: Machine) -> Schedule:
        """Return when everything is sent, if no data is received in pairs."""
        sends = self.by_sender
        parts = Parts.of_ordered(
            sends.sender, sends.receiver, sends.start, sends.length, sends.n_bytes
        )
        return Schedule.of(Sends.of(parts, machine), machine.n_tiles)

    @cached_property
    def in_order(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the order by receiver and start, with the senders and receivers sorted by it."""
        order = order_by_tile(self.receiver, self.start)  # a tile receives an element once
        return order, self.sender[order], self.receiver[order]

    @cached_property
    def by_sender(self) -> Exchange:
        """The same fragments by sender and start."""
        order = order_by_tile(self.sender, self.start)
        return Exchange(
            self.sender[order],
            self.receiver[order],
            self.start[order],
            self.length[order],
            self.n_bytes[order],
            self.addresses,
        )

    @cached_property
    def sent_runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """What tiles send, overlaps once: tile, start and length, by tile and start."""
        sends = self.by_sender
        return join_ordered_runs(sends.sender, sends.start, sends.length)

    @property
    def is_multicast(self) -> bool:
        """Whether several tiles receive an element; its sender is the one tile that holds it."""
        return int(self.sent_runs[2].sum()) < int(self.length.sum())

    def _bytes_of_union(
        self,
        tile: NDArray[np.int64],
        start: NDArray[np.int64],
        length: NDArray[np.int64],
        n_tiles: int,
    ) -> NDArray[np.int64]:
        """Return the bytes of each tile's runs, counting overlaps once."""
        tile, start, length = join_runs(tile, start, length)
        n_bytes = self.addresses.bytes_of(start, length)
        return np.bincount(tile, n_bytes, n_tiles).astype(np.int64)

    def _link_columns(
        self, tile_phase_cycles: int, machine: Machine
    ) -> dict[str, NDArray[np.int64]] | None:
        """Return cycles and link bytes by IPU, charging every link on a route; None for one IPU.

        The phase waits for the slowest link as it does for the busiest tile of any IPU.
        """
        if machine.n_ipus == 1:
            return None
        source = self.sender // machine.tiles_per_ipu
        target = self.receiver // machine.tiles_per_ipu
        crosses = source != target
        if not crosses.any():
            return None
        # An element is sent to an IPU once, however many of its tiles receive it.
        pair = source * machine.n_ipus + target
        pair, start, length = join_runs(pair[crosses], self.start[crosses], self.length[crosses])
        n_bytes = self.addresses.bytes_of(start, length)
        n_ipus = machine.n_ipus
        traffic = np.bincount(pair, n_bytes, n_ipus * n_ipus).astype(np.int64)
        loads = link_loads(traffic.reshape(n_ipus, n_ipus), machine.link_topology)
        slowest = max(
            ceil(carried / machine.bundle_bytes_per_cycle(link.kind))
            for link, carried in loads.items()
        )
        slowest += machine.link_start_cycles
        return {
            "cycles": np.full(n_ipus, max(tile_phase_cycles, slowest)),
            "link_out_bytes": np.bincount(pair // n_ipus, n_bytes, n_ipus).astype(np.int64),
            "link_in_bytes": np.bincount(pair % n_ipus, n_bytes, n_ipus).astype(np.int64),
        }


def _one_by_one(
    received: NDArray[np.int64], sent: NDArray[np.int64], machine: Machine, schedule: Schedule
) -> PhaseTimes:
    """Return the way to send every fragment to single tiles, from the bytes of every tile."""
    receiving, sending = bus_cycles(received, machine), bus_cycles(sent, machine)
    if not machine.exchange_is_scheduled:
        return PhaseTimes(receiving, sending, receiving, sending)
    return PhaseTimes(receiving, sending, schedule.received_at, schedule.sent_at)


def accessed(
    compute_sets: Iterable[ComputeSet], *, is_input: bool
) -> Iterator[tuple[str, NDArray[np.int32], Regions]]:
    """Yield the regions that vertices read, or those that they write.

    Parameters
    ----------
    compute_sets
        The compute sets of the vertices.
    is_input
        Whether to yield what they read.

    Returns
    -------
    iterator
        A description of the vertices, their tiles, and their regions of one field.
    """
    for compute_set in compute_sets:
        for batch in compute_set.batches:
            where = f"{batch.codelet.name} in {compute_set.name!r}"
            for field in batch.codelet.fields:
                if field.is_read if is_input else field.is_written:
                    yield where, batch.tile, batch.fields[field.name]


def exchange_of(
    compute_sets: Iterable[ComputeSet], addresses: Addresses, *, is_input: bool
) -> Exchange:
    """Return the exchange before compute sets (their inputs) or after them (their outputs).

    Parameters
    ----------
    compute_sets
        The compute sets that run in one phase.
    addresses
        The owner of each element.
    is_input
        Whether to use what vertices read instead of what they write.

    Raises
    ------
    RunFailed
        When the fragments do not fit into the host's memory.
    """
    compute_sets = list(compute_sets)
    runs = []
    for vertices, tile_of_vertex, r in accessed(compute_sets, is_input=is_input):
        tiles, base = r.by_region(tile_of_vertex), addresses.base_of(r.variable)
        runs.append(union_runs(r.start, r.size, r.stride, tiles, base, f"Vertices of {vertices}"))
    empty = np.zeros(0, np.int64)
    tile, start, length = (
        (np.concatenate(columns) for columns in zip(*runs, strict=True))
        if runs
        else (empty, empty, empty)
    )
    if len(runs) > 1:  # those of one field are joined
        tile, start, length = join_runs(tile, start, length)
    where = f"Vertices in {', '.join(repr(compute_set.name) for compute_set in compute_sets)}"
    owner, user, start, length = split_by_owner(
        tile, start, length, addresses.map_start, addresses.map_tile, where
    )
    n_bytes = length * addresses.item_bytes[addresses.variable_of(start)]
    sender, receiver = (owner, user) if is_input else (user, owner)
    return Exchange(sender, receiver, start, length, n_bytes, addresses)
