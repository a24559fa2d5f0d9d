"""Rounding to half precision: values of half variables are float32 numbers on the half grid."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from engine.codelets._jit import jit

__all__ = ["round_block"]

_config: Any = numba.config


def _plain_to_half(value: float) -> np.float32:
    """Return the same in Python, for runs without compilation."""
    with np.errstate(over="ignore"):
        return np.float32(np.float16(value))


def _compiled_to_half() -> Any:
    """Return a function that rounds a float32 to the nearest half, ties to even."""

    @intrinsic
    def to_half(typing_context, value):  # type: ignore[no-untyped-def]
        if value != types.float32:
            return None

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.fpext(builder.fptrunc(arguments[0], ir.HalfType()), ir.FloatType())

        return types.float32(value), generate

    return to_half


_to_half = _plain_to_half if _config.DISABLE_JIT else _compiled_to_half()


@jit
def round_block(memory, start, size, stride):  # type: ignore[no-untyped-def]
    """Round the elements of a region, of any number of dimensions, in place."""
    n_dims = size.size
    n_rows = 1
    for d in range(n_dims - 1):
        n_rows *= size[d]
    for row in range(n_rows):
        at = start
        rest = row
        for k in range(n_dims - 1):
            d = n_dims - 2 - k
            at += rest % size[d] * stride[d]
            rest //= size[d]
        for i in range(size[n_dims - 1]):
            place = at + i * stride[n_dims - 1]
            memory[place] = _to_half(memory[place])
