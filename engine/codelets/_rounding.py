"""Rounding: values of half and float8 variables are float32 numbers on the grid of their type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.jit._jit import intrinsic, jit
from tilescope.engine.jit.settings import IS_COMPILED

__all__ = ["round_float8_block", "round_half_block"]


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


@jit
def _row_start(row, start, size, stride):  # type: ignore[no-untyped-def]
    """Return the start of a row of the innermost dimension."""
    at = start
    for k in range(size.size - 1):
        d = size.size - 2 - k
        at += row % size[d] * stride[d]
        row //= size[d]
    return at


@jit
def _n_rows(size):  # type: ignore[no-untyped-def]
    n_rows = 1
    for d in range(size.size - 1):
        n_rows *= size[d]
    return n_rows


@jit
def round_half_block(memory, start, size, stride):  # type: ignore[no-untyped-def]
    """Round the elements of a region of any rank in place."""
    last = size.size - 1
    for row in range(_n_rows(size)):
        at = _row_start(row, start, size, stride)
        for i in range(size[last]):
            place = at + i * stride[last]
            memory[place] = _to_half(memory[place])


@jit
def round_float8_block(  # type: ignore[no-untyped-def]
    memory, start, size, stride, mantissa_bits, lowest_exponent, largest
):
    """Round the elements of a region of any rank in place."""
    last = size.size - 1
    for row in range(_n_rows(size)):
        at = _row_start(row, start, size, stride)
        for i in range(size[last]):
            place = at + i * stride[last]
            memory[place] = _to_float8(memory[place], mantissa_bits, lowest_exponent, largest)
