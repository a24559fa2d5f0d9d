"""Calls of compiled functions by address: a whole list of them in one call from Python."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from tilescope.engine.host.jit._jit import intrinsic, jit
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.tables import array_in, call_at

__all__ = ["new_state", "run_tasks"]

_I64 = ir.IntType(64)
_int64, _bool = np.int64, np.bool_

# Threads that run stages of tasks share a few numbers: two cache lines of each of them, which it
# alone writes as a rule, and one for all. Lines come in pairs, which processors fetch together.
#: Numbers of a thread: the next task of its share, the tasks that it has done, and whether it runs.
_NEXT, _DONE, _RUNS = 0, 16, 17
_OF_THREAD = 32
#: Rounds that a thread waits before it takes a task of another one that runs: some microsecond.
_RESPECT = 1 << 7
#: Rounds that a thread waits before it yields its processor: some ten microseconds.
_PATIENCE = 1 << 12


def _load_number(typing_context, address):  # type: ignore[no-untyped-def]
    """Load the int64 at an address, which other threads change."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer_ = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.load_atomic(pointer_, "seq_cst", 8)

    return types.int64(types.int64), generate


def _add_number(typing_context, address, value):  # type: ignore[no-untyped-def]
    """Add to the int64 at an address; return what was there."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer_ = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.atomic_rmw("add", pointer_, arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


def _swap_numbers(typing_context, address, expected, value):  # type: ignore[no-untyped-def]
    """Replace the int64 at an address if it is the expected one; return whether it was."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer_ = builder.inttoptr(arguments[0], _I64.as_pointer())
        pair = builder.cmpxchg(pointer_, *arguments[1:], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


def _sched_yield(typing_context):  # type: ignore[no-untyped-def]
    """Let another thread have the processor."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.IntType(32), [])
        function = ir.Function(builder.module, kind, "sched_yield")
        return builder.call(function, [])

    return types.int32(), generate


_load = intrinsic(_load_number)
_add = intrinsic(_add_number)
_swap = intrinsic(_swap_numbers)
_yield_processor = intrinsic(_sched_yield)


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


def _run_tasks(thread, state, table):  # type: ignore[no-untyped-def]
    """Run stages of tasks, alone or beside other threads that got the same arrays.

    Tasks of a stage need nothing of each other, unless it is a chain, which one thread runs in
    order; a stage begins when the one before is done. Every thread has a share of a stage, the same
    part of the memory in most stages, so that data are in the cache of the processor that takes
    them next. It takes tasks of another share when its own is empty and that thread has not
    started, or lets it wait: none waits for a thread that the system suspends before a task.
    Returns when all tasks are done, or one failed and those in progress are done.

    Parameters
    ----------
    thread
        Number of the thread: its share.
    state : int
        Address of the array of `new_state`; its last number is the task that failed, or -1.
    table : int
        Address of the table of three arrays.

        tasks : ndarray of int64, shape (n, 5)
            Address of the function, first piece, last, table, and a number of the caller's; those
            of a share follow each other.
        bounds : ndarray of int64, shape (n_stages + 1, n_shares)
            First task of every stage in every share; of the row after the last stage, the end.
        is_chain : ndarray of bool, shape (n_stages,)
            Whether a stage is a chain; its tasks are all of one share.
    """
    tasks = array_in(table, 0, 2, _int64)
    bounds, is_chain = array_in(table, 3, 2, _int64), array_in(table, 6, 1, _bool)
    n_stages, n_shares = bounds.shape[0] - 1, bounds.shape[1]
    failed, own_state = state + 8 * _OF_THREAD * n_shares, state + 8 * _OF_THREAD * thread
    _add(own_state + 8 * _RUNS, 1)
    n_before = _sum(bounds, 0)
    for stage in range(n_stages):
        n_until = _sum(bounds, stage + 1) - n_before
        waited = 0
        while True:
            for turn in range(n_shares):
                share = (thread + turn) % n_shares
                other_state = state + 8 * _OF_THREAD * share
                if turn > 0 and waited < _RESPECT and _load(other_state + 8 * _RUNS) > 0:
                    continue
                following, end = other_state + 8 * _NEXT, bounds[stage + 1, share]
                k = _load(following)
                while k < end and _load(failed) < 0:
                    stop = end if is_chain[stage] else k + 1
                    if _swap(following, k, stop):
                        for task in range(k, stop):
                            if call_at(
                                tasks[task, 0], tasks[task, 1], tasks[task, 2], tasks[task, 3]
                            ):
                                _swap(failed, -1, task)
                                break
                        _add(own_state + 8 * _DONE, stop - k)
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


#: See `_run_tasks`.
run_tasks = Entry("run_tasks", _run_tasks)
