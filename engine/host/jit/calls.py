"""The caller of launches: runs a program of instructions, loops and branches included.

Python builds the instructions (`engine/execute/instructions.py`). This one function makes the
calls, decides by the values on the device, and keeps the clocks of the IPUs. It returns to Python
for what only Python can do, which then calls again, to go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.jit.stages import begin_job, help_along, run_stages
from tilescope.engine.host.jit.tables import array_in, call_at, numbers_of

__all__ = ["N_REGISTERS", "Op", "Register", "Return", "call_table", "load_caller", "run_calls"]

_int64, _uint8, _bool = np.int64, np.uint8, np.bool_


class Op(IntEnum):
    """Instructions: their numbers are a, b, c and d."""

    #: Return: the program is done.
    END = 0
    #: Make the calls of part a, on this thread.
    RUN = 1
    #: Make the calls of part a, together with the other threads.
    SHARE = 2
    #: Advance the clock of every IPU by row a of the spans.
    ADVANCE = 3
    #: All IPUs meet row a after now, and are ready row a + 1 later.
    MEET = 4
    #: Set register a to b.
    SET = 5
    #: Add 1 to register a.
    COUNT = 6
    #: Subtract 1 from register a, and go to b unless that is 0.
    AGAIN = 7
    #: Go to a.
    JUMP = 8
    #: Go to a, and come back at the next RETURN.
    CALL = 9
    RETURN = 10
    #: Go to b if control a is c, or if it is not and d is 0.
    TEST = 11
    #: Note a decision: a, or register a if b is 1.
    NOTE = 12
    #: Return to Python, which does a.
    DO = 13


class Return:
    """Why the caller returns to Python: plain integers, which are quick to compare."""

    DONE = 0
    #: A task failed: its number is the argument.
    FAILED = 1
    #: Python does the argument.
    DO = 2
    #: The list of decisions is full.
    FULL = 3
    #: Other threads are needed.
    WAKE = 4
    #: Time has passed: interrupts reach Python only.
    PAUSE = 5


class Register:
    """Registers of the caller; counters of loops and the stack of calls follow."""

    #: The next instruction.
    PLACE = 0
    #: Why it returned, and the argument of that.
    REASON = 1
    ARGUMENT = 2
    #: Decisions in the list, and whether they are noted.
    N_NOTED = 3
    NOTES = 4
    #: Work until it returns for interrupts.
    BUDGET = 5
    #: First free place of the stack.
    STACK = 6


N_REGISTERS = 7

# Constants for compiled code, which knows no enumerations.
_RUN, _SHARE, _ADVANCE, _MEET = int(Op.RUN), int(Op.SHARE), int(Op.ADVANCE), int(Op.MEET)
_SET, _AGAIN, _JUMP, _DO = int(Op.SET), int(Op.AGAIN), int(Op.JUMP), int(Op.DO)
_CALL, _RETURN, _TEST, _NOTE = int(Op.CALL), int(Op.RETURN), int(Op.TEST), int(Op.NOTE)
_ENDED, _FAILED, _LEFT_TO_PYTHON = Return.DONE, Return.FAILED, Return.DO
_FULL, _WAKE, _PAUSE = Return.FULL, Return.WAKE, Return.PAUSE
_PLACE, _REASON, _ARGUMENT = Register.PLACE, Register.REASON, Register.ARGUMENT
_N_NOTED, _NOTES = Register.N_NOTED, Register.NOTES
_BUDGET, _STACK = Register.BUDGET, Register.STACK
#: Work of a turn of a loop, beside that of its calls.
_WORK_OF_TURN = 16


@jit
def _go(code, place, registers, controls):  # type: ignore[no-untyped-def]
    """Follow a jump or change a register; return the next place."""
    op, a, b = code[place, 0], code[place, 1], code[place, 2]
    if op == _TEST:
        octets = array_in(controls + 24 * a, 0, 1, _uint8)
        last = octets.shape[0] - 1
        value = _int64(octets[last])
        if array_in(controls + 24 * a, 2, 0, _int64) != 0 and value >= 128:
            value -= 256
        for k in range(last):
            value = value * 256 + _int64(octets[last - 1 - k])
        return b if (value == code[place, 3]) == (code[place, 4] != 0) else place + 1
    if op == _AGAIN:
        registers[a] -= 1
        registers[_BUDGET] -= _WORK_OF_TURN
        return b if registers[a] > 0 else place + 1
    if op == _JUMP:
        registers[_BUDGET] -= _WORK_OF_TURN
        return a
    if op == _CALL:
        registers[registers[_STACK]] = place + 1
        registers[_STACK] += 1
        return a
    if op == _RETURN:
        registers[_STACK] -= 1
        return registers[registers[_STACK]]
    registers[a] = b if op == _SET else registers[a] + 1
    return place + 1


@jit
def _time(clocks, spans, row, meets):  # type: ignore[no-untyped-def]
    """Advance the clocks of the IPUs; let them all wait for the last one, and go on."""
    latest = 0
    for ipu in range(clocks.shape[0]):
        clocks[ipu] += spans[row, ipu]
        latest = max(latest, clocks[ipu])
    if meets:
        for ipu in range(clocks.shape[0]):
            clocks[ipu] = latest + spans[row + 1, ipu]


def _run_calls(thread, team, table):  # type: ignore[no-untyped-def]
    """Run instructions from where the registers say, or help another thread that does.

    Parameters
    ----------
    thread
        0 for the thread that runs the program.
    team : int
        Address of the array of `new_team`; 0 if there is none.
    table : int
        Address of the table of `call_table`.
    """
    tasks, bounds = array_in(table, 3, 2, _int64), array_in(table, 6, 2, _int64)
    is_chain, parts = array_in(table, 9, 1, _bool), array_in(table, 11, 2, _int64)
    if thread > 0:
        help_along(thread, team, tasks, bounds, is_chain, parts)
        return
    code, spans = array_in(table, 0, 2, _int64), array_in(table, 14, 2, _int64)
    controls, registers = array_in(table, 17, 0, _int64), array_in(table, 18, 1, _int64)
    clocks, notes = array_in(table, 20, 1, _int64), array_in(table, 22, 1, _int64)
    place, reason, argument = registers[_PLACE], -1, 0
    while reason < 0:
        op, a = code[place, 0], code[place, 1]
        if op == _RUN:
            for task in range(parts[a, 0], parts[a, 1]):
                if call_at(tasks[task, 0], tasks[task, 1], tasks[task, 2], tasks[task, 3]):
                    reason, argument = _FAILED, task
                    break
            registers[_BUDGET] -= parts[a, 2]
            place += 1
        elif _ADVANCE <= op <= _MEET:
            _time(clocks, spans, a, op == _MEET)
            place += 1
        elif _SET <= op <= _TEST:
            place = _go(code, place, registers, controls)
            if registers[_BUDGET] < 0:
                reason = _PAUSE
        elif op == _NOTE:
            if registers[_NOTES] != 0:
                if registers[_N_NOTED] >= notes.size:
                    reason = _FULL
                    continue
                notes[registers[_N_NOTED]] = registers[a] if code[place, 2] != 0 else a
                registers[_N_NOTED] += 1
            place += 1
        elif op == _SHARE:
            job = begin_job(team, a, bounds, parts[a, 0])
            if job < 0:
                reason = _WAKE
                continue
            argument = run_stages(0, team, job, tasks, bounds, is_chain, parts[a, 0], parts[a, 1])
            reason = _FAILED if argument >= 0 else -1
            registers[_BUDGET] -= parts[a, 2]
            place += 1
        else:
            reason, argument = _LEFT_TO_PYTHON if op == _DO else _ENDED, a
            place += 1
    registers[_PLACE], registers[_REASON], registers[_ARGUMENT] = place, reason, argument


_caller = Entry("run_calls", _run_calls)


def load_caller() -> None:
    """Load the code of the caller, before several threads call it."""
    if IS_COMPILED:
        _caller.load()


def run_calls(thread: int, team: NDArray[np.int64] | None, table: int) -> None:
    """Run instructions, without the interpreter's lock.

    Parameters
    ----------
    thread
        0 for the thread that runs the program; the others help it until the team ends.
    team : ndarray of int64
        Of `new_team`; None if no other thread helps.
    table
        Address of the table of `call_table`, whose arrays live until all threads have returned.
    """
    address = 0 if team is None else team.ctypes.data
    if IS_COMPILED:
        _caller.run(thread, address, table)
    else:
        _run_calls(thread, address, table)  # type: ignore[no-untyped-call]


def call_table(arrays: Sequence[NDArray[Any]], controls: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the table that the caller takes: ndarray of int64.

    Parameters
    ----------
    arrays
        Contiguous arrays, in this order; the table does not keep them alive.

        code : ndarray of int64, shape (n, 5)
            The instructions, see `Op`.
        tasks : ndarray of int64, shape (n, 5)
            See `run_stages`, as for the next two.
        bounds : ndarray of int64, shape (n, n_shares)
        is_chain : ndarray of bool, shape (n,)
        parts : ndarray of int64, shape (n, 3)
            First task and end of a part of the program for one thread, or first row of bounds and
            number of stages of a shared one; and its work.
        spans : ndarray of int64, shape (n, n_ipus)
            Cycles.
        registers : ndarray of int64
            See `Register`.
        clocks : ndarray of int64, shape (n_ipus,)
            Cycles of every IPU since the start of the run.
        notes : ndarray of int64
            Room for decisions.
    controls : ndarray of int64, shape (n, 3)
        Address, bytes, and whether it has a sign, of every integer that decides.
    """
    code, tasks, bounds, is_chain, parts, spans, registers, clocks, notes = arrays
    before = [code, tasks, bounds, is_chain, parts, spans]
    numbers = numbers_of([*before, controls.ctypes.data, registers, clocks, notes])
    return np.array(numbers, np.int64)
