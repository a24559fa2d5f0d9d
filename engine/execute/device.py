"""The device: loads an executable, runs its programs, and notifies an observer of every run."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import a_count, a_text, numbers, shown
from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.executable.executable import Executable, Node, RemoteAccess
from tilescope.engine.compiler.memory.overflow import describe_overflow
from tilescope.engine.errors import BadGraph, EngineBusy, EngineClosed, OutOfTileMemory, RunFailed
from tilescope.engine.execute.host_program import host_program
from tilescope.engine.execute.notes import RunNotes
from tilescope.engine.execute.replay import Replays
from tilescope.engine.execute.replica import Replica, run_together
from tilescope.engine.execute.streams import call_back
from tilescope.engine.execute.threads import thread_pool
from tilescope.engine.execute.timeline import Timeline, timeline_of
from tilescope.engine.graph import RemoteBuffer, Variable, View
from tilescope.engine.host.memory import available_bytes
from tilescope.engine.program.print_format import PrintFormat
from tilescope.tracepoints import Tracepoint

__all__ = ["Device", "RunObserver"]

_log = logging.getLogger(__name__)

#: Before the name of a remote buffer, in a snapshot.
_REMOTE = "remote:"

Progress = Callable[[int, int, str], None]


class RunObserver(Protocol):
    """Receives every run as it ends."""

    @property
    def is_recording(self) -> bool:
        """Whether the next run is recorded."""

    def noting_failure(self, action: str) -> AbstractContextManager[None]:
        """Return a context that records an exception on its way to the caller.

        Parameters
        ----------
        action
            The operation in progress.
        """

    def record_run(
        self,
        name: str,
        program: int,
        timelines: Callable[[], Sequence[Timeline]],
        start: NDArray[np.int64],
        wall_start_us: int,
        wall_duration_us: int,
    ) -> None:
        """Record a run.

        Parameters
        ----------
        name
            Name of the run; may be empty.
        program
            Index of the control program.
        timelines
            Returns those of the run, per IPU, starting at cycle 0; called while the run is the last
            one of its program, if at all.
        start : ndarray of int64, shape (n_ipus,)
            Cycle counters of the IPUs at the start of the run.
        wall_start_us, wall_duration_us
            Wall-clock time of the simulator, microseconds.
        """


class Device:
    """The simulated machine running one executable: its memory, streams and cycle counters.

    Parameters
    ----------
    executable
        Result of `engine.compile_programs`.
    observer
        Notified of every run.
    n_computed_replicas
        Replicas whose values are computed, the first ones; None for all. The others are costed, and
        hold what those hold: replica r what replica r modulo `n_computed_replicas` does.
    profiled_replica
        The replica whose times are those of a run.

    Raises
    ------
    BadGraph
        When the numbers of replicas do not exist.
    """

    def __init__(
        self,
        executable: Executable,
        observer: RunObserver,
        *,
        n_computed_replicas: int | None = None,
        profiled_replica: int = 0,
    ) -> None:
        self.executable = executable
        self._observer = observer
        n_replicas = executable.machine.n_replicas
        n_computed = a_count(
            "The number of computed replicas",
            n_replicas if n_computed_replicas is None else n_computed_replicas,
            1,
            n_replicas,
        )
        self._profiled = a_count("The profiled replica", profiled_replica, 0, n_replicas - 1)
        self._profiled %= n_computed
        self._replicas = [Replica(number, executable) for number in range(n_computed)]
        self._is_closed = False
        # Re-entrant: an interrupt may leave it held, by the thread that would wait for it.
        self._turn = threading.RLock()
        self._is_at_work = False
        #: Cycle counters of the IPUs: replaced as a whole, never changed.
        self._counters: NDArray[np.int64] = np.zeros(executable.machine.n_ipus, np.int64)
        self._is_loaded = False
        self._pool = thread_pool()
        self._replays = Replays(executable.machine)
        #: By program: the timelines of the last run, or of every run, and what the last one noted.
        self._timelines: dict[int, Sequence[Timeline]] = {}
        self._notes: dict[int, RunNotes] = {}
        self._n_cycles: dict[int, NDArray[np.int64]] = {}
        self._last_program: int | None = None
        #: Receives the lines that PrintTensor prints.
        self.print_line: Callable[[str], None] = _to_standard_output

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        self.close()

    def load(self, progress: Progress | None = None) -> None:
        """Allocate memory, bind the vertices and compile their kernels.

        Parameters
        ----------
        progress
            Called before every kernel is compiled with: done, total, name.

        Raises
        ------
        BadGraph
            When a kernel cannot be compiled.
        EngineBusy
            When `progress` calls it.
        EngineClosed
            When the engine is closed.
        OutOfTileMemory
            When the program does not fit.
        RunFailed
            When the replicas do not fit into the host's memory.
        """
        self._check_open()
        if progress is not None and not callable(progress):
            raise BadGraph(f"Expected a function as progress, got {shown(progress)}")
        if self._is_loaded:
            return
        with self._alone("load"), self._observer.noting_failure("Loading the program"):
            self._check_open()
            self._load(progress)

    def _load(self, progress: Progress | None = None) -> None:
        if self._is_loaded:
            return
        self._check_fits()
        with Tracepoint(POPLAR, "engine.load"):
            program = host_program(self.executable)
            self._check_host_memory(program.layout.n_bytes)
            for replica in self._replicas:
                show = partial(self._show, replica.number)
                replica.load(program, self._pool, show, None if replica.number else progress)
            self._is_loaded = True

    def _check_host_memory(self, n_bytes: int) -> None:
        """Raise RunFailed if the values of several replicas do not fit into the host's memory.

        Parameters
        ----------
        n_bytes
            Of one replica.
        """
        n_computed, free = len(self._replicas), available_bytes()
        if n_computed == 1 or n_computed * n_bytes <= free:
            return
        fitting = max(1, free // n_bytes)
        raise RunFailed(
            f"The values of {n_computed} replicas take {n_computed * n_bytes / 2**30:,.1f} GiB of"
            f" this computer's memory, of which {free / 2**30:,.1f} GiB are free: compute"
            f" {fitting} of them and cost them all, with n_computed_replicas={fitting}, or"
            f" --replicas-computed {fitting} on the command line"
        )

    @property
    def n_computed_replicas(self) -> int:
        """Replicas whose values are computed."""
        return len(self._replicas)

    def connect_stream(
        self, stream: str, source: ArrayLike | Callable[..., Any], replica: int | None = None
    ) -> None:
        """Connect a host stream.

        Parameters
        ----------
        stream
            Its name in the program.
        source
            For input, an array or a function without arguments that returns one; for output, an
            array to fill, or a function that takes one. A function is called at every copy.
        replica
            Number of the replica whose stream it is; None connects it to all of them.

        Raises
        ------
        BadGraph
            When the name is not a string, or the replica does not exist.
        EngineClosed
            When the engine is closed.
        """
        self._check_open()
        for one in self._some(replica):
            one.streams.connect(stream, source)

    def output(self, stream: str, replica: int = 0) -> NDArray[Any]:
        """Return the values that the last run of a replica wrote to an output stream.

        Raises
        ------
        BadGraph
            When the replica does not exist.
        BadInput
            When no stream of that name was written.
        """
        return self._one(replica).streams.output(stream)

    def read_tensor(self, tensor: View, replica: int = 0) -> NDArray[Any]:
        """Return the values that a tensor has on a replica, in its logical shape.

        Raises
        ------
        BadGraph
            When it is not a tensor of this engine's compiled graph, or a value within a model that
            is not kept, or the replica does not exist.
        EngineClosed
            When the engine is closed.
        """
        self._check_own(tensor)
        self.load()
        memory = self._one(replica).memory
        memory.check_kept(tensor)
        return memory.read(tensor)

    def write_tensor(self, tensor: View, values: ArrayLike, replica: int | None = None) -> None:
        """Set the values of a tensor on a replica, or on all of them.

        Raises
        ------
        BadGraph
            When it is not a tensor of this engine's graph, or a value within a model that is not
            kept, or a value is out of its type's range, or the replica does not exist.
        BadInput
            When the shape differs.
        EngineClosed
            When the engine is closed.
        """
        self._check_own(tensor)
        self.load()
        name = tensor.name
        array = numbers(f"The values of {name!r}", values)
        for one in self._some(replica):
            one.memory.check_kept(tensor)
            one.memory.write(tensor, array, name)

    def _one(self, replica: int) -> Replica:
        """Return a replica.

        Raises
        ------
        BadGraph
            When it does not exist, or is not computed.
        """
        n_replicas, n_computed = self.executable.machine.n_replicas, len(self._replicas)
        number = a_count("The number of the replica", replica, 0, n_replicas - 1)
        if number >= n_computed:
            raise BadGraph(
                f"Replica {number} is not computed, as the first {n_computed} of {n_replicas} are:"
                f" ask for replica {number % n_computed}, which holds the same"
            )
        return self._replicas[number]

    def _some(self, replica: int | None) -> Sequence[Replica]:
        return self._replicas if replica is None else [self._one(replica)]

    def _check_own(self, tensor: View) -> None:
        self.executable.graph.check_own(tensor)

    def snapshot(self) -> list[dict[str, NDArray[Any]]]:
        """Return copies of all that every replica keeps from run to run, for `restore`.

        That is variables, and remote buffers that programs write.

        The host copies them from where it simulates the tiles: no program runs.

        Raises
        ------
        EngineClosed
            When the engine is closed.
        """
        self._check_open()
        self.load()
        return [
            {variable.name: one.memory.flat(variable).copy() for variable in self._kept()}
            | {_REMOTE + buffer.name: one.remote.read(buffer, None) for buffer in self._changing()}
            for one in self._replicas
        ]

    def restore(self, snapshot: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        """Set the variables and remote buffers to what they were at a `snapshot`.

        Raises
        ------
        EngineClosed
            When the engine is closed.
        """
        self._check_open()
        self.load()
        for one, values in zip(self._replicas, snapshot, strict=True):
            for variable in self._kept():
                one.memory.flat(variable)[:] = values[variable.name]
            for buffer in self._changing():
                one.remote.write(buffer, values[_REMOTE + buffer.name], None)

    def _kept(self) -> list[Variable]:
        return [
            variable
            for variable in self.executable.graph.variables
            if variable.values is not None and variable.category != "constant"
        ]

    def _changing(self) -> list[RemoteBuffer]:
        """Return the remote buffers that begin with contents and that programs write."""
        written = {
            step.access.buffer.buffer_id
            for step in self.executable.steps
            if isinstance(step.access, RemoteAccess) and not step.access.is_input
        }
        buffers = self.executable.graph.remote_buffers
        return [b for b in buffers if b.values is not None and b.buffer_id in written]

    def read_remote(
        self, buffer: RemoteBuffer, row: int | None = None, replica: int = 0
    ) -> NDArray[Any]:
        """Return one row of a replica's remote buffer, or all rows.

        Raises
        ------
        BadGraph
            When the buffer belongs to another graph, or the replica does not exist.
        BadInput
            When the row is out of range.
        EngineClosed
            When the engine is closed.
        """
        self._check_open()
        return self._one(replica).remote.read(buffer, row)

    def write_remote(
        self,
        buffer: RemoteBuffer,
        values: ArrayLike,
        row: int | None = None,
        replica: int | None = None,
    ) -> None:
        """Set one row of a remote buffer, or all rows, of a replica, or of all of them.

        Raises
        ------
        BadGraph
            When the buffer belongs to another graph, or the replica does not exist.
        BadInput
            When the row is out of range, or the shape differs.
        EngineClosed
            When the engine is closed.
        """
        self._check_open()
        for one in self._some(replica):
            one.remote.write(buffer, values, row)

    @contextmanager
    def _alone(self, action: str) -> Iterator[None]:
        """Hold off other threads until this one is done.

        Raises
        ------
        EngineBusy
            When this thread is already running: a callback of the engine calls it.
        """
        with self._turn:
            if self._is_at_work and self._is_called_by_itself():
                raise EngineBusy(
                    f"Cannot {action} this engine from one of its own callbacks:"
                    " wait until the run ends"
                )
            self._is_at_work = True
            try:
                yield
            finally:
                self._is_at_work = False

    def _is_called_by_itself(self) -> bool:
        """Return whether this thread is in two calls of the engine: its callback calls it.

        An interrupt may leave the mark of a call that has long ended.
        """
        n_calls = 0
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            n_calls += frame.f_code in _CALLS and frame.f_locals.get("self") is self
            frame = frame.f_back
        return n_calls > 1

    def run(self, program: int = 0, name: str = "") -> None:
        """Run a control program once; other threads wait for it.

        Parameters
        ----------
        program
            Its index.
        name
            Name of the run in the report.

        Raises
        ------
        BadGraph
            When the program is unknown, or a kernel cannot be compiled.
        BadInput
            When a stream is not connected or gives an array of another shape.
        CallbackFailed, KernelFailed
            When a user-supplied function raised.
        EngineBusy
            When a callback of the run calls it.
        EngineClosed
            When the engine is closed.
        OutOfTileMemory
            When the program does not fit.
        """
        root = self._root(program)
        a_text("The name of a run", name)
        with self._alone("run"):
            self._check_open()
            self._run(root, program, name)

    def _run(self, root: Node, program: int, name: str) -> None:
        label = f"Run {name!r}" if name else "A run"
        with self._observer.noting_failure(f"{label} of program {program}"):
            self._load()
            with Tracepoint(POPLAR, f"engine.run {name}" if name else "engine.run"):
                began = time.time_ns()
                timer = time.perf_counter_ns()
                n_cycles = self._run_root(root, program)
                elapsed_us = (time.perf_counter_ns() - timer) // 1000
            start = self._counters
            # First: an interrupt before the run is recorded leaves a gap, not an overlap.
            self._counters = start + n_cycles
            self._last_program = program
            timelines = partial(self.timelines, program)
            self._observer.record_run(name, program, timelines, start, began // 1000, elapsed_us)
        if _log.isEnabledFor(logging.INFO):
            _log.info(
                "ran program %d: %d cycles simulated, %d us of wall time",
                program,
                n_cycles.max(),
                elapsed_us,
            )

    def _root(self, program: int) -> Node:
        """Return a control program."""
        roots = self.executable.roots
        if not 0 <= a_count("The number of the program", program) < len(roots):
            raise BadGraph(f"Unknown program {program}; this engine has {len(roots)} programs")
        return roots[program]

    def _check_open(self) -> None:
        if self._is_closed:
            raise EngineClosed(
                "This engine is closed and its report is complete: create another Engine from the"
                " executable, and close it only after the last run or read"
            )

    def _run_root(self, root: Node, program: int) -> NDArray[np.int64]:
        """Run a control program, and return its length on each IPU."""
        runs = [
            one.run(root, self._counters, is_recorded=self._observer.is_recording)
            for one in self._replicas
        ]
        run_together(runs, keeps_clocks=not root.is_foldable)
        if root.is_static:
            return self.n_cycles(program)
        profiled = runs[self._profiled]
        self._timelines.pop(program, None)
        self._notes[program], self._n_cycles[program] = profiled.notes, profiled.clocks.copy()
        # The host starts the next run when all replicas have ended this one.
        return np.asarray(np.stack([run.clocks for run in runs]).max(axis=0), np.int64)

    def n_cycles(self, program: int = 0) -> NDArray[np.int64]:
        """Return the length of a run of a control program on each IPU of the profiled replica.

        For a data-dependent program, it is that of the last run.

        Returns
        -------
        ndarray of int64, shape (n_ipus,), cycles

        Raises
        ------
        BadGraph
            When the program is unknown, or is data-dependent and has not run yet.
        """
        self._check_has_run(program)
        if program not in self._n_cycles:
            lengths = [timeline.n_cycles for timeline in self.timelines(program)]
            self._n_cycles[program] = np.array(lengths, np.int64)
        return self._n_cycles[program]

    def _check_has_run(self, program: int) -> None:
        if not self._root(program).is_static and program not in self._notes:
            raise BadGraph(f"Program {program} is data-dependent: run it first")

    def timelines(self, program: int = 0) -> Sequence[Timeline]:
        """Return the times at which the steps of a program run on each IPU, from cycle 0.

        They are those of the profiled replica.

        For a data-dependent program, these are the times of the last run.

        Raises
        ------
        BadGraph
            When the program is unknown, or is data-dependent and has not run yet, or the last run
            was not recorded and took more decisions than are kept.
        """
        self._check_has_run(program)
        if program not in self._timelines:
            root, machine = self._root(program), self.executable.machine
            if root.is_static:
                self._timelines[program] = timeline_of(root, machine)
            else:
                notes = self._notes[program]
                if not notes.is_whole:
                    raise BadGraph(
                        f"The times of the last run of program {program} are not kept: it took too"
                        " many decisions. Record the run, or shorten its loops"
                    )
                self._timelines[program] = self._replays.timelines(root, notes)
        return self._timelines[program]

    def close(self) -> None:
        """Release the resources of the device; safe to call twice.

        Raises
        ------
        EngineBusy
            When a callback of the run calls it.
        """
        with self._alone("close"):
            self._is_closed = True
            self._is_loaded = False
            for replica in self._replicas:
                replica.release()
            self._release()

    def _release(self) -> None:
        self._pool.shutdown()

    def _check_fits(self) -> None:
        """Raise OutOfTileMemory when the program does not fit.

        Raises
        ------
        OutOfTileMemory
            Its message names the tiles, the step and the variables.
        """
        if self.executable.overfull_tiles.size:
            raise OutOfTileMemory(describe_overflow(self.executable))

    def _show(
        self, replica: int, title: str, values: NDArray[Any], form: PrintFormat | None
    ) -> None:
        """Print a tensor for PrintTensor."""
        text = np.array2string(values, threshold=100) if form is None else form.text(values)
        where = f" (replica {replica})" if len(self._replicas) > 1 else ""
        line = f"{title}{where}: {text}"
        call_back("The function print_line of the engine", self.print_line, line)


#: Calls that hold off others, see `Device._alone`.
_CALLS = frozenset(call.__code__ for call in (Device.load, Device.run, Device.close))


def _to_standard_output(line: str) -> None:
    sys.stdout.write(line + "\n")
