"""Data that take the place of a model's inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import Model, Value

__all__ = ["SYNTHETIC_DATA", "drawn_inputs", "with_synthetic_data"]

#: As PopART's SyntheticDataMode.
SYNTHETIC_DATA = ("zeros", "random_normal", "random_uniform")

#: Random integers are below it: small enough for the indices of any table.
_MOST_INTEGER = 8


def with_synthetic_data(model: Model, mode: str, seed: int = 0) -> Model:
    """Return a model that copies nothing from and to the host, as with PopART's syntheticDataMode.

    Synthetic data are on the device before the program starts; its outputs stay there.

    Parameters
    ----------
    model, mode, seed
        As `drawn_inputs` takes them.

    Raises
    ------
    BadOption
        When the mode is unknown.
    """
    return replace(model, data=drawn_inputs(model, mode, seed))


def drawn_inputs(model: Model, mode: str, seed: int) -> dict[str, NDArray[Any]]:
    """Return an array for every input by name.

    Parameters
    ----------
    model
        Whose inputs to draw.
    mode
        ``zeros``; ``random_normal``, of mean 0 and variance 1; ``random_uniform``, from 0 to 1.
        Random integers are 0 to 7, and with ``random_uniform`` any of their type where that has 8
        bits, as pixels do; booleans are either.
    seed
        Of the random numbers.

    Raises
    ------
    BadOption
        When the mode is unknown.
    """
    if mode not in SYNTHETIC_DATA:
        raise BadOption(f"Unknown synthetic data {mode!r}: expected {', '.join(SYNTHETIC_DATA)}")
    random = np.random.default_rng(seed)
    return {value.name: _drawn(value, mode, random) for value in model.inputs}


def _drawn(value: Value, mode: str, random: np.random.Generator) -> NDArray[Any]:
    """Return an array of a value's shape and type."""
    if mode == "zeros":
        return np.zeros(value.shape, value.dtype)
    if np.issubdtype(np.dtype(value.dtype), np.floating):
        draw = random.standard_normal if mode == "random_normal" else random.random
        return np.asarray(draw(value.shape)).astype(value.dtype)
    if mode == "random_uniform" and value.dtype in ("int8", "uint8"):
        limits = np.iinfo(value.dtype)
        return random.integers(limits.min, limits.max + 1, value.shape).astype(value.dtype)
    high = 2 if value.dtype == "bool" else _MOST_INTEGER
    return random.integers(0, high, value.shape).astype(value.dtype)
