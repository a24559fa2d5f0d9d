"""What an optimizer keeps of a weight, under PopART's names: saved with a model, and loaded again.

Source: graphcore/popart, willow/src/patterns/sgd1decompose.cpp, sgd2decompose.cpp,
adamdecompose.cpp, optimizerdecompose.cpp.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterable

from popart import names
from popart.enums import SGDAccumulatorAndMomentum
from popart.optimizers import SGD, Adam, Optimizer

__all__ = ["is_of_optimizer", "saved_states"]

_VELOCITY, _FIRST = names.reservedAcclPrefix(), names.reservedAccl1Prefix()
_STEP = names.reservedStepPrefix()
_BESIDE = "___specific___"  # between a state's name and the weight whose own numbers it has
_MOMENTS = (_FIRST, names.reservedAccl2Prefix(), names.reservedAccl3Prefix())
_SAVED = (_VELOCITY, *_MOMENTS, _STEP, names.reservedAccumPrefix())


def is_of_optimizer(name: str) -> bool:
    """Return whether a tensor of a model is what an optimizer kept of a weight."""
    return name.startswith(_SAVED)


def saved_states(
    weights: Iterable[str], held: Collection[str], optimizer: Optimizer
) -> dict[str, str]:
    """Return the engine's names of the states that a model is saved with, by PopART's.

    Parameters
    ----------
    weights
        Names of weights.
    held
        Names of what the device holds.
    optimizer
        Trains the weights. Those with a count of steps in common share its state.
    """
    states: dict[str, str] = {}
    for weight in weights:
        if _VELOCITY + weight in held:
            states[_velocity_prefix(optimizer) + weight] = _VELOCITY + weight
        moments = [prefix + weight for prefix in _MOMENTS if prefix + weight in held]
        states |= {name: name for name in moments}
        counter = _counter(weight, held) if isinstance(optimizer, Adam) and moments else ""
        if counter:
            states[_STEP + weight] = counter
    return states


def _velocity_prefix(optimizer: Optimizer) -> str:
    """Return the prefix of a velocity: one of its own where gradients are summed apart."""
    is_separate = isinstance(optimizer, SGD) and (
        optimizer.accumulatorAndMomentum is SGDAccumulatorAndMomentum.Separate
    )
    return _FIRST if is_separate else _VELOCITY


def _counter(weight: str, held: Collection[str]) -> str:
    """Return the name of the count of a weight's steps, its own or of all; "" without one."""
    counters = {name.partition(_BESIDE)[2]: name for name in held if name.startswith(_STEP)}
    return counters.get(glob.escape(weight), counters.get("", ""))
