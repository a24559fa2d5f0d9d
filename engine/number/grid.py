"""Representable values of the device's narrow floating-point types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["HALF", "Grid"]


@dataclass(frozen=True)
class Grid:
    """Floating-point numbers of few bits; values are rounded to nearest, ties to even.

    Parameters
    ----------
    mantissa_bits
        Mantissa bits, without the implicit one.
    lowest_exponent
        Exponent of the smallest normal number; subnormal numbers have its step.
    largest
        Largest magnitude.
    has_infinity
        Whether larger numbers become infinite; if not, they saturate, and negative zero does not
        exist.
    """

    mantissa_bits: int
    lowest_exponent: int
    largest: float
    has_infinity: bool = False

    def rounded(self, values: ArrayLike) -> NDArray[np.float32]:
        """Return the nearest representable numbers, in the shape of `values`."""
        array: NDArray[Any] = np.asarray(values)
        if self == HALF:
            with np.errstate(over="ignore"):
                return array.astype(np.float16).astype(np.float32)
        exact = array.astype(np.float64)
        size = np.abs(exact)
        exponent = np.maximum(np.frexp(size)[1] - 1, self.lowest_exponent)
        step = np.ldexp(1.0, exponent - self.mantissa_bits)
        with np.errstate(invalid="ignore"):
            near = np.where(size < self.largest, np.rint(size / step) * step, size)
            near = np.where(near > self.largest, self.largest, near)
            signed = np.where(exact < 0, -near, near)
        return np.asarray(np.where(near == 0, 0, signed), dtype=np.float32)


HALF = Grid(10, -14, 65504.0, has_infinity=True)
