"""Functions that are called by address, and the arrays in the table that they take."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from tilescope.engine.host.jit._jit import intrinsic
from tilescope.engine.host.jit.settings import IS_COMPILED

__all__ = ["array_in", "call_at", "emit_array", "numbers_of", "plain_array"]

_I64 = ir.IntType(64)


def numbers_of(arrays: Iterable[NDArray[Any] | int]) -> list[int]:
    """Return addresses and shapes of arrays, and numbers, as a table has them.

    The table does not keep the arrays alive.
    """
    numbers: list[int] = []
    for array in arrays:
        if isinstance(array, int):
            numbers.append(array)
        else:
            numbers += [array.ctypes.data, *array.shape]
    return numbers


def plain_array(address: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the array at an address, in runs without compilation."""
    from numba.np import numpy_support

    support: Any = numpy_support
    return support.carray(ctypes.c_void_p(int(address)), shape, dtype)


def _plain(table, position, n_dims, dtype):  # type: ignore[no-untyped-def]
    """Return an array, or a number, in runs without compilation."""
    numbers = plain_array(table, (position + 1 + n_dims,), np.int64)
    if n_dims == 0:
        return int(numbers[position])
    return plain_array(numbers[position], tuple(numbers[position + 1 :]), dtype)


def emit_array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    """Emit a contiguous array of numba's at a pointer to its elements; nobody counts references."""
    from numba.np import arrayobj

    arrays: Any = arrayobj
    size = _I64(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    array = arrays.make_array(kind)(context, builder)
    arrays.populate_array(array, data, shape, strides, size, meminfo=None)
    return array._getvalue()


def _array(typing_context, table, position, n_dims, dtype):  # type: ignore[no-untyped-def]
    from numba.core import types

    index, n = position.literal_value, n_dims.literal_value
    kind: Any = types.Array(dtype.dtype, n, "C", aligned=True) if n else types.int64

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        numbers = builder.inttoptr(arguments[0], _I64.as_pointer())
        words = [
            builder.load(builder.gep(numbers, [_I64(index + k)], inbounds=True))
            for k in range(1 + n)
        ]
        if n == 0:
            return words[0]
        data = builder.inttoptr(words[0], context.get_data_type(kind.dtype).as_pointer())
        return emit_array(context, builder, kind, data, words[1:])

    return kind(table, position, n_dims, dtype), generate


#: Array in a table: takes the table's address, and as constants the place of the array's address
#: there, which the shape follows, the number of dimensions and the type; without dimensions, the
#: number in that place.
array_in: Any = intrinsic(_array, prefers_literals=True) if IS_COMPILED else _plain


def _call_function(typing_context, function, first, last, table):  # type: ignore[no-untyped-def]
    """Call a function by address; return whether it raised."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address, *numbers = arguments
        pointer = ir.IntType(8).as_pointer()
        typed_pointer = pointer.as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [typed_pointer, typed_pointer, _I64, _I64, _I64])
        called = builder.inttoptr(address, kind.as_pointer())
        with builder.goto_entry_block():  # a loop would take more of the stack in every round
            results = [builder.alloca(pointer) for _ in range(2)]
        status = builder.call(called, [*results, *numbers])
        # numba's calling convention: 0 and -2, which stands for None, are no errors.
        is_none = builder.icmp_signed("==", status, status.type(-2))
        is_ok = builder.or_(is_none, builder.icmp_signed("==", status, status.type(0)))
        return builder.not_(is_ok)

    number = types.int64
    return types.boolean(number, number, number, number), generate


#: Calls a function by address, in compiled code: takes the address and three integers.
call_at = intrinsic(_call_function)
