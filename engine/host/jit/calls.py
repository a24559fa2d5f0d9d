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
from tilescope.engine.host.jit.stages import begin_job, has_left, help_along, run_stages
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
    #: Remember the clocks; exchange them with those remembered; take the later ones and row a.
    REMEMBER = 5
    EXCHANGE = 6
    JOIN = 7
    #: Set register a to b.
    SET = 8
    #: Add 1 to register a.
    COUNT = 9
    #: Subtract 1 from register a, and go to b unless that is 0.
    AGAIN = 10
    #: Go to a.
    JUMP = 11
    #: Go to a, and come back at the next RETURN.
    CALL = 12
    RETURN = 13
    #: Go to b if control a is 0; note the decision.
    IF = 14
    #: Go by control a and the c rows of cases from b on, the last of which is the default; note it.
    SWITCH = 15
    #: Go to b unless control a is zero or not as c says; note the decision if d is 1.
    WHILE = 16
    #: Note register a.
    NOTE = 17
    #: Return to Python, which does a.
    DO = 18


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
_REMEMBER, _EXCHANGE, _JOIN = int(Op.REMEMBER), int(Op.EXCHANGE), int(Op.JOIN)
_SET, _COUNT, _AGAIN, _JUMP = int(Op.SET), int(Op.COUNT), int(Op.AGAIN), int(Op.JUMP)
_CALL, _RETURN = int(Op.CALL), int(Op.RETURN)
_IF, _SWITCH, _NOTE, _DO = int(Op.IF), int(Op.SWITCH), int(Op.NOTE), int(Op.DO)
_ENDED, _FAILED, _DONE_BY_PYTHON = Return.DONE, Return.FAILED, Return.DO
_FULL, _WAKE, _PAUSE = Return.FULL, Return.WAKE, Return.PAUSE
_PLACE, _REASON, _ARGUMENT = Register.PLACE, Register.REASON, Register.ARGUMENT
_N_NOTED, _NOTES = Register.N_NOTED, Register.NOTES
_BUDGET, _STACK = Register.BUDGET, Register.STACK
#: What stands for no failed task: all are done, or threads are missing.
_FINE, _ALONE = -1, -2
#: Work of a turn of a loop, beside that of its calls.
_WORK_OF_TURN = 16


@jit
def _control(controls, number):  # type: ignore[no-untyped-def]
    """Return an integer on the device: its table has its address, its bytes and its sign."""
    row = controls + 24 * number
    octets = array_in(row, 0, 1, _uint8)
    last = octets.shape[0] - 1
    value = _int64(octets[last])
    if array_in(row, 2, 0, _int64) != 0 and value >= 128:
        value -= 256
    for k in range(last):
        value = value * 256 + _int64(octets[last - 1 - k])
    return value


@jit
def _note(registers, notes, value):  # type: ignore[no-untyped-def]
    """Add a decision to the list, if it is kept."""
    if registers[_NOTES] != 0:
        notes[registers[_N_NOTED]] = value
        registers[_N_NOTED] += 1


@jit
def _return(registers, place, reason, argument):  # type: ignore[no-untyped-def]
    """Say where to go on and why the caller returns."""
    registers[_PLACE], registers[_REASON], registers[_ARGUMENT] = place, reason, argument


@jit
def _time(op, row, spans, clocks):  # type: ignore[no-untyped-def]
    """Advance the clocks of the IPUs; those remembered are the second row."""
    n_ipus = clocks.shape[1]
    if op == _ADVANCE:
        for ipu in range(n_ipus):
            clocks[0, ipu] += spans[row, ipu]
    elif op == _MEET:
        latest = clocks[0, 0] + spans[row, 0]
        for ipu in range(1, n_ipus):
            latest = max(latest, clocks[0, ipu] + spans[row, ipu])
        for ipu in range(n_ipus):
            clocks[0, ipu] = latest + spans[row + 1, ipu]
    elif op == _REMEMBER:
        for ipu in range(n_ipus):
            clocks[1, ipu] = clocks[0, ipu]
    elif op == _EXCHANGE:
        for ipu in range(n_ipus):
            kept = clocks[1, ipu]
            clocks[1, ipu] = clocks[0, ipu]
            clocks[0, ipu] = kept
    else:
        for ipu in range(n_ipus):
            clocks[0, ipu] = max(clocks[0, ipu], clocks[1, ipu]) + spans[row, ipu]


@jit
def _go(code, place, registers):  # type: ignore[no-untyped-def]
    """Follow a jump or change a register; return the next place."""
    op, a, b = code[place, 0], code[place, 1], code[place, 2]
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
    if op == _SET:
        registers[a] = b
    else:
        registers[a] += 1
    return place + 1


@jit
def _decide(code, place, registers, controls, cases, notes):  # type: ignore[no-untyped-def]
    """Decide by an integer on the device, and note it; return the next place."""
    op, a, b, c = code[place, 0], code[place, 1], code[place, 2], code[place, 3]
    if op == _NOTE:
        _note(registers, notes, registers[a])
        return place + 1
    value = _control(controls, a)
    if op == _SWITCH:
        k = 0
        while k < c - 1 and cases[b + k, 0] != value:
            k += 1
        _note(registers, notes, k)
        return cases[b + k, 1]
    if op == _IF:
        _note(registers, notes, 0 if value != 0 else 1)
        return place + 1 if value != 0 else b
    goes_on = (value != 0) == (c != 0)
    if code[place, 4] != 0:
        _note(registers, notes, 1 if goes_on else 0)
    return place + 1 if goes_on else b


@jit
def _run_part(part, parts, tasks):  # type: ignore[no-untyped-def]
    """Make the calls of a part; return the one that failed."""
    for task in range(parts[part, 0], parts[part, 1]):
        if call_at(tasks[task, 0], tasks[task, 1], tasks[task, 2], tasks[task, 3]):
            return task
    return _FINE


@jit
def _share_part(part, parts, team, tasks, bounds, is_chain):  # type: ignore[no-untyped-def]
    """Make the calls of a part with the other threads; return the one that failed."""
    if team == 0 or has_left(team, bounds.shape[1]):
        return _ALONE
    first, n_stages = parts[part, 0], parts[part, 1]
    job = begin_job(team, part, bounds, first)
    return run_stages(0, team, job, tasks, bounds, is_chain, first, n_stages)


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
    cases, controls = array_in(table, 17, 2, _int64), array_in(table, 20, 0, _int64)
    registers, clocks = array_in(table, 21, 1, _int64), array_in(table, 23, 2, _int64)
    notes = array_in(table, 26, 1, _int64)
    place = registers[_PLACE]
    while True:
        op, a = code[place, 0], code[place, 1]
        if _RUN <= op <= _SHARE:
            if op == _RUN:
                failed = _run_part(a, parts, tasks)
            else:
                failed = _share_part(a, parts, team, tasks, bounds, is_chain)
            if failed != _FINE:
                _return(registers, place, _WAKE if failed == _ALONE else _FAILED, failed)
                return
            registers[_BUDGET] -= parts[a, 2]
            place += 1
        elif _ADVANCE <= op <= _JOIN:
            _time(op, a, spans, clocks)
            place += 1
        elif _SET <= op <= _RETURN:
            place = _go(code, place, registers)
            if registers[_BUDGET] < 0:
                _return(registers, place, _PAUSE, 0)
                return
        elif _IF <= op <= _NOTE:
            if registers[_N_NOTED] >= notes.size and registers[_NOTES] != 0:
                _return(registers, place, _FULL, 0)
                return
            place = _decide(code, place, registers, controls, cases, notes)
        else:
            _return(registers, place + 1, _DONE_BY_PYTHON if op == _DO else _ENDED, a)
            return


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
        cases : ndarray of int64, shape (n, 2)
            Values of a switch and where to go.
        registers : ndarray of int64
            See `Register`.
        clocks : ndarray of int64, shape (2, n_ipus)
            Cycles of every IPU: now, and remembered.
        notes : ndarray of int64
            Room for decisions.
    controls : ndarray of int64, shape (n, 3)
        Address, bytes, and whether it has a sign, of every integer that decides.
    """
    code, tasks, bounds, is_chain, parts, spans, cases, registers, clocks, notes = arrays
    before = [code, tasks, bounds, is_chain, parts, spans, cases]
    numbers = numbers_of([*before, controls.ctypes.data, registers, clocks, notes])
    return np.array(numbers, np.int64)
