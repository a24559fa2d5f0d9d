"""A program of the launch plan, ready to run: its instructions, calls and clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Step
from tilescope.engine.errors import KernelFailed
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.execute.instructions import Action, Instructions
from tilescope.engine.execute.notes import MOST_DECISIONS, RunNotes
from tilescope.engine.execute.threads import Tasks, Team, Threads
from tilescope.engine.host.jit.calls import (
    Op,
    Register,
    Return,
    call_table,
    load_caller,
    run_calls,
)
from tilescope.engine.host.jit.settings import IS_COMPILED

__all__ = ["Caller"]

#: Work between two returns for interrupts: some ten milliseconds.
_BUDGET = 1 << 26


class Caller:
    """Runs the instructions of one program.

    Parameters
    ----------
    instructions
        The program.
    threads
        Threads that share its large parts.
    memory
        Holds the values that decide.
    n_ipus
        IPUs of the machine.
    """

    def __init__(
        self, instructions: Instructions, threads: Threads, memory: HostMemory, n_ipus: int
    ) -> None:
        self.instructions = instructions
        self._threads = threads
        code = np.array(instructions.rows, np.int64).reshape(-1, 5)
        self._actions = instructions.actions
        if IS_COMPILED:
            load_caller()  # before several threads call it
            tasks = Tasks(instructions.parts, threads)
            runs = np.flatnonzero(code[:, 0] == Op.RUN)
            shared = np.array(tasks.is_shared, bool)[code[runs, 1]]
            code[runs[shared], 0] = Op.SHARE
        else:
            tasks = Tasks([], threads)
            self._actions = [*self._actions]
            for place in np.flatnonzero(code[:, 0] == Op.RUN):
                part = instructions.parts[code[place, 1]]
                code[place, :2] = Op.DO, len(self._actions)
                self._actions.append([Action("launch", part)])
        self._tasks = tasks
        places = [memory.place(piece) for view in instructions.controls for piece in view.pieces]
        controls = np.array(places, np.int64).reshape(-1, 3)
        spans = np.array(instructions.spans, np.int64).reshape(-1, n_ipus)
        self._registers = np.zeros(instructions.n_registers, np.int64)
        #: Cycles of the IPUs since the start of the run, of a program that is not foldable: ndarray
        #: of int64, shape (n_ipus,).
        self.clocks = np.zeros(n_ipus, np.int64)
        self._notes = np.empty(MOST_DECISIONS if Op.NOTE in code[:, 0] else 0, np.int64)
        arrays = [
            *(code, tasks.rows, tasks.bounds, tasks.is_chain, tasks.parts, spans),
            *(self._registers, self.clocks, self._notes),
        ]
        self._owned = arrays, controls, memory
        self._table = call_table(arrays, controls)
        self._table_address = self._table.ctypes.data
        #: What the last run noted.
        self.notes = RunNotes(is_recorded=False)
        # What Python does first and last takes no call.
        begins = code[0, 0] == Op.DO
        self._first: Sequence[Action] = self._actions[code[0, 1]] if begins else ()
        ends = np.flatnonzero((code[:-1, 0] == Op.DO) & (code[1:, 0] == Op.END))
        self._is_last = np.isin(np.arange(len(self._actions)), code[ends, 1]).tolist()
        self._meets = [any(a.work == "meet" for a in actions) for actions in self._actions]
        self._initial = np.zeros_like(self._registers)
        self._initial[Register.PLACE] = begins
        self._initial[Register.NOTES] = 1
        self._initial[Register.BUDGET] = _BUDGET
        self._initial[Register.STACK] = instructions.stack

    def run(self, act: Callable[[Action, RunNotes], None], *, is_recorded: bool) -> Iterator[Step]:
        """Run the program once, and yield the steps in which replicas wait for each other.

        Parameters
        ----------
        act
            Does what only Python can do.
        is_recorded
            Whether all decisions are kept.

        Raises
        ------
        KernelFailed
            When the function of a codelet raised.
        """
        registers = self._registers
        registers[:] = self._initial
        self.clocks[:] = 0
        notes = self.notes = RunNotes(is_recorded=is_recorded)
        yield from _done(self._first, act, notes)
        team: Team | None = None
        try:
            while True:
                run_calls(0, None if team is None else team.numbers, self._table_address)
                _, reason, argument = registers[:3].tolist()
                if reason == Return.DO:
                    if team is not None and self._meets[argument]:
                        team.end()
                        team = None
                    yield from _done(self._actions[argument], act, notes)
                    if self._is_last[argument]:
                        break
                elif reason == Return.DONE:
                    break
                elif reason == Return.WAKE:
                    if team is not None:
                        team.end()
                    team = self._threads.wake(self._help_along)
                else:
                    self._go_on(reason, argument, notes)
        finally:
            if team is not None:
                team.end()
        if self._notes.size:
            self._take_notes(notes, is_last=True)

    def _go_on(self, reason: int, argument: int, notes: RunNotes) -> None:
        """Prepare for the next call.

        Raises
        ------
        KernelFailed
            When a task failed.
        """
        if reason == Return.PAUSE:
            self._registers[Register.BUDGET] = _BUDGET
        elif reason == Return.FULL:
            self._take_notes(notes, is_last=False)
        else:
            self._fail(argument)

    def _help_along(self, thread: int, team: NDArray[np.int64]) -> None:
        """Take part in a run as one of the other threads; the arrays live until then."""
        run_calls(thread, team, self._table_address)

    def _take_notes(self, notes: RunNotes, *, is_last: bool) -> None:
        registers = self._registers
        notes.add_decisions(self._notes[: registers[Register.N_NOTED]], is_last=is_last)
        registers[Register.N_NOTED] = 0
        registers[Register.NOTES] = notes.is_whole

    def _fail(self, task: int) -> None:
        """Raise what the launch of a task raises.

        Raises
        ------
        KernelFailed
            Always.
        """
        launch = self._tasks.launches[int(self._tasks.rows[task, -1])]
        launch.run()  # again, for its exception
        raise KernelFailed(
            f"The kernel of {launch.codelet_name} raised an exception on a vertex in compute set"
            f" {launch.compute_set_name!r}, and not when it was repeated. The run ends there: with"
            " NUMBA_DISABLE_JIT=1 in the environment it runs as plain Python"
        )


def _done(
    actions: Sequence[Action], act: Callable[[Action, RunNotes], None], notes: RunNotes
) -> Iterator[Step]:
    """Do actions, and yield the steps in which replicas wait for each other."""
    for action in actions:
        if action.work == "meet":
            yield action.step
        else:
            act(action, notes)
