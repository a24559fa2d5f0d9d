"""Groups of replicas, and which of them hold and return a variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from popart.arguments import (
    INT,
    Parameter,
    Signature,
    instance,
    match_call,
)
from popart.enums import CommGroupType, VariableRetrievalMode
from popart.errors import popart_exception, popart_internal_exception

__all__ = ["CommGroup", "ReplicaGrouping", "VariableSettings"]


class ReplicaGrouping:
    """Replicas in groups of one size, whose members are a stride apart."""

    def __init__(self, numReplicas: int, stride: int = 1, groupSize: int | None = None) -> None:
        size = numReplicas if groupSize is None else groupSize
        for what, value in (
            ("number of replicas", numReplicas),
            ("stride", stride),
            ("group size", size),
        ):
            if value <= 0:
                raise popart_exception(
                    f"The {what} in a `popart::ReplicaGrouping` must be a positive integer."
                )
        if numReplicas % (stride * size):
            raise popart_exception(
                "The number of replicas in a `popart::ReplicaGrouping` must be divisible by the"
                " product of the stride and the group size."
            )
        self._n_replicas, self._size = numReplicas, size
        self._stride = 1 if size == 1 else stride

    def getNumReplicas(self) -> int:
        """Return the number of replicas."""
        return self._n_replicas

    def getStride(self) -> int:
        """Return the distance of two members of a group."""
        return self._stride

    def getGroupSize(self) -> int:
        """Return the number of members of a group."""
        return self._size

    def getNumGroups(self) -> int:
        """Return the number of groups."""
        return self._n_replicas // self._size

    def getReplicaAt(self, group: int, index: int = 0) -> int:
        """Return a member of a group."""
        if not 0 <= group < self.getNumGroups() or not 0 <= index < self._size:
            raise popart_exception(f"The requested group or index is outside '{self}'.")
        block, place = divmod(group, self._stride)
        return block * self._stride * self._size + place + index * self._stride

    def getReplicasAt(self, group: int) -> list[int]:
        """Return the members of a group."""
        return [self.getReplicaAt(group, index) for index in range(self._size)]

    def __str__(self) -> str:
        return (
            f"ReplicaGrouping(numReplicas={self._n_replicas}, stride={self._stride},"
            f" groupSize={self._size})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGrouping) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class CommGroup:
    """A kind of groups of replicas, with the size of a group."""

    def __init__(
        self, type: CommGroupType | ReplicaGrouping = CommGroupType.All, replicaGroupSize: int = 0
    ) -> None:
        if isinstance(type, ReplicaGrouping):
            self.type, self.replicaGroupSize = _kind_of(type)
        else:
            self.type = instance(CommGroupType).convert(type)
            self.replicaGroupSize = INT.convert(replicaGroupSize)

    def toReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """Return the groups of a number of replicas."""
        if self.type is CommGroupType.All:
            return ReplicaGrouping(numReplicas)
        if self.type is CommGroupType.Ungrouped:
            return ReplicaGrouping(numReplicas, 1, 1)
        size = self.replicaGroupSize
        if size <= 0:
            raise popart_internal_exception(
                "Attempting to use 0 as a CommGroupSize, groups of type"
                f" {self.type.name} must have legal size.\n"
            )
        stride = 1 if self.type is CommGroupType.Consecutive else numReplicas // size
        return ReplicaGrouping(numReplicas, stride, size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommGroup) and (self.type, self.replicaGroupSize) == (
            other.type,
            other.replicaGroupSize,
        )

    def __hash__(self) -> int:
        return hash((self.type, self.replicaGroupSize))

    def __repr__(self) -> str:
        return f"CommGroup(type={self.type.name}, replicaGroupSize={self.replicaGroupSize})"


def _kind_of(grouping: ReplicaGrouping) -> tuple[CommGroupType, int]:
    size = grouping.getGroupSize()
    if size == 1:
        return CommGroupType.Ungrouped, 0
    if size == grouping.getNumReplicas():
        return CommGroupType.All, 0
    if grouping.getStride() == grouping.getNumGroups():
        return CommGroupType.Orthogonal, size
    if grouping.getStride() == 1:
        return CommGroupType.Consecutive, size
    raise popart_exception(f"The '{grouping}' cannot be converted to a `popart::CommGroup`.")


_GROUP = Parameter("sharedVariableDomain_", instance(CommGroup))
_MODE = Parameter("retrievalMode_", instance(VariableRetrievalMode))
_FORMS = (
    Signature(()),
    Signature((_GROUP,)),
    Signature((_MODE,)),
    Signature((_GROUP, _MODE)),
    Signature(
        (
            Parameter("stride", INT),
            Parameter("groupSize", INT),
            Parameter("mode", instance(VariableRetrievalMode), VariableRetrievalMode.OnePerGroup),
        )
    ),
)


class VariableSettings:
    """Which replicas share a variable, and which of them return it to the host.

    ``VariableSettings()``, ``VariableSettings(group)``, ``VariableSettings(mode)``,
    ``VariableSettings(group, mode)`` or ``VariableSettings(stride, groupSize, mode)``.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        form, bound = match_call("popart.VariableSettings", "__init__", _FORMS, arguments, named)
        self._group: CommGroup | None = None
        self._stride, self._size = bound.get("stride", 0), bound.get("groupSize", 0)
        if form < len(_FORMS) - 1:
            self._group = bound.get("sharedVariableDomain_", CommGroup())
            self._size = self._group.replicaGroupSize
        mode = bound.get("mode", bound.get("retrievalMode_", VariableRetrievalMode.OnePerGroup))
        self._mode: VariableRetrievalMode = mode
        self.verify()

    def verify(self) -> None:
        """Refuse settings that no number of replicas has, by `popart_internal_exception`."""
        if self._group is None:
            if self._stride <= 0 or self._size <= 0:
                raise popart_exception(
                    "The stride and the group size in a `popart::VariableSettings` must be"
                    " positive integers."
                )
            return
        sized = (CommGroupType.Consecutive, CommGroupType.Orthogonal)
        if self._group.type in sized and self._group.replicaGroupSize < 1:
            raise popart_internal_exception(
                f"Bad ReplicaGroupSize ({self._group.replicaGroupSize}) for domain type"
                f" ({self._group.type.name})!"
            )

    def getReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """Return the groups of a number of replicas."""
        if self._group is None:
            return ReplicaGrouping(numReplicas, self._stride, self._size)
        return self._group.toReplicaGrouping(numReplicas)

    def numReplicasReturningVariable(self, replicaCount: int) -> int:
        """Return how many of a number of replicas return the variable."""
        if self._mode is VariableRetrievalMode.AllReplicas:
            return replicaCount
        return self.getGroupCount(replicaCount)

    def getGroupCount(self, replicaCount: int) -> int:
        """Return the number of groups of a number of replicas."""
        return self.getReplicaGrouping(replicaCount).getNumGroups()

    def getRealGroupSize(self, replicaCount: int) -> int:
        """Return the size of a group of a number of replicas."""
        return self.getReplicaGrouping(replicaCount).getGroupSize()

    def getGroupRepresentative(self, group: int) -> int:
        """Return the first member of a group."""
        if self._group is None:
            return self.getReplicaGrouping(self._size * self._stride * (group + 1)).getReplicaAt(
                group
            )
        if self._group.type is CommGroupType.All:
            return 0
        is_consecutive = self._group.type is CommGroupType.Consecutive
        return group * self._group.replicaGroupSize if is_consecutive else group

    def getSharedVariableDomain(self) -> CommGroup:
        """Return the kind of groups that share the variable."""
        if self._group is None:
            raise popart_exception(
                "The variable settings were not initialised using a `popart::CommGroup` instance."
            )
        return self._group

    def isUsingCommGroup(self) -> bool:
        """Whether the groups were given as a `CommGroup`."""
        return self._group is not None

    def getCommGroupType(self) -> CommGroupType:
        """Return the kind of groups."""
        return CommGroupType.All if self._group is None else self._group.type

    def getStride(self) -> int:
        """Return the distance of two members of a group; 0 if a `CommGroup` was given."""
        return int(self._stride)

    def getGroupSize(self) -> int:
        """Return the size of a group as it was given."""
        return int(self._size)

    def getRetrievalMode(self) -> VariableRetrievalMode:
        """Return which replicas return the variable."""
        return self._mode

    def shapeOnReplica(
        self, full_shape: Sequence[int], replicaCount: int, name: str = ""
    ) -> list[int]:
        """Return the shape on a replica of a variable with a shape on the host."""
        n_returned = self.numReplicasReturningVariable(replicaCount)
        if n_returned == 1:
            return list(full_shape)
        if not full_shape or full_shape[0] != n_returned:
            raise popart_internal_exception(
                f'Return mismatch with possibly appended outer dimension of Tensor: "{name}":'
                f" got {list(full_shape)}, expected {n_returned} entries."
            )
        return list(full_shape[1:])

    def shapeOnHost(self, replica_shape: Sequence[int], replicaCount: int) -> list[int]:
        """Return the shape on the host of a variable with a shape on a replica."""
        n_returned = self.numReplicasReturningVariable(replicaCount)
        return list(replica_shape) if n_returned == 1 else [n_returned, *replica_shape]

    def groups(self, replicaCount: int) -> list[list[int]]:
        """Return the members of all groups."""
        grouping = self.getReplicaGrouping(replicaCount)
        return [grouping.getReplicasAt(group) for group in range(grouping.getNumGroups())]
