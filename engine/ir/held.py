"""How the host reaches the values that a model holds: by programs beside that of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadOption

__all__ = ["HELD_FROM_HOST", "HELD_TO_HOST", "HOST_SETTINGS", "held_stream", "representable"]

#: The programs beside that of a run: the host writes all held values, reads them all, or writes
#: those that it may change between runs.
HELD_FROM_HOST, HELD_TO_HOST, HOST_SETTINGS = range(1, 4)


def held_stream(program: int, name: str) -> str:
    """Return the stream of a held value in one of the programs beside that of a run."""
    label = {HELD_FROM_HOST: "fromHost", HELD_TO_HOST: "toHost", HOST_SETTINGS: "settings"}[program]
    return f"{label}/{name}"


def representable(name: str, number: float, dtype: str) -> NDArray[Any]:
    """Return a number of an optimiser in the type of the weights.

    Raises
    ------
    BadOption
        When it is too large for the type, or would become 0.
    """
    with np.errstate(over="ignore"):
        array = np.asarray(number, dtype)
    if not np.isfinite(array) or (number != 0 and array == 0):
        raise BadOption(
            f"Weights of {dtype} cannot be updated by {name} = {number:g}, which {dtype} does"
            " not hold: change the rate or the loss scaling"
        )
    return array
