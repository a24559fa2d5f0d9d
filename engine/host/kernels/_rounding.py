"""Rounding: values of half and float8 variables are float32 numbers on the grid of their type."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tilescope.engine.host.jit._jit import intrinsic, jit
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.kernels._addresses import all_floats, all_numbers
from tilescope.engine.host.kernels._half_emitter import emit_half_rows
from tilescope.engine.host.kernels._indices import unsigned
from tilescope.engine.number.grid import HALF, Grid

__all__ = ["rounder_of"]


def _plain_to_half(value: float) -> np.float32:
    """Round to the nearest half, ties to even, in runs without compilation."""
    with np.errstate(over="ignore"):
        return np.float32(np.float16(value))


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
def _inner_dim(numbers, n_dims):  # type: ignore[no-untyped-def]
    """Return the dimension whose elements adjoin, or else the last one."""
    for d in range(n_dims):
        if numbers[1 + n_dims + d] == 1 and numbers[1 + d] > 1:
            return d
    return n_dims - 1


@jit
def _following_dim(numbers, n_dims, used, apart):  # type: ignore[no-untyped-def]
    """Return an unused dimension with that stride, or else -1; `used` has a bit per dimension."""
    for d in range(n_dims):
        if used >> d & 1 == 0 and numbers[1 + n_dims + d] == apart:
            return d
    return -1


@jit
def _longest_dim(numbers, n_dims, used):  # type: ignore[no-untyped-def]
    """Return the unused dimension with the most elements, or else -1."""
    longest = -1
    for d in range(n_dims):
        if used >> d & 1 == 0 and (longest < 0 or numbers[1 + d] > numbers[1 + longest]):
            longest = d
    return longest


def _round_region(round_rows: Any) -> Any:
    """Return the function that rounds the elements of a region in place.

    Its arguments are the address of the memory, that of the region, which is the first element,
    sizes and strides, and the number of dimensions.

    Parameters
    ----------
    round_rows
        Rounds rows of elements: takes the memory, its first element, the number of rows and the
        elements between their beginnings, and the number of elements of a row and their stride.
    """

    def round_region(memory, region, n_dims):  # type: ignore[no-untyped-def]
        values, numbers = all_floats(memory), all_numbers(region)
        inner = _inner_dim(numbers, n_dims)
        n, step, used = numbers[1 + inner], numbers[1 + n_dims + inner], 1 << inner
        following = _following_dim(numbers, n_dims, used, n * step)
        while following >= 0:
            n, used = n * numbers[1 + following], used | 1 << following
            following = _following_dim(numbers, n_dims, used, n * step)
        longest, n_rows, pitch = _longest_dim(numbers, n_dims, used), 1, 0
        if longest >= 0:
            n_rows, pitch, used = (
                numbers[1 + longest],
                numbers[1 + n_dims + longest],
                (used | 1 << longest),
            )
        n_planes = 1
        for d in range(n_dims):
            if used >> d & 1 == 0:
                n_planes *= numbers[1 + d]
        for plane in range(n_planes):
            first, rest = numbers[0], plane
            for d in range(n_dims):
                if used >> d & 1 == 0:
                    first += rest % numbers[1 + d] * numbers[1 + n_dims + d]
                    rest //= numbers[1 + d]
            round_rows(values, first, n_rows, pitch, n, step)

    return round_region


def _singly(round_one: Any) -> Any:
    """Return the function that rounds rows element by element."""

    @jit
    def round_rows(values, first, n_rows, pitch, n, step):  # type: ignore[no-untyped-def]
        for row in range(n_rows):
            at, apart = unsigned(first + row * pitch), unsigned(step)
            for i in range(unsigned(n)):
                values[at + i * apart] = round_one(values[at + i * apart])

    return round_rows


def _compiled_half_rows() -> Any:
    """Return the function that rounds rows to half, in vectors where elements adjoin.

    A number on the grid stays as it is, so that the last vector of a row may round some again.
    """

    @intrinsic
    def round_rows(typing_context, values, first, n_rows, pitch, n, step):  # type: ignore[no-untyped-def]
        from numba.core import types

        number = types.int64

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            emit_half_rows(builder, builder.gep(data, [arguments[1]]), *arguments[2:])
            return context.get_dummy_value()

        return types.void(values, number, number, number, number, number), generate

    return round_rows


_half_rows = _compiled_half_rows() if IS_COMPILED else _singly(_plain_to_half)


@functools.cache
def rounder_of(grid: Grid) -> Any:
    """Return the entry that rounds a region to a grid: see `_round_region`.

    It is compiled once, not as part of every launcher.
    """
    if grid == HALF:
        label, round_rows = "round_half", _half_rows
    else:
        mantissa_bits, lowest_exponent, largest = (
            grid.mantissa_bits,
            grid.lowest_exponent,
            grid.largest,
        )

        def to_float8(value):  # type: ignore[no-untyped-def]
            return _to_float8(value, mantissa_bits, lowest_exponent, largest)

        label, round_rows = "round_float8", _singly(jit(to_float8))
    function = _round_region(round_rows)
    return Entry(label, function) if IS_COMPILED else function
