"""Indices of vectorised loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.settings import IS_COMPILED

__all__ = ["unsigned"]


def _same(number: Any) -> Any:
    return number


@jit
def _wrapped(number: Any) -> Any:
    return np.uintp(number)


#: Makes a start or a step unsigned. A signed index may count from the end of an array, so that the
#: compiler cannot tell that a loop is contiguous if its step is one; an unsigned one cannot, and
#: the loop is vectorised. Negative steps wrap around, to the same element.
unsigned = _wrapped if IS_COMPILED else _same
