"""Indices of vectorised loops, and of the bits that such loops set."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.engine.host.jit._jit import intrinsic, jit
from tilescope.engine.host.jit.settings import IS_COMPILED

__all__ = ["lowest_bit", "unsigned"]


def _same(number: Any) -> Any:
    return number


@jit
def _wrapped(number: Any) -> Any:
    return np.uintp(number)


def _plain_lowest_bit(mask: Any) -> int:
    """Return the place of the lowest bit, for runs without compilation."""
    return (int(mask) & -int(mask)).bit_length() - 1


def _compiled_lowest_bit() -> Any:
    @intrinsic
    def lowest(typing_context, mask):  # type: ignore[no-untyped-def]
        from llvmlite import ir
        from numba.core import types

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), generate

    return lowest


#: Makes a start or a step unsigned. A signed index may count from the end of an array, so that the
#: compiler cannot tell that a loop is contiguous if its step is one; an unsigned one cannot, and
#: the loop is vectorised. Negative steps wrap around, to the same element.
unsigned = _wrapped if IS_COMPILED else _same
#: Returns the place, from 0, of the lowest bit that is set in 64 of them; at least one must be.
lowest_bit = _compiled_lowest_bit() if IS_COMPILED else _plain_lowest_bit
