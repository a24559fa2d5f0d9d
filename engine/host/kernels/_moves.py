"""Copies of blocks with any strides, through vector registers.

Written as LLVM IR: a loop over few elements pays for its indices and never becomes vectors, and one
with a step between its elements moves them singly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.host.jit._jit import intrinsic
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.kernels._move_emitter import Dim, MoveEmitter

__all__ = ["move_block"]


def _compiled() -> Any:
    @intrinsic
    def move(typing_context, x, offset, x_stride, out, to, size, stride):  # type: ignore[no-untyped-def]
        from numba.core import types
        from numba.np import arrayobj

        items: Any = arrayobj
        number = types.int64

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            def pointer(k: int) -> Any:
                return context.make_array(signature.args[k])(context, builder, arguments[k]).data

            def numbers(k: int) -> list[Any]:
                if isinstance(signature.args[k], types.BaseTuple):
                    return [builder.extract_value(arguments[k], d) for d in range(3)]
                return [
                    builder.load(builder.gep(pointer(k), [ir.IntType(64)(d)])) for d in range(3)
                ]

            source, target = pointer(0), pointer(3)
            offset, to = arguments[1], arguments[4]
            dims = [Dim(*steps) for steps in zip(numbers(5), numbers(2), numbers(6), strict=True)]

            def copy_one(to: Any, offset: Any) -> None:
                value = items.load_item(context, builder, x, builder.gep(source, [offset]))
                value = context.cast(builder, value, x.dtype, out.dtype)
                items.store_item(context, builder, out, value, builder.gep(target, [to]))

            item_bytes = context.get_abi_sizeof(target.type.pointee)
            emitter = MoveEmitter(builder, target, source, item_bytes)
            if x.dtype == out.dtype:
                emitter.block(dims, to, offset, copy_one)
            else:
                emitter.one_by_one(dims, to, offset, copy_one)
            return context.get_dummy_value()

        return types.void(x, number, x_stride, out, number, size, stride), generate

    return move


def _plain(x, offset, x_stride, out, to, size, stride):  # type: ignore[no-untyped-def]
    """Copy a block in plain Python."""

    def view(memory: Any, start: int, steps: Any) -> Any:
        byte_steps = [int(step) * memory.itemsize for step in steps]
        return np.lib.stride_tricks.as_strided(memory[start:], size, byte_steps)

    view(out, to, stride)[...] = view(x, offset, x_stride)


#: Copies a block, converted to the type of `out`: ``x, at, x_stride, out, to, size, stride``. Sizes
#: and strides are arrays or tuples of three numbers.
move_block = _compiled() if IS_COMPILED else _plain
