"""Groups of replicas that hold the same content of a value."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReplicaGroup"]


@dataclass(frozen=True)
class ReplicaGroup:
    """Groups of replicas of one size, whose members are equally far apart.

    Parameters
    ----------
    size
        Replicas of a group.
    stride
        Distance of two neighbours in a group.
    """

    size: int
    stride: int = 1

    def member_of(self, replica: int) -> int:
        """Return which member of its group a replica is, from 0."""
        return replica % (self.size * self.stride) // self.stride

    def members_with(self, replica: int) -> list[int]:
        """Return the replicas of the group that a replica is in, in their order."""
        first = replica - self.member_of(replica) * self.stride
        return [first + member * self.stride for member in range(self.size)]

    def group_of(self, replica: int) -> int:
        """Return the number of the group that a replica is in."""
        block, place = divmod(replica, self.size * self.stride)
        return block * self.stride + place % self.stride
