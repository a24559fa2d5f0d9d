"""Functions of pairs of elements, over blocks with any strides.

Written as LLVM IR: a row of few elements, such as a bias of channels, pays for the beginning of its
loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.host.jit._jit import intrinsic
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.kernels._pair_emitter import Operand, PairEmitter

__all__ = ["combine_blocks"]


def _compiled() -> Any:
    @intrinsic
    def combine(  # type: ignore[no-untyped-def]
        typing_context, function, a, a_start, a_stride, b, b_start, b_stride,
        out, out_start, size, stride,
    ):  # fmt: skip
        from numba.core import types
        from numba.np import arrayobj

        items: Any = arrayobj
        called = function.get_call_type(typing_context, (a.dtype, b.dtype), {})
        number = types.int64

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            def pointer(k: int) -> Any:
                return context.make_array(signature.args[k])(context, builder, arguments[k]).data

            def numbers(k: int) -> list[Any]:
                if isinstance(signature.args[k], types.BaseTuple):
                    return [builder.extract_value(arguments[k], d) for d in range(3)]
                elements = pointer(k)
                return [builder.load(builder.gep(elements, [ir.IntType(64)(d)])) for d in range(3)]

            call = context.get_function(function, called)

            def load(pointer: Any) -> Any:
                return items.load_item(context, builder, b, pointer)

            def one(left: Any, second: Any, pointer: Any) -> None:
                values = [items.load_item(context, builder, a, left), second]
                result = call(builder, values)
                result = context.cast(builder, result, called.return_type, out.dtype)
                items.store_item(context, builder, out, result, pointer)

            left, right, result = (
                Operand(pointer(k), arguments[k + 1], numbers(stride))
                for k, stride in ((1, 3), (4, 6), (7, 10))
            )
            PairEmitter(builder, numbers(9), load, one).block(left, right, result)
            return context.get_dummy_value()

        used = (
            function, a, number, a_stride, b, number, b_stride, out, number, size, stride
        )  # fmt: skip
        return types.void(*used), generate

    return combine


def _plain(  # type: ignore[no-untyped-def]
    function, a, a_start, a_stride, b, b_start, b_stride, out, out_start, size, stride
):
    """Combine two blocks in plain Python."""
    for index in np.ndindex(*size):
        left, right, offsets = (
            start + sum(k * step for k, step in zip(index, steps, strict=True))
            for start, steps in ((a_start, a_stride), (b_start, b_stride), (out_start, stride))
        )
        out[offsets] = function(a[left], b[right])


#: Stores the results of a function of pairs: the function; array, start and strides of the first
#: operand and of the second one; array and start of the result, sizes, and strides of the result,
#: which may be the first operand. Sizes and strides are arrays or tuples of three numbers.
combine_blocks = _compiled() if IS_COMPILED else _plain
