"""Addresses of elements, as integers: kernels that take many arrays would pass seven numbers each.

The array must stay alive while its address is used: its owner is the caller of the function that
takes the address.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from tilescope.engine.host.jit._jit import intrinsic
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.jit.tables import emit_array, plain_array
from tilescope.engine.host.kernels._vector_emitter import emit_loop, emit_splat

__all__ = [
    "AT_ONCE",
    "address",
    "all_floats",
    "all_numbers",
    "floats_at",
    "list_places",
    "numbers_at",
]

#: Entries that `list_places` writes at a time.
AT_ONCE = 8

_WORD = ir.IntType(64)
#: More elements than a computer has.
_ALL = 1 << 48


def floats_at(address: int, index: int, n: int) -> NDArray[np.float32]:
    """Return some floats from the one with an index on, in plain Python."""
    return np.asarray(plain_array(address + 4 * index, (n,), np.float32))


def numbers_at(address: int, n: int) -> NDArray[np.int64]:
    """Return a list of integers, in plain Python."""
    return np.asarray(plain_array(address, (n,), np.int64))


def _plain_address(array: Any, index: int) -> int:
    """Return a pure Python version, for runs without compilation."""
    return int(array.ctypes.data) + int(index) * int(array.itemsize)


def _compiled_address() -> Any:
    @intrinsic
    def address_of(typing_context, array, index):  # type: ignore[no-untyped-def]
        from numba.core import types

        if array.dtype not in {types.float32, types.int64}:
            return None

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kind = signature.args[0]
            data = context.make_array(kind)(context, builder, arguments[0]).data
            return builder.ptrtoint(builder.gep(data, [arguments[1]]), _WORD)

        return types.int64(array, types.int64), generate

    return address_of


def _plain_list_places(addresses: int, first: int, step: int, n: int) -> None:
    """Write what the compiled version does, but nothing after the last entry."""
    numbers_at(addresses, n)[:] = first + step * np.arange(n)


def _compiled_list_places() -> Any:
    @intrinsic
    def list_places(typing_context, addresses, first, step, n):  # type: ignore[no-untyped-def]
        from numba.core import types

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            addresses, first, step, n = arguments
            lanes = ir.VectorType(_WORD, AT_ONCE)
            numbers = ir.Constant(lanes, list(range(AT_ONCE)))
            # Not computed ahead: of a vector kept on the stack, the load may wait for the store.
            same = ir.FunctionType(_WORD, [_WORD])
            first = builder.asm(same, "", "=r,0", [first], side_effect=True)
            apart = builder.mul(emit_splat(builder, step, AT_ONCE), numbers)
            begin = builder.add(emit_splat(builder, first, AT_ONCE), apart)
            further = emit_splat(builder, builder.mul(step, _WORD(AT_ONCE)), AT_ONCE)

            def store(counters: list[Any], values: list[Any]) -> list[Any]:
                offset = builder.add(addresses, builder.mul(counters[0], _WORD(8)))
                builder.store(values[0], builder.inttoptr(offset, lanes.as_pointer()), align=8)
                return [builder.add(values[0], further)]

            emit_loop(builder, n, [(_WORD(0), _WORD(AT_ONCE))], [begin], store)
            return context.get_dummy_value()

        number = types.int64
        return types.void(number, number, number, number), generate

    return list_places


def _compiled_all(name: str) -> Any:
    @intrinsic
    def all_from(typing_context, address):  # type: ignore[no-untyped-def]
        from numba.core import types

        kind: Any = types.Array(getattr(types, name), 1, "C")

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            item = context.get_data_type(kind.dtype)
            data = builder.inttoptr(arguments[0], item.as_pointer())
            return emit_array(context, builder, kind, data, [_WORD(_ALL)])

        return kind(types.int64), generate

    return all_from


def _plain_all(dtype: type) -> Any:
    return lambda address: plain_array(address, (_ALL,), dtype)


#: Array of everything from an address on: its end is not known.
all_floats: Any = _compiled_all("float32") if IS_COMPILED else _plain_all(np.float32)
all_numbers: Any = _compiled_all("int64") if IS_COMPILED else _plain_all(np.int64)
#: Address of an element of an array.
address: Any = _compiled_address() if IS_COMPILED else _plain_address
#: Writes first, first + step … to an address, n integers, and up to `AT_ONCE` - 1 more.
list_places: Any = _compiled_list_places() if IS_COMPILED else _plain_list_places
