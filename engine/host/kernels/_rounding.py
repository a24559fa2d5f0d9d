"""Rounding: values of half and float8 variables are float32 numbers on the grid of their type."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.host.jit._jit import intrinsic, jit
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.kernels._addresses import all_floats, all_numbers
from tilescope.engine.host.kernels._indices import unsigned
from tilescope.engine.number.grid import HALF, Grid

__all__ = ["rounder_of"]


def _plain_to_half(value: float) -> np.float32:
    """Return a pure Python version, for runs without compilation."""
    with np.errstate(over="ignore"):
        return np.float32(np.float16(value))


def _compiled_to_half() -> Any:
    """Return a function that rounds a float32 to the nearest half, ties to even."""

    @intrinsic
    def to_half(typing_context, value):  # type: ignore[no-untyped-def]
        from numba.core import types

        if value != types.float32:
            return None

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.fpext(builder.fptrunc(arguments[0], ir.HalfType()), ir.FloatType())

        return types.float32(value), generate

    return to_half


_to_half = _compiled_to_half() if IS_COMPILED else _plain_to_half


@jit
def _to_float8(value, mantissa_bits, lowest_exponent, largest):  # type: ignore[no-untyped-def]
    """Round to nearest, ties to even, and saturate at the largest value."""
    if value != value:
        return np.float32(np.nan)
    size = abs(value)
    if size < largest:
        exponent = max(math.frexp(size)[1] - 1, lowest_exponent)
        step = math.ldexp(1.0, exponent - mantissa_bits)
        size = np.rint(size / step) * step
    if size <= 0:
        return np.float32(0)  # float8 has no negative zero
    near = np.float32(min(size, largest))
    return near if value > 0 else -near


def _round_region(round_one: Any) -> Any:
    """Return the function that rounds the elements of a region in place.

    Its arguments are the address of the memory, that of the region, which is the first element,
    sizes and strides, and the number of dimensions.
    """

    def round_region(memory, region, n_dims):  # type: ignore[no-untyped-def]
        values, numbers = all_floats(memory), all_numbers(region)
        last = n_dims - 1
        n, step = unsigned(numbers[n_dims]), unsigned(numbers[2 * n_dims])
        n_rows = 1
        for d in range(last):
            n_rows *= numbers[1 + d]
        for row in range(n_rows):
            offset, rest = numbers[0], row
            for d in range(last - 1, -1, -1):
                offset += rest % numbers[1 + d] * numbers[1 + n_dims + d]
                rest //= numbers[1 + d]
            first = unsigned(offset)
            if step == 1:
                for i in range(n):
                    values[first + i] = round_one(values[first + i])
            else:
                for i in range(n):
                    values[first + i * step] = round_one(values[first + i * step])

    return round_region


@functools.cache
def rounder_of(grid: Grid) -> Any:
    """Return the entry that rounds a region to a grid: see `_round_region`.

    It is compiled once, not as part of every launcher.
    """
    if grid == HALF:
        label, round_one = "round_half", _to_half
    else:
        mantissa_bits, lowest_exponent, largest = (
            grid.mantissa_bits,
            grid.lowest_exponent,
            grid.largest,
        )

        def to_float8(value):  # type: ignore[no-untyped-def]
            return _to_float8(value, mantissa_bits, lowest_exponent, largest)

        label, round_one = "round_float8", jit(to_float8)
    function = _round_region(round_one)
    return Entry(label, function) if IS_COMPILED else function
