"""Calls of compiled functions by address: a whole list of them in one call from Python.

All functions take three integers, ``(first, last, table)``, and return nothing; `table` is the
address of an array of integers with the addresses and lengths of the arrays that they work on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tilescope.engine.jit._jit import cached_jit

__all__ = ["FAILED", "SIGNATURE", "STATE_SIZE", "address_of", "pointer", "run_tasks"]

_config: Any = numba.config
_I64 = ir.IntType(64)
#: Types of the arguments.
SIGNATURE = (numba.int64,) * 3

# Threads that run a list of tasks share three numbers, on cache lines of their own.
#: Places of the next task to take, the number of tasks done, and the first that failed or -1.
_NEXT, _DONE, FAILED = 0, 16, 32
#: Length of the array of these numbers.
STATE_SIZE = 48
#: Rounds that a thread waits before it yields its processor: some ten microseconds.
_PATIENCE = 1 << 12


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


def _atomic(n_arguments: int, result: Any, emit: Callable[..., Any]) -> Any:
    """Return an intrinsic on the int64 at an address; `emit` gets builder, pointer and numbers."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address, *numbers = arguments
        return emit(builder, builder.inttoptr(address, _I64.as_pointer()), *numbers)

    if n_arguments == 1:

        def one(typing_context, address):  # type: ignore[no-untyped-def]
            return result(types.int64), generate

        return intrinsic(one)
    if n_arguments == 2:

        def two(typing_context, address, value):  # type: ignore[no-untyped-def]
            return result(types.int64, types.int64), generate

        return intrinsic(two)

    def three(typing_context, address, expected, value):  # type: ignore[no-untyped-def]
        return result(types.int64, types.int64, types.int64), generate

    return intrinsic(three)


def _emit_load(builder: Any, place: Any) -> Any:
    return builder.load_atomic(place, "seq_cst", 8)


def _emit_add(builder: Any, place: Any, value: Any) -> Any:
    return builder.atomic_rmw("add", place, value, "seq_cst")


def _emit_swap(builder: Any, place: Any, expected: Any, value: Any) -> Any:
    pair = builder.cmpxchg(place, expected, value, "seq_cst", "seq_cst")
    return builder.extract_value(pair, 1)


_call: Any = intrinsic(_call_intrinsic)
_load: Any = _atomic(1, types.int64, _emit_load)
_add: Any = _atomic(2, types.int64, _emit_add)
#: Replaces a number if it is the expected one; whether it was.
_swap: Any = _atomic(3, types.boolean, _emit_swap)
_yield_processor: Any = types.ExternalFunction("sched_yield", types.int32())


@cached_jit
def run_tasks(tasks, state):  # type: ignore[no-untyped-def]
    """Run a list of tasks in order, alone or beside other threads that got the same arrays.

    A task begins when those that it needs are done. A thread takes a task only when it can begin,
    so that none waits for a thread that the system has not started or has suspended in between.
    Returns when all tasks are done, or one failed and those in progress are done.

    Parameters
    ----------
    tasks : ndarray of int64, shape (n, 5)
        Address of the function, first piece, last, table, and how many of the tasks before it
        must be done.
    state : int
        Address of ``STATE_SIZE`` int64 on cache lines of their own: zeros, -1 at ``FAILED``.
    """
    n = tasks.shape[0]
    following, done, failed = state + 8 * _NEXT, state + 8 * _DONE, state + 8 * FAILED
    waited = 0
    while True:
        k = _load(following)
        if k >= n or _load(failed) >= 0:
            if _load(done) >= min(k, n):
                return
        elif _load(done) >= tasks[k, 4]:
            if _swap(following, k, k + 1):
                if _call(tasks[k, 0], tasks[k, 1], tasks[k, 2], tasks[k, 3]):
                    _swap(failed, -1, k)
                _add(done, 1)
                waited = 0
            continue
        waited += 1
        if waited > _PATIENCE:
            _yield_processor()


def address_of(function: Any) -> int:
    """Return the address of a function compiled for `SIGNATURE`."""
    overload = function.overloads[SIGNATURE]
    name = overload.fndesc.llvm_func_name
    return int(overload.library.get_pointer_to_function(name))
