"""What an optimizer keeps on the device, as tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tilescope.engine.session.compiled_model import Held

__all__ = ["held_of", "parameters_of", "states_of"]

Array = NDArray[Any]

#: Between the prefix of a state and the name of its weight.
_BESIDE = "___"
#: The loss scaling that the device changes, and what PopTorch knows of it: by which factor.
_SCALE, _FACTOR = "lossScaling", "lossScaleUpdateFactor"


def states_of(
    held: Mapping[str, Array], weights: Mapping[str, str], initial_scale: float | None = None
) -> dict[str, torch.Tensor]:
    """Return the states: velocities, means, counts of steps, and what the loss scaling has become.

    Parameters
    ----------
    held
        All that the device holds.
    weights
        Names of weights by module path.
    initial_scale
        The loss scaling at first, where the device changes it; None where it does not.
    """
    known = {*weights.values()}
    states = {
        name: torch.from_numpy(array.copy())
        for name, array in held.items()
        if name.partition(_BESIDE)[2] in known or name.startswith("Step___")
    }
    if initial_scale is not None:
        states[_FACTOR] = torch.from_numpy(np.asarray(held[_SCALE] / initial_scale, np.float32))
    return states


def held_of(states: Mapping[str, torch.Tensor], initial_scale: float | None) -> dict[str, Array]:
    """Return what the device holds of the states that `states_of` returns."""
    held = {name: tensor.numpy() for name, tensor in states.items()}
    if initial_scale is not None and _FACTOR in held:
        held[_SCALE] = np.asarray(held.pop(_FACTOR) * initial_scale, np.float32)
    return held


def parameters_of(values: Iterable[Held], held: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Return the numbers that the host may change between runs.

    Parameters
    ----------
    values
        What the device holds.
    held
        It by name.
    """
    return {
        value.name: torch.from_numpy(held[value.name].copy())
        for value in values
        if value.is_setting and value.name in held
    }
