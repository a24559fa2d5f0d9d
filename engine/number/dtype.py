"""Number types of the device: sizes, and the host types that store their values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilescope.engine.arguments import a_count
from tilescope.engine.errors import BadGraph
from tilescope.engine.number.grid import HALF, Grid

__all__ = [
    "BOOL",
    "DTYPES",
    "FLOAT16",
    "FLOAT32",
    "INT8",
    "INT16",
    "INT32",
    "UINT8",
    "UINT16",
    "UINT32",
    "DType",
    "dtype_of",
    "float8",
]


@dataclass(frozen=True)
class DType:
    """A number type of the device.

    ``host`` is the numpy type that stores the values. Values of a type with a ``grid`` are stored
    as float32 and rounded to the grid wherever the device would round.
    """

    name: str
    n_bytes: int
    host: str
    grid: Grid | None = None

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.host == "float32"

    @property
    def limits(self) -> tuple[int, int] | None:
        """The smallest and largest integer; None for a floating-point type."""
        if self.is_float:
            return None
        if self.name == "bool":
            return 0, 1
        info = np.iinfo(self.host)
        return int(info.min), int(info.max)

    @property
    def kind(self) -> str:
        """Type name in vertex names and cycle laws; ``float8`` for all formats and scales."""
        return "float8" if self.name.startswith("float8") else self.name

    def __str__(self) -> str:
        return self.name


FLOAT32 = DType("float32", 4, "float32")
FLOAT16 = DType("float16", 2, "float32", HALF)
INT8 = DType("int8", 1, "int8")
INT16 = DType("int16", 2, "int16")
INT32 = DType("int32", 4, "int32")
UINT8 = DType("uint8", 1, "uint8")
UINT16 = DType("uint16", 2, "uint16")
UINT32 = DType("uint32", 4, "uint32")
BOOL = DType("bool", 1, "uint8")

DTYPES = {d.name: d for d in (FLOAT32, FLOAT16, INT32, UINT32, INT16, UINT16, INT8, UINT8, BOOL)}
_FROM_NUMPY = {
    "float32": FLOAT32,
    "float64": FLOAT32,
    "float16": FLOAT16,
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT32,
    "uint8": UINT8,
    "uint16": UINT16,
    "uint32": UINT32,
    "bool": BOOL,
}
# Mantissa bits, exponent of the smallest normal number, and largest number without a scale.
# Source: Noune et al., 8-bit Numerical Formats for Deep Neural Networks, arXiv 2206.02915: bias 8
# and 16, one zero, one NaN, no infinity (ONNX: FLOAT8E4M3FNUZ and FLOAT8E5M2FNUZ).
_FLOAT8 = {"143": (3, -7, 240.0), "152": (2, -15, 57344.0)}
_FLOAT8_ALIASES = {"float8_e4m3fnuz": "float8_143", "float8_e5m2fnuz": "float8_152"}
_FLOAT8_NAME = re.compile(r"float8_(143|152)(?:@([+-]?\d{1,3}))?")


def float8(layout: str = "143", scale: int = 0) -> DType:
    """Return an 8-bit floating-point type; Poplar calls it quarter, with metadata.

    Values saturate at the largest number. Source: the ONNX operator Cast, which saturates by
    default.

    Parameters
    ----------
    layout
        ``143``: 4 bits of exponent and 3 of mantissa, up to 240; ``152``: 5 and 2, up to 57,344.
    scale
        Exponent, -32 to 31: the value of the 8 bits is multiplied by 2 to this power.

    Raises
    ------
    BadGraph
        If the layout or the scale is invalid.
    """
    if layout not in _FLOAT8:
        raise BadGraph(f"Unknown float8 layout {layout!r}; use {' or '.join(_FLOAT8)}")
    # Source: graphcore/poplibs sdk-release-3.4, tests/popops/QuarterTypeArithmeticTests.cpp.
    power = a_count("The scale of a float8", scale)
    if not -32 <= power <= 31:
        raise BadGraph(f"The scale of a float8 is {power}: it takes a power of two from -32 to 31")
    bits, exponent, largest = _FLOAT8[layout]
    grid = Grid(bits, exponent + power, largest * 2.0**power)
    return DType(f"float8_{layout}" + (f"@{power}" if power else ""), 1, "float32", grid)


def dtype_of(kind: Any) -> DType:
    """Return the device type for a name, a numpy type or a `DType`.

    The device stores 64-bit integers as int32 and 64-bit floats as float32. ``float8_143@-3`` is a
    float8 with values scaled by 2 to the power of -3.

    Raises
    ------
    BadGraph
        If the device does not support the type.
    """
    if isinstance(kind, DType):
        return kind
    if kind is None:
        raise BadGraph(f"A type is needed: use one of {', '.join(DTYPES)}")
    name = kind if isinstance(kind, str) else _numpy_name(kind)
    dtype = DTYPES.get(name) or _FROM_NUMPY.get(name)
    if dtype is not None:
        return dtype
    narrow = _FLOAT8_NAME.fullmatch(_FLOAT8_ALIASES.get(name, name))
    if narrow is not None:
        return float8(narrow[1], int(narrow[2] or 0))
    known = (*DTYPES, *(f"float8_{layout}" for layout in _FLOAT8))
    raise BadGraph(f"The device has no type {name!r}: use one of {', '.join(known)}")


def _numpy_name(kind: Any) -> str:
    """Return numpy's name of a type, or the string of any other value."""
    try:
        return str(np.dtype(kind).name)
    except (TypeError, ValueError):
        return str(kind)
