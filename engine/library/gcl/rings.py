"""The rings around which parts travel between replicas, and how they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tilescope.engine.library.comm_group import CommGroup
from tilescope.engine.machine import Machine

__all__ = ["METHODS", "OPERATORS", "Ring", "method_of", "ring_members"]

#: How replicas combine their elements: the function of two, and whether there is another step.
#: Source: GCL's CollectiveOperator, as graphcore/poplibs has it in popops/CollectiveTypes.hpp.
OPERATORS = {
    "add": "add",
    "mean": "add",
    "square_add": "add",
    "mul": "multiply",
    "min": "minimum",
    "max": "maximum",
    "logical_and": "minimum",
    "logical_or": "maximum",
}

#: How parts travel.
METHODS = {
    "clockwise_ring": "to the next replica, in all but one steps",
    "anticlockwise_ring": "to the one before",
    "bidirectional_ring_pair": "one half of each to the next, the other half to the one before",
    "meet_in_middle_ring": "in both directions, each half of the way",
}


@dataclass(frozen=True)
class Ring:
    """The order in which the members of every group pass data on.

    Parameters
    ----------
    n_replicas
        All replicas.
    size, stride
        Members of a group, and their distance.
    is_interleaved
        Whether the ring goes up the members with even numbers and down the others, so that on a
        ladder no link goes back all the way; else by their numbers.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-1.4, lib/popops/ReplicatedCollectives.cpp, RingTopology:
    by numbers on a torus of replicas of several IPUs, interleaved otherwise.
    """

    n_replicas: int
    size: int
    stride: int
    is_interleaved: bool

    @classmethod
    def of(cls, machine: Machine, group: CommGroup) -> Ring:
        """Return the ring of every group of a machine's replicas.

        Raises
        ------
        BadGraph
            When the groups do not divide the replicas.
        """
        size, stride = group.grid(machine.n_replicas)
        is_flat = machine.link_topology == "torus" and machine.n_ipus > 1
        return cls(machine.n_replicas, size, stride, not is_flat)

    @cached_property
    def members(self) -> tuple[int, ...]:
        """Members of a group by their place in the ring."""
        return ring_members(self.size, is_interleaved=self.is_interleaved)

    def member(self, replica: int) -> int:
        """Return the number of a replica in its group."""
        return replica // self.stride % self.size

    def by_place(self, source: Callable[[int], int]) -> tuple[int, ...]:
        """Return, by replica, the one at another place of its ring.

        Parameters
        ----------
        source
            Returns the other place, of a place in the ring.
        """
        place = {member: place for place, member in enumerate(self.members)}
        sources = []
        for replica in range(self.n_replicas):
            member = self.member(replica)
            other = self.members[source(place[member]) % self.size]
            sources.append(replica + (other - member) * self.stride)
        return tuple(sources)


def ring_members(size: int, *, is_interleaved: bool) -> tuple[int, ...]:
    """Return the members of a ring by place: by number, or up the even ones and down the others."""
    if not is_interleaved:
        return tuple(range(size))
    return (*range(0, size, 2), *reversed(range(1, size, 2)))


def method_of(machine: Machine, ring: Ring, n_bytes: int, *, is_gather: bool) -> str:
    """Return how parts travel best.

    Parameters
    ----------
    machine
        The machine.
    ring
        The replicas.
    n_bytes
        Bytes that a replica contributes: all of what is reduced, or what it has to gather.
    is_gather
        Whether parts are gathered; else they are reduced.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-1.4, lib/popops/ReplicatedCollectives.cpp,
    pickReduceScatterMethod and pickAllGatherMethod, whose bounds were found by experiment.
    """
    if ring.size <= 2:
        return "clockwise_ring"
    if machine.n_ipus > 1:
        return "meet_in_middle_ring" if machine.link_topology == "torus" else "clockwise_ring"
    most = (622_592, 2_490_368, 19_922_944) if is_gather else (1_245_184, 4_980_736, 39_845_888)
    by_size = {2: most[0], 4: most[1], 8: most[2]}
    is_latency_bound = any(ring.size > size and n_bytes < limit for size, limit in by_size.items())
    if is_latency_bound or ring.size > 16:
        return "meet_in_middle_ring"
    return "bidirectional_ring_pair"
