"""Arrays of integers in few bytes: a program keeps some for every tile of every step."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.freeze import read_only

__all__ = ["compact", "stored_bytes"]

_TYPES = tuple(np.dtype(name) for name in ("int8", "int16", "int32"))


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """Return the same integers as a read-only array of the narrowest signed type, shape (n,).

    Equal values are stored once, and the numbers 0, 1, … of all tiles once for all arrays.
    """
    if not values.size:
        return _count(0)
    low, high = int(values.min()), int(values.max())
    kind = next((t for t in _TYPES if np.iinfo(t).min <= low and high <= np.iinfo(t).max), None)
    if low == high:
        return np.broadcast_to(np.array(low, kind or np.int64), values.shape)
    if low == 0 and high == values.size - 1 and (values == _count(values.size)).all():
        return _count(values.size)
    return read_only(values.astype(kind or np.int64, copy=False))


def stored_bytes(array: NDArray[Any]) -> int:
    """Return the bytes that an array of one dimension takes: one value where all are one."""
    return array.itemsize if array.size and array.strides == (0,) else array.nbytes


@functools.lru_cache(16)
def _count(n: int) -> NDArray[Any]:
    return read_only(np.arange(n, dtype=np.int32))
