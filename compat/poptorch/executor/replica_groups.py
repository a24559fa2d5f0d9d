"""Weights of which groups of replicas have values of their own: entries of the first dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from poptorch.enums import CommGroupType, VariableRetrievalMode
from poptorch.errors import createPoptorchError
from tilescope.engine.ir import ReplicaGroup

__all__ = ["GroupedWeights", "ReplicatedWeight", "grouped"]

Array = NDArray[Any]

#: Between the prefix of what an optimizer keeps and the name of its weight.
_BESIDE = "___"


class ReplicatedWeight:
    """A parameter of an executor's module.

    Parameters
    ----------
    name
        Its module path.
    parameter
        The parameter, whose attributes this has too.
    stated
        Where `replicaGrouping` puts what it is told, by name.
    """

    def __init__(self, name: str, parameter: Any, stated: dict[str, Any]) -> None:
        self._name, self._parameter, self._stated = name, parameter, stated

    def replicaGrouping(
        self,
        comm_group_type: CommGroupType,
        shards: int,
        variable_retrieval_mode: VariableRetrievalMode,
    ) -> None:
        """Let groups of replicas have values of their own, the entries of the first dimension.

        Parameters
        ----------
        comm_group_type
            Which replicas are a group.
        shards
            Replicas of a group.
        variable_retrieval_mode
            Which replicas the host gets the values of: one of each group.

        Raises
        ------
        Error
            When the host gets the values of all replicas.
        """
        kind = CommGroupType(comm_group_type)
        mode = VariableRetrievalMode(variable_retrieval_mode)
        if mode is VariableRetrievalMode.AllReplicas and kind is not CommGroupType.NoGrouping:
            raise createPoptorchError(
                f"Weight {self._name}: VariableRetrievalMode.AllReplicas is not supported; choose"
                " OnePerGroup, whose values are those of all replicas of the group"
            )
        self._stated[self._name] = (kind, shards)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parameter, name)


@dataclass(frozen=True)
class GroupedWeights:
    """The weights that replicas do not all share.

    Parameters
    ----------
    groups
        The replicas that share a value, by module path.
    n_replicas
        Of the model.
    """

    groups: Mapping[str, ReplicaGroup] = field(default_factory=dict)
    n_replicas: int = 1

    @contextmanager
    def on_first(self, module: torch.nn.Module) -> Iterator[None]:
        """Give a module the weights of the first replica, meanwhile."""
        before: list[tuple[torch.nn.Module, str, Any]] = []
        try:
            for path in self.groups:
                owner, _, name = path.rpartition(".")
                part = module.get_submodule(owner)
                parameter = part._parameters[name]
                assert parameter is not None
                before.append((part, name, parameter))
                part._parameters[name] = torch.nn.Parameter(
                    parameter.detach()[0], requires_grad=parameter.requires_grad
                )
            yield
        finally:
            for part, name, parameter in before:
                part._parameters[name] = parameter

    def find(self, name: str) -> ReplicaGroup | None:
        """Return the groups of a weight, or of the weight that an optimizer keeps something of."""
        return self.groups.get(name, self.groups.get(name.partition(_BESIDE)[2]))

    def of_replicas(self, group: ReplicaGroup, array: Array) -> list[Array]:
        """Return what every replica has of an array for groups."""
        return [array[group.group_of(replica)] for replica in range(self.n_replicas)]

    def of_groups(self, group: ReplicaGroup, arrays: Sequence[Array]) -> Array:
        """Return the array for groups, from what every replica has."""
        first = {group.group_of(replica): replica for replica in reversed(range(self.n_replicas))}
        return np.stack([arrays[first[number]] for number in sorted(first)])


def grouped(
    stated: Mapping[str, tuple[CommGroupType, int]], module: torch.nn.Module, n_replicas: int
) -> GroupedWeights:
    """Return the weights that replicas do not all share.

    Parameters
    ----------
    stated
        Kinds and sizes of groups, by module path.
    module
        The module.
    n_replicas
        Of the model.

    Raises
    ------
    Error
        When groups do not divide the replicas, or a weight has more or fewer values than groups.
    """
    weights = dict(module.named_parameters(remove_duplicate=False))
    groups = {}
    for path, (kind, shards) in stated.items():
        sizes = {CommGroupType.All: n_replicas, CommGroupType.NoGrouping: 1}
        size = sizes.get(kind, shards)
        if size < 1 or n_replicas % size:
            raise createPoptorchError(
                f"Weight {path}: groups of {size} replicas do not divide the {n_replicas} of"
                " Options.replicationFactor"
            )
        n_groups, shape = n_replicas // size, [*weights[path].shape]
        if not shape:
            raise createPoptorchError(
                "Scalars cannot be passed as per-replica weight tensor values"
            )
        if shape[0] != n_groups:
            raise createPoptorchError(
                f"Weight {path} has a value for each of {n_groups} groups of replicas: its first"
                f" dimension needs as many entries, and its shape is {shape}"
            )
        groups[path] = ReplicaGroup(size, n_groups if kind is CommGroupType.Orthogonal else 1)
    return GroupedWeights(groups, n_replicas)
