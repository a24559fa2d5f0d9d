"""Arrays on the stack: one on the heap takes as long as a small vertex."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj

__all__ = ["room_of"]

_config: Any = numba.config
_arrays: Any = arrayobj


def _compiled(size: int) -> Any:
    @intrinsic
    def room(typing_context, like):  # type: ignore[no-untyped-def]
        kind: Any = types.Array(like.dtype, 1, "C")

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            item = context.get_data_type(kind.dtype)
            with builder.goto_entry_block():  # a loop would take more of the stack in every round
                data = builder.alloca(item, ir.IntType(64)(size))
            item_bytes = context.get_constant(types.intp, context.get_abi_sizeof(item))
            made = context.make_array(kind)(context, builder)
            shape = [context.get_constant(types.intp, size)]
            _arrays.populate_array(made, data, shape, [item_bytes], item_bytes, meminfo=None)
            return made._getvalue()

        return kind(like), generate

    return room


def room_of(size: int) -> Any:
    """Return the function that makes an array of `size` elements, of the type of its argument."""
    if _config.DISABLE_JIT:
        return lambda like: np.empty(size, like.dtype)
    return _compiled(size)
