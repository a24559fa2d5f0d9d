"""Number types of the device: their size there, and the host type that holds their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import BadGraph

__all__ = ["BOOL", "DTYPES", "FLOAT16", "FLOAT32", "INT32", "UINT8", "DType", "dtype_of"]


@dataclass(frozen=True)
class DType:
    """A type of the device.

    ``host`` is the numpy type whose arena holds the values; half values are held in float32,
    rounded to the half grid wherever the device would round.
    """

    name: str
    n_bytes: int
    host: str

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.host == "float32"

    def __str__(self) -> str:
        return self.name


FLOAT32 = DType("float32", 4, "float32")
FLOAT16 = DType("float16", 2, "float32")
INT32 = DType("int32", 4, "int32")
UINT8 = DType("uint8", 1, "uint8")
BOOL = DType("bool", 1, "uint8")

DTYPES = {d.name: d for d in (FLOAT32, FLOAT16, INT32, UINT8, BOOL)}
_FROM_NUMPY = {
    "float32": FLOAT32,
    "float64": FLOAT32,
    "float16": FLOAT16,
    "int32": INT32,
    "int64": INT32,
    "uint8": UINT8,
    "bool": BOOL,
}


def dtype_of(kind: Any) -> DType:
    """Return the device type for a name, a numpy type or a `DType`.

    64-bit integers live as int32 on the device, 64-bit floats as float32.

    Raises
    ------
    BadGraph
        When the device has no such type.
    """
    if isinstance(kind, DType):
        return kind
    name = kind if isinstance(kind, str) else np.dtype(kind).name
    found = DTYPES.get(name) or _FROM_NUMPY.get(name)
    if found is None:
        raise BadGraph(f"The device has no type {name!r}: use one of {', '.join(DTYPES)}")
    return found
