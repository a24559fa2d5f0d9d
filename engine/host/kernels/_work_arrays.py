"""Arrays that kernels work with: on the stack if few elements, else allocated and freed.

An array of numba's takes as long as a small vertex, and code that counts references to it needs
numba in every process that runs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.host.jit._jit import intrinsic, jit
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.jit.tables import emit_array
from tilescope.engine.host.kernels._vector_emitter import emit_declaration

__all__ = ["free", "malloc", "stack_array_of"]


def _compiled(size: int) -> Any:
    @intrinsic
    def stack_array(typing_context, like):  # type: ignore[no-untyped-def]
        from numba.core import types

        kind: Any = types.Array(like.dtype, 1, "C")

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            item = context.get_data_type(kind.dtype)
            with builder.goto_entry_block():  # a loop would take more of the stack in every round
                data = builder.alloca(item, ir.IntType(64)(size))
            return emit_array(context, builder, kind, data, [ir.IntType(64)(size)])

        return kind(like), generate

    return stack_array


def stack_array_of(size: int) -> Any:
    """Return the function that makes an array of `size` elements, of the type of its argument."""
    if not IS_COMPILED:
        return lambda like: np.empty(size, like.dtype)
    return _compiled(size)


def _malloc(typing_context, n, like):  # type: ignore[no-untyped-def]
    """Return an array on the heap of the type of `like`, or raise a MemoryError."""
    from numba.core import types

    kind: Any = types.Array(like.dtype, 1, "C")

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        item = context.get_data_type(kind.dtype)
        word, pointer_type = ir.IntType(64), ir.IntType(8).as_pointer()
        item_bytes = word(context.get_abi_sizeof(item))
        function = emit_declaration(builder, ir.FunctionType(pointer_type, [word]), "malloc")
        data = builder.call(function, [builder.mul(arguments[0], item_bytes)])
        with builder.if_then(builder.icmp_unsigned("==", data, ir.Constant(pointer_type, None))):
            context.call_conv.return_user_exc(builder, MemoryError, ("for the work of a kernel",))
        data = builder.bitcast(data, item.as_pointer())
        return emit_array(context, builder, kind, data, arguments[:1])

    return kind(types.int64, like), generate


def _free(typing_context, array):  # type: ignore[no-untyped-def]
    """Free the elements of an array."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer_type = ir.IntType(8).as_pointer()
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        function = emit_declaration(builder, ir.FunctionType(ir.VoidType(), [pointer_type]), "free")
        builder.call(function, [builder.bitcast(data, pointer_type)])
        return context.get_dummy_value()

    return types.void(array), generate


def _plain_malloc(n: int, like: Any) -> Any:
    return np.empty(n, like.dtype)


def _plain_free(array: Any) -> None:
    """Leave an array to Python."""


_free_of = intrinsic(_free)


@jit
def _free_if_any(array):  # type: ignore[no-untyped-def]
    if array.size > 0:
        _free_of(array)


#: Returns an array of n elements of the type of an array, which must be freed.
malloc: Any = intrinsic(_malloc) if IS_COMPILED else _plain_malloc
#: Frees an array; one without elements was not allocated.
free: Any = _free_if_any if IS_COMPILED else _plain_free
