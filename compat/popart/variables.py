"""Weights of which groups of replicas have contents of their own, by `VariableSettings`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from popart.builder import reserved
from popart.builder.tensor import array_of, initializer_of
from popart.enums import CommGroupType, VariableRetrievalMode
from popart.errors import popart_exception
from popart.names import reservedStepPrefix
from popart.optimizer_states import is_of_optimizer
from popart.options import SessionOptions
from popart.replicas import CommGroup, VariableSettings
from popart.replication import replicas_of
from tilescope.engine.ir import ReplicaGroup

__all__ = ["GroupedVariables"]

Array = NDArray[Any]


@dataclass(frozen=True)
class _Grouped:
    """A weight whose array on the host has a dimension for groups, or for replicas.

    Parameters
    ----------
    name
        Of the weight.
    shape
        On a replica.
    group
        The replicas that share it.
    n_replicas
        Of the session.
    is_returned_by_all
        Whether the host gets the array of every replica, not of the first of each group.
    """

    name: str
    shape: tuple[int, ...]
    group: ReplicaGroup
    n_replicas: int
    is_returned_by_all: bool

    @property
    def n_groups(self) -> int:
        """How many contents there are."""
        return self.n_replicas // self.group.size

    def of_replicas(self, whole: Array) -> list[Array]:
        """Return what each replica has of an array for groups, or for replicas.

        Raises
        ------
        popart_exception
            When it has another shape.
        """
        if self.n_groups == 1 and whole.shape == self.shape:
            return [whole] * self.n_replicas
        if whole.shape == (self.n_groups, *self.shape):
            return [whole[self.group.group_of(replica)] for replica in range(self.n_replicas)]
        if self.is_returned_by_all and whole.shape == (self.n_replicas, *self.shape):
            return [*whole]
        raise popart_exception(
            f"Weight {self.name} has a value for each of {self.n_groups} groups of replicas, of"
            f" shape {[*self.shape]}; its array has shape {[*whole.shape]}"
        )

    def returned(self, of_replicas: Sequence[Array]) -> Array:
        """Return the array of the host, from what all replicas have."""
        if self.is_returned_by_all:
            return np.stack(of_replicas)
        first = {self.group.group_of(r): r for r in reversed(range(self.n_replicas))}
        return np.stack([of_replicas[first[number]] for number in range(self.n_groups)])


@dataclass(frozen=True)
class GroupedVariables:
    """The weights that replicas do not all share, or that all of them return.

    Parameters
    ----------
    weights
        By name.
    """

    weights: Mapping[str, _Grouped]

    @classmethod
    def of(cls, proto: onnx.ModelProto, options: SessionOptions) -> GroupedVariables:
        """Return those of a model, as its builder states them.

        Raises
        ------
        popart_exception
            When groups do not divide the replicas, or an array has another number of entries than
            there are groups.
        """
        n_replicas = replicas_of(options)
        stated = {entry.key: entry.value for entry in proto.metadata_props}
        shapes = {
            info.name: tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
            for info in proto.graph.input
        }
        weights = {}
        for tensor in proto.graph.initializer if n_replicas > 1 else ():
            kind, size, mode = (
                int(stated.get(f"{key}/{tensor.name}", 0))
                for key in (
                    reserved.COMM_GROUP_TYPE,
                    reserved.COMM_GROUP_SIZE,
                    reserved.VARIABLE_SETTINGS,
                )
            )
            settings = VariableSettings(
                CommGroup(CommGroupType(kind), size), VariableRetrievalMode(mode)
            )
            if settings.numReplicasReturningVariable(n_replicas) == 1:
                continue
            grouping = settings.getReplicaGrouping(n_replicas)
            n_groups = grouping.getNumGroups()
            shape = shapes.get(tensor.name, tuple(tensor.dims))
            if n_groups > 1 and shape[:1] != (n_groups,):
                raise popart_exception(
                    f"Weight {tensor.name} has a value for each of {n_groups} groups of replicas:"
                    f" its array needs as many entries, and has shape {[*shape]}"
                )
            weights[tensor.name] = _Grouped(
                tensor.name,
                shape if n_groups == 1 else shape[1:],
                ReplicaGroup(grouping.getGroupSize(), grouping.getStride()),
                n_replicas,
                settings.getRetrievalMode() is VariableRetrievalMode.AllReplicas,
            )
        return cls(weights)

    @property
    def groups(self) -> dict[str, ReplicaGroup]:
        """The replicas that share a weight, by its name, where not all do."""
        return {name: own.group for name, own in self.weights.items() if own.n_groups > 1}

    def on_replica(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        """Return a model whose weights have the shapes and contents of the first replica.

        Raises
        ------
        popart_exception
            When an array has another shape than the model states.
        """
        if not self.weights:
            return proto
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        del copy.graph.value_info[:]  # of the shapes on the host
        for tensor in copy.graph.initializer:
            if tensor.name in self.weights:
                first = self.weights[tensor.name].of_replicas(array_of(tensor))[0]
                tensor.CopyFrom(initializer_of(first, tensor.name))
        for info in copy.graph.input:
            if info.name in self.weights:
                dims = info.type.tensor_type.shape
                del dims.dim[:]
                for size in self.weights[info.name].shape:
                    dims.dim.add(dim_value=size)
        return copy

    def find(self, name: str) -> _Grouped | None:
        """Return the weight of a name, or that which the optimizer keeps something of its shape of.

        None if all replicas share it and one returns it.
        """
        if name in self.weights:
            return self.weights[name]
        if not is_of_optimizer(name) or name.startswith(reservedStepPrefix()):
            return None
        return self.weights.get(name.partition("___")[2])
