"""Calls of compiled functions by address: a whole sequence of them in one call from Python.

All functions take three integers, ``(first, last, table)``, and return nothing; `table` is the
address of an array of integers with the addresses and lengths of the arrays that they work on.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tilescope.engine.jit._jit import cached_jit

__all__ = ["SIGNATURE", "address_of", "pointer", "run_calls"]

_config: Any = numba.config
_I64 = ir.IntType(64)
#: Types of the arguments.
SIGNATURE = (numba.int64,) * 3


def _compiled_pointer() -> Any:
    @intrinsic
    def as_pointer(typing_context, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.inttoptr(arguments[0], cgutils.voidptr_t)

        return types.voidptr(types.int64), generate

    return as_pointer


def _plain_pointer(address: int) -> ctypes.c_void_p:
    """Return a pointer in runs without compilation."""
    return ctypes.c_void_p(int(address))


#: Turns an address into a pointer for `numba.carray`.
pointer: Any = _plain_pointer if _config.DISABLE_JIT else _compiled_pointer()


def _call_intrinsic(typing_context, function, first, last, table):  # type: ignore[no-untyped-def]
    """Call a function by address; return whether it raised."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address, *numbers = arguments
        place = cgutils.voidptr_t.as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [place, place, _I64, _I64, _I64])
        called = builder.inttoptr(address, kind.as_pointer())
        with builder.goto_entry_block():  # a loop would take more of the stack in every round
            results = [builder.alloca(cgutils.voidptr_t) for _ in range(2)]
        status = builder.call(called, [*results, *numbers])
        # numba's calling convention: 0 and -2, which stands for None, are no errors.
        is_none = builder.icmp_signed("==", status, status.type(-2))
        is_ok = builder.or_(is_none, builder.icmp_signed("==", status, status.type(0)))
        return builder.not_(is_ok)

    number = types.int64
    return types.boolean(number, number, number, number), generate


_call: Any = intrinsic(_call_intrinsic)


@cached_jit
def run_calls(calls):  # type: ignore[no-untyped-def]
    """Call functions in order; return the index of the first that raised, or -1.

    Parameters
    ----------
    calls : ndarray of int64, shape (n, 3)
        Address of the function, number of pieces, address of its table.
    """
    for k in range(calls.shape[0]):
        if _call(calls[k, 0], 0, calls[k, 1], calls[k, 2]):
            return k
    return -1


def address_of(function: Any) -> int:
    """Return the address of a function compiled for `SIGNATURE`."""
    overload = function.overloads[SIGNATURE]
    name = overload.fndesc.llvm_func_name
    return int(overload.library.get_pointer_to_function(name))
