"""Replicas: one program on several sets of IPUs at once, each with values of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import (
    Executable,
    Node,
    RemoteAccess,
    ReplicaAccess,
    Step,
    StreamAccess,
)
from tilescope.engine.errors import RunFailed
from tilescope.engine.execute.actions import Actions
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.execute.host_program import HostProgram, bind_all
from tilescope.engine.execute.notes import RunNotes
from tilescope.engine.execute.plan import LaunchPlan
from tilescope.engine.execute.remote import RemoteMemory
from tilescope.engine.execute.streams import HostStreams
from tilescope.engine.execute.threads import Threads
from tilescope.engine.program.print_format import PrintFormat

__all__ = ["Replica", "ReplicaRun", "run_together"]

Progress = Callable[[int, int, str], None]
Show = Callable[[str, NDArray[Any], PrintFormat | None], None]


class Replica:
    """One replica of a program: its streams, its streaming memory and, once loaded, its values.

    Parameters
    ----------
    number
        Its number, from 0.
    executable
        The program.
    """

    def __init__(self, number: int, executable: Executable) -> None:
        self.number = number
        self.streams = HostStreams()
        self.remote = RemoteMemory(executable.graph)
        self._executable = executable
        self._loaded: tuple[HostMemory, LaunchPlan, Actions] | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether it can run."""
        return self._loaded is not None

    @property
    def memory(self) -> HostMemory:
        """The values of its variables."""
        assert self._loaded is not None, "it is loaded first"
        return self._loaded[0]

    @property
    def plan(self) -> LaunchPlan:
        """Its launches."""
        assert self._loaded is not None, "it is loaded first"
        return self._loaded[1]

    def load(
        self, program: HostProgram, threads: Threads, show: Show, progress: Progress | None
    ) -> None:
        """Allocate memory, bind the vertices and compile their kernels.

        Parameters
        ----------
        program
            What the host computes.
        threads
            Threads that run large parts.
        show
            Prints a title and values.
        progress
            Called before every kernel is compiled with: done, total, name.

        Raises
        ------
        BadGraph
            When a kernel cannot be compiled.
        """
        executable = self._executable
        machine = executable.machine
        memory = HostMemory(executable.graph, program.layout, self.number)
        by_step = bind_all(executable, program, memory, progress)
        plan = LaunchPlan(by_step, threads, memory, machine.n_ipus)
        actions = Actions(plan, memory, machine, self._copy, show)
        self._loaded = memory, plan, actions

    def release(self) -> None:
        """Give its memory back."""
        self._loaded = None

    def run(self, root: Node, counters: NDArray[np.int64], *, is_recorded: bool) -> ReplicaRun:
        """Begin a run of a control program.

        Parameters
        ----------
        root
            The program.
        counters : ndarray of int64, shape (n_ipus,)
            Cycle counters of the IPUs at the start.
        is_recorded
            Whether all decisions are kept.
        """
        assert self._loaded is not None, "it is loaded first"
        _, plan, actions = self._loaded
        caller = plan.caller(root)
        steps = caller.run(
            lambda action, notes: actions.act(action, caller.clocks, counters, notes),
            is_recorded=is_recorded,
        )
        return ReplicaRun(self, steps, caller.clocks, lambda: caller.notes)

    def _copy(self, step: Step) -> None:
        """Execute a copy from or to the host or streaming memory."""
        match step.access:
            case RemoteAccess() as access:
                self.remote.copy(access, self.memory)
            case StreamAccess() as access:
                self.streams.copy(access, self.memory)


class ReplicaRun:
    """A replica that runs a program.

    Parameters
    ----------
    replica
        The replica.
    steps
        The steps in which it waits for others; the run goes on when the next one is asked for.
    clocks : ndarray of int64, shape (n_ipus,)
        Cycles of its IPUs since the start of the run, where the program keeps them.
    notes
        Returns what it noted so far.
    """

    def __init__(
        self,
        replica: Replica,
        steps: Iterator[Step],
        clocks: NDArray[np.int64],
        notes: Callable[[], RunNotes],
    ) -> None:
        self.replica, self.clocks = replica, clocks
        self._steps, self._notes = steps, notes

    @property
    def notes(self) -> RunNotes:
        """What it noted so far."""
        return self._notes()

    def until_meeting(self) -> Step | None:
        """Run until it waits for the other replicas: there; None at the end of the program."""
        return next(self._steps, None)


def run_together(runs: Sequence[ReplicaRun], *, keeps_clocks: bool) -> None:
    """Run a program on all replicas; they wait for each other where the program says so.

    Parameters
    ----------
    runs
        The replicas that the host computes, from the first on.
    keeps_clocks
        Whether the clocks of the runs are kept: those that are early wait.

    Raises
    ------
    RunFailed
        When replicas reach other steps, which would wait forever.
    """
    while True:
        steps = [run.until_meeting() for run in runs]
        first = steps[0]
        for number, step in enumerate(steps):
            if step is not first:
                raise RunFailed(
                    f"Replica {number} is at {_at(step)} when replica 0 is at {_at(first)}, and"
                    " both would wait forever: all replicas have to reach the copies between them"
                    " in one order, whatever their data decide; with"
                    " target.syncReplicasIndependently they do not wait for copies from the host"
                )
        if first is None:
            return
        if keeps_clocks and first.meets_replicas:
            latest = max(int(run.clocks.max()) for run in runs)
            for run in runs:
                run.notes.add_wait(latest - int(run.clocks.max()))
                run.clocks[:] = latest
        if isinstance(first.access, ReplicaAccess):
            _copy_between(first.access, [run.replica.memory for run in runs])


def _at(step: Step | None) -> str:
    return "its end" if step is None else f"step {step.name!r}"


def _copy_between(access: ReplicaAccess, memories: Sequence[HostMemory]) -> None:
    """Copy between replicas; those that are not computed hold what one that is computed holds."""
    n, n_parts = len(memories), len(access.sources)
    sent = [memory.stored(access.source).reshape(n_parts, -1) for memory in memories]
    for replica, memory in enumerate(memories):
        parts = [sent[sources[replica] % n][part] for part, sources in enumerate(access.sources)]
        memory.store(access.target, np.concatenate(parts).reshape(access.target.shape))
