"""What an optimizer keeps on the device, as tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray

from tilescope.engine.session.compiled_model import Held

__all__ = ["parameters_of", "states_of"]

Array = NDArray[Any]

#: Between the prefix of a state and the name of its weight.
_BESIDE = "___"


def states_of(held: Mapping[str, Array], weights: Mapping[str, str]) -> dict[str, torch.Tensor]:
    """Return the states: velocities, means, counts of steps.

    Parameters
    ----------
    held
        All that the device holds.
    weights
        Names of weights by module path.
    """
    known = {*weights.values()}
    return {
        name: torch.from_numpy(array.copy())
        for name, array in held.items()
        if name.partition(_BESIDE)[2] in known or name.startswith(("Step___", "lossScaleUpdate"))
    }


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
