"""Calls of compiled functions by address: a whole list of them in one call from Python.

All functions take three integers, ``(first, last, table)``, and return nothing; `table` is the
address of an array of integers with the addresses and lengths of the arrays that they work on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tilescope.engine.jit._jit import cached_jit, jit

__all__ = ["SIGNATURE", "address_of", "array_in", "new_state", "run_tasks"]

_config: Any = numba.config
_carray: Any = vars(numba)["carray"]  # numba does not declare it
_I64 = ir.IntType(64)
#: Types of the arguments.
SIGNATURE = (numba.int64,) * 3

# Threads that run stages of tasks share a few numbers: two cache lines of each of them, which it
# alone writes as a rule, and one for all. Lines come in pairs, which processors fetch together.
#: Numbers of a thread: the next task of its share, the tasks that it has done, and whether it runs.
_NEXT, _DONE, _RUNS = 0, 16, 17
_OF_THREAD = 32
#: Rounds that a thread waits before it takes a task of another one that runs: some microsecond.
_RESPECT = 1 << 7
#: Rounds that a thread waits before it yields its processor: some ten microseconds.
_PATIENCE = 1 << 12


def _plain_pointer(address: int) -> ctypes.c_void_p:
    """Return a pointer in runs without compilation."""
    return ctypes.c_void_p(int(address))


def _plain_array(table, place, n_dims, dtype):  # type: ignore[no-untyped-def]
    """Return an array, or a number, in runs without compilation."""
    numbers = _carray(_plain_pointer(table), (place + 1 + n_dims,), np.int64)
    if n_dims == 0:
        return int(numbers[place])
    return _carray(_plain_pointer(numbers[place]), tuple(numbers[place + 1 :]), dtype)


def _compiled_array() -> Any:
    @intrinsic(prefer_literal=True)
    def array(typing_context, table, place, n_dims, dtype):  # type: ignore[no-untyped-def]
        at, n = place.literal_value, n_dims.literal_value
        kind: Any = types.Array(dtype.dtype, n, "C", aligned=True) if n else types.int64

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            from numba.np import arrayobj

            arrays: Any = arrayobj
            numbers = builder.inttoptr(arguments[0], _I64.as_pointer())
            words = [
                builder.load(builder.gep(numbers, [_I64(at + k)], inbounds=True))
                for k in range(1 + n)
            ]
            if n == 0:
                return words[0]
            size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            strides = [_I64(size)]
            for length in words[:1:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            made = arrays.make_array(kind)(context, builder)
            data = context.get_data_type(kind.dtype).as_pointer()
            arrays.populate_array(
                made,
                data=builder.inttoptr(words[0], data),
                shape=words[1:],
                strides=strides,
                itemsize=_I64(size),
                meminfo=None,
            )
            return made._getvalue()

        return kind(table, place, n_dims, dtype), generate

    return array


#: Array in a table: takes the table's address, and as constants the place of the array's address
#: there, which the shape follows, the number of dimensions and the type; without dimensions, the
#: number in that place.
array_in: Any = _plain_array if _config.DISABLE_JIT else _compiled_array()


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


def new_state(first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers that the threads of a run share, before it.

    Parameters
    ----------
    first : ndarray of int64, shape (n_shares,)
        First task of every share.
    """
    state = np.zeros(first.size * _OF_THREAD + 1, np.int64)
    state[_NEXT:-1:_OF_THREAD] = first
    state[-1] = -1
    return state


@jit
def _sum(numbers, row):  # type: ignore[no-untyped-def]
    """Return the sum of a row; numba compiles four functions for that of numpy."""
    total = 0
    for column in range(numbers.shape[1]):
        total += numbers[row, column]
    return total


@jit
def _total(state, number, n_shares):  # type: ignore[no-untyped-def]
    """Return the sum of a number of all threads."""
    total = 0
    for share in range(n_shares):
        total += _load(state + 8 * (_OF_THREAD * share + number))
    return total


@cached_jit
def run_tasks(tasks, bounds, is_chain, thread, state):  # type: ignore[no-untyped-def]
    """Run stages of tasks, alone or beside other threads that got the same arrays.

    Tasks of a stage need nothing of each other, unless it is a chain, which one thread runs in
    order; a stage begins when the one before is done. Every thread has a share of a stage, the same
    part of the memory in most stages, so that data are in the cache of the processor that takes
    them next. It takes tasks of another share when its own is empty and that thread has not
    started, or lets it wait: none waits for a thread that the system suspends before a task.
    Returns when all tasks are done, or one failed and those in progress are done.

    Parameters
    ----------
    tasks : ndarray of int64, shape (n, 5)
        Address of the function, first piece, last, table, and a number of the caller's; those of a
        share follow each other.
    bounds : ndarray of int64, shape (n_stages + 1, n_shares)
        First task of every stage in every share; of the row after the last stage, the end.
    is_chain : ndarray of bool, shape (n_stages,)
        Whether a stage is a chain; its tasks are all of one share.
    thread
        Number of the thread: its share.
    state : int
        Address of the array of `new_state`; its last number is the task that failed, or -1.
    """
    n_stages, n_shares = bounds.shape[0] - 1, bounds.shape[1]
    failed, own = state + 8 * _OF_THREAD * n_shares, state + 8 * _OF_THREAD * thread
    _add(own + 8 * _RUNS, 1)
    n_before = _sum(bounds, 0)
    for stage in range(n_stages):
        n_until = _sum(bounds, stage + 1) - n_before
        waited = 0
        while True:
            for turn in range(n_shares):
                share = (thread + turn) % n_shares
                other = state + 8 * _OF_THREAD * share
                if turn > 0 and waited < _RESPECT and _load(other + 8 * _RUNS) > 0:
                    continue
                following, end = other + 8 * _NEXT, bounds[stage + 1, share]
                k = _load(following)
                while k < end and _load(failed) < 0:
                    stop = end if is_chain[stage] else k + 1
                    if _swap(following, k, stop):
                        for task in range(k, stop):
                            if _call(
                                tasks[task, 0], tasks[task, 1], tasks[task, 2], tasks[task, 3]
                            ):
                                _swap(failed, -1, task)
                                break
                        _add(own + 8 * _DONE, stop - k)
                        waited = 0
                    k = _load(following)
            n_done = _total(state, _DONE, n_shares)
            if n_done >= n_until:
                break
            if _load(failed) >= 0 and n_done >= _total(state, _NEXT, n_shares) - n_before:
                return
            waited += 1
            if waited > _PATIENCE:
                _yield_processor()


def address_of(function: Any) -> int:
    """Return the address of a function compiled for `SIGNATURE`."""
    overload = function.overloads[SIGNATURE]
    name = overload.fndesc.llvm_func_name
    return int(overload.library.get_pointer_to_function(name))
