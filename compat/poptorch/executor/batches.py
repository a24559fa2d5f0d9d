"""Batches of a call: cut for the micro-batches of the device, and joined as options ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from poptorch.enums import CommGroupType, OutputMode
from poptorch.options import Options

__all__ = ["BatchPlan", "by_name", "joined"]

Array = NDArray[Any]


@dataclass(frozen=True)
class BatchPlan:
    """How often the device computes in a call.

    Parameters
    ----------
    n_iterations
        Runs, or steps of the optimizer.
    n_rounds
        Micro-batches of a step.
    n_replicas
        Replicas.
    group_size
        Replicas that take the same inputs.
    group_type
        Which replicas these are.
    """

    n_iterations: int
    n_rounds: int
    n_replicas: int
    group_size: int
    group_type: CommGroupType

    @classmethod
    def of(cls, options: Options) -> BatchPlan:
        """Return that of options."""
        return cls(
            options.device_iterations,
            options.Training.gradient_accumulation,
            options.replication_factor,
            options.input_group_size,
            options.input_cgt,
        )

    @property
    def n_groups(self) -> int:
        """Groups of replicas, which take inputs of their own."""
        return self.n_replicas // self.group_size

    @property
    def n_batches(self) -> int:
        """Micro-batches that the inputs of a call have."""
        return self.n_iterations * self.n_rounds * self.n_groups

    def narrowed(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the first micro-batch of a tensor of a call.

        Raises
        ------
        AssertionError
            When the first dimension does not divide into micro-batches.
        """
        size = tensor.shape[0] if tensor.dim() else 1
        assert size % self.n_batches == 0, (
            f"Invalid batch dimension: In the input {tensor.shape}, the batch dimension ({size})"
            f" must be a multiple of Options.deviceIterations({self.n_iterations}) *"
            f" (Options.replicationFactor({self.n_replicas}) /"
            f" Options.inputReplicaGrouping.input_group_size({self.group_size})) *"
            f" Options.Training.gradientAccumulation({self.n_rounds}) = {self.n_batches}"
        )
        return tensor.narrow(0, 0, size // self.n_batches) if tensor.dim() else tensor

    def cut(self, array: Array) -> Array:
        """Return an array of a call as one of micro-batches.

        Parameters
        ----------
        array
            With the micro-batches of all iterations, rounds and groups of replicas in its first
            dimension.

        Returns
        -------
        ndarray
            Of shape (n_iterations, n_rounds, n_replicas, …).
        """
        own = array.shape and (array.shape[0] // self.n_batches, *array.shape[1:])
        shape = (self.n_iterations, self.n_rounds, self.n_groups, *own)
        cut = array.reshape(shape)
        if self.group_size == 1:
            return cut
        if self.group_type is CommGroupType.Orthogonal:
            return np.concatenate([cut] * self.group_size, axis=2)
        return np.repeat(cut, self.group_size, axis=2)

    def whole(self, array: Array, shape: Sequence[int]) -> Array:
        """Return what `cut` returned as the array of a call, of a shape."""
        if self.group_type is CommGroupType.Orthogonal:
            array = array[:, :, : self.n_groups]
        else:
            array = array[:, :, :: self.group_size]
        return array.reshape(shape)


def joined(values: Array, mode: int, period: int) -> Array:
    """Return what a call returns of an output.

    Parameters
    ----------
    values
        Of shape (n_iterations, n_rounds, n_replicas, …).
    mode
        An `OutputMode`.
    period
        Of ``EveryN``, the number of micro-batches from one value to the next.

    Returns
    -------
    ndarray
        The values that are asked for, one after the other in the first dimension; those of a
        scalar are a vector if there are several.
    """
    own = values.shape[3:]
    flat = values.reshape(-1, *values.shape[2:])
    match OutputMode(mode):
        case OutputMode.Final:
            chosen = flat[-1:]
        case OutputMode.EveryN:
            chosen = flat[period - 1 :: period]
        case OutputMode.Sum:
            chosen = flat.sum(axis=0, dtype=flat.dtype, keepdims=True)
        case _:
            chosen = flat
    n_values = chosen.shape[0] * chosen.shape[1]
    if not own:
        return chosen.reshape(()) if n_values == 1 else chosen.reshape(n_values)
    return chosen.reshape(n_values * own[0], *own[1:])


def by_name(rounds: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return arrays of several runs as one by name, with a dimension of runs in front."""
    return {name: np.stack([run[name] for run in rounds]) for name in rounds[0]}
