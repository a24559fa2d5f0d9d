"""Arrays of integers in few bytes: a program keeps some for every tile of every step."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.freeze import read_only

__all__ = ["compact", "stored_bytes"]

#: Types with their least and their largest number, the narrowest first.
_TYPES = tuple(
    (np.dtype(name), int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("int8", "int16", "int32", "int64")
)


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """Return the same integers as a read-only array of the narrowest signed type, shape (n,).

    Equal values are stored once, and the numbers 0, 1, … of all tiles once for all arrays.
    """
    if not values.size:
        return _count(0)
    if values.size == 1:
        low = high = int(values[0])
    else:
        low, high = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
    kind = _type_of(low, high)
    if low == high and values.size > 1:
        # As np.broadcast_to does, which takes ten times as long.
        one = np.ndarray(values.shape, kind, np.array(low, kind), strides=(0,))
        one.flags.writeable = False
        return one
    if low == 0 and high == values.size - 1 and (values == _count(values.size)).all():
        return _count(values.size)
    return read_only(values.astype(kind, copy=False))


def _type_of(low: int, high: int) -> np.dtype[Any]:
    """Return the narrowest type that holds numbers."""
    for kind, least, most in _TYPES:
        if least <= low and high <= most:
            return kind
    return _TYPES[-1][0]


def stored_bytes(array: NDArray[Any]) -> int:
    """Return the bytes that an array of one dimension takes: one value where all are one."""
    return array.itemsize if array.size and array.strides == (0,) else array.nbytes


@functools.lru_cache(16)
def _count(n: int) -> NDArray[Any]:
    return read_only(np.arange(n, dtype=np.int32))
