"""Copies between replicas: what every tile sends and receives, and what the links carry."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.exchange.exchange import Exchange
from tilescope.engine.compiler.exchange.sends import Schedule
from tilescope.engine.compiler.executable.executable import ReplicaAccess
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.graph import ROOT, Variable, View
from tilescope.engine.graph.mapping.mapping import intervals_of
from tilescope.engine.machine import Machine, link_loads

__all__ = ["cross_replica_cost", "cross_replica_exchange"]


def cross_replica_exchange(access: ReplicaAccess) -> Exchange:
    """Return what a replica sends and receives: the tiles of fragments may be equal.

    All replicas do the same at once. Fragments are in the logical order of the tensors.
    """
    source, sender = intervals_of(access.source)
    target, receiver = intervals_of(access.target)
    n_parts = len(access.sources)
    parts = np.arange(n_parts) * (access.source.n_elements // n_parts)
    start = np.union1d(np.union1d(source, target), parts)
    length = np.diff(np.append(start, access.source.n_elements))
    of_sender = np.searchsorted(source, start, side="right") - 1
    of_receiver = np.searchsorted(target, start, side="right") - 1
    sent = _in_logical_order(access.source, source, sender)
    return Exchange(
        sender[of_sender].astype(np.int64),
        receiver[of_receiver].astype(np.int64),
        start,
        length,
        length * access.source.dtype.n_bytes,
        Addresses([sent]),
    )


def _in_logical_order(view: View, start: NDArray[np.int64], tile: NDArray[np.int32]) -> Variable:
    """Return a variable whose elements are those of a view, for their places on the tiles."""
    variable = Variable(0, "sent", view.dtype, view.shape or (1,), ROOT)
    variable.set_mapping(start, tile)
    return variable


def cross_replica_cost(
    exchange: Exchange, schedule: Schedule, access: ReplicaAccess, machine: Machine
) -> StepCost:
    """Return the cost of the phase for one replica; it is the same for all of them.

    Parameters
    ----------
    exchange, schedule
        What a replica sends, and when.
    access
        The copy.
    machine
        Source of the rates and the fixed costs.

    Notes
    -----
    The phase ends when the last tile of any replica has received and sent all, and the busiest link
    of the system has carried its bytes: links are shared by all replicas. Replicas follow each
    other in the numbers of the system's IPUs.
    """
    n_ipus = machine.n_ipus
    columns = exchange.cost(machine, schedule)
    sending, receiving = (
        tiles // machine.tiles_per_ipu for tiles in (exchange.sender, exchange.receiver)
    )
    part = exchange.start // (access.source.n_elements // len(access.sources))
    n_system = machine.n_system_ipus
    traffic = np.zeros((n_system, n_system), np.int64)
    link_out, link_in = np.zeros(n_ipus, np.int64), np.zeros(n_ipus, np.int64)
    for number, sources in enumerate(access.sources):
        is_here = part == number
        pairs = sending[is_here] * n_ipus + receiving[is_here]
        n_bytes = np.bincount(pairs, exchange.n_bytes[is_here], n_ipus * n_ipus)
        between = n_bytes.astype(np.int64).reshape(n_ipus, n_ipus)
        for target, source in enumerate(sources):
            rows = slice(source * n_ipus, (source + 1) * n_ipus)
            traffic[rows, target * n_ipus : (target + 1) * n_ipus] += between
        if sources != tuple(range(machine.n_replicas)):
            link_out += between.sum(axis=1)
            link_in += between.sum(axis=0)
    slowest = max(
        (
            ceil(carried / machine.bundle_bytes_per_cycle(link.kind))
            for link, carried in link_loads(traffic, machine.link_topology).items()
        ),
        default=0,
    )
    if slowest:
        slowest += machine.link_start_cycles
    of_tiles = int(columns.cycles.max())
    return StepCost.of(
        machine,
        "external",
        cycles=np.full(n_ipus, max(of_tiles, slowest)),
        tile_cycles=columns.tile_cycles.dense(),
        sent_bytes=columns.sent_bytes.dense(),
        received_bytes=columns.received_bytes.dense(),
        fragments=columns.fragments.dense(),
        link_out_bytes=link_out,
        link_in_bytes=link_in,
    )
