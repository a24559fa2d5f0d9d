"""What a run leaves to Python: copies from and to the host, prints, failures, measured cycles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cycles.cycles import CountedCycles
from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.errors import ProgramError
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.execute.instructions import Action, Part, Work
from tilescope.engine.execute.notes import RunNotes
from tilescope.engine.execute.plan import LaunchPlan
from tilescope.engine.machine import Machine
from tilescope.engine.program.print_format import PrintFormat

__all__ = ["Actions"]


class Actions:
    """Does the actions of one engine's programs.

    Parameters
    ----------
    plan
        The launches.
    memory
        Values of the variables.
    machine
        The machine that runs.
    stream
        Executes a step that copies from or to the host.
    show
        Prints a title and values.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        memory: HostMemory,
        machine: Machine,
        stream: Callable[[Step], None],
        show: Callable[[str, NDArray[Any], PrintFormat | None], None],
    ) -> None:
        self._plan = plan
        self._memory = memory
        self._machine = machine
        self._stream = stream
        self._show = show
        #: Clocks at the start of an Overlap, and then at the end of its first side.
        self._other_side = np.zeros(machine.n_ipus, np.int64)
        #: By step id.
        self._counted: dict[int, CountedCycles] = {}

    def act(
        self,
        action: Action,
        clocks: NDArray[np.int64],
        counters: NDArray[np.int64],
        notes: RunNotes,
    ) -> None:
        """Do an action.

        Parameters
        ----------
        action
            What is to be done.
        clocks : ndarray of int64, shape (n_ipus,)
            Cycles of the IPUs since the start of the run, which a measured step advances.
        counters : ndarray of int64, shape (n_ipus,)
            Cycle counters of the IPUs at the start of the run.
        notes
            Takes measured cycles.

        Raises
        ------
        ProgramError
            When the program reaches an ErrorProgram.
        """
        work, subject = action.work, action.subject
        if isinstance(subject, Step):
            if work == "copy":
                self._stream(subject)
            elif work == "stamp":
                self._stamp(subject, counters + clocks)
            else:
                self._measure(subject, clocks, notes)
        elif isinstance(subject, Part):
            for stage in subject.stages:
                for launch in stage:
                    launch.run()
        elif work == "tell":
            self._tell(subject)
        else:
            self._overlap(work, subject, clocks)

    def _overlap(self, work: Work, node: Node, clocks: NDArray[np.int64]) -> None:
        """Begin a side of an Overlap, or end it: both begin together, and wait for each other."""
        if work == "begin":
            self._other_side = clocks.copy()
        elif work == "turn":
            self._other_side, clocks[:] = clocks.copy(), self._other_side
        else:
            join = node.children[1].children[-1].step
            assert join is not None, "a side ends with a sync"
            clocks[:] = np.maximum(clocks, self._other_side) + join.cost.cycles.dense()

    def _stamp(self, step: Step, now: NDArray[np.int64]) -> None:
        """Tell the vertices of a step the time."""
        for launch in self._plan.launches(step):
            if launch.clock.size:
                launch.clock[:] = now[launch.tile // self._machine.tiles_per_ipu]

    def _tell(self, node: Node) -> None:
        """Print, or fail."""
        if node.kind == "PrintTensor" and node.control is not None:
            self._show(node.message, self._memory.read(node.control), node.print_format)
            return
        if node.control is None:
            raise ProgramError(node.message)
        values = np.array2string(self._memory.read(node.control), threshold=20)
        raise ProgramError(f"{node.message}: {values}")

    def _measure(self, step: Step, clocks: NDArray[np.int64], notes: RunNotes) -> None:
        """Advance the clocks by the cycles that the vertices of a step have counted."""
        compute_set = step.compute_set
        assert compute_set is not None, "only vertices count"
        if step.step_id not in self._counted:
            counts = [launch.counts for launch in self._plan.launches(step)]
            self._counted[step.step_id] = CountedCycles(
                compute_set, self._machine, counts, step.slow_tiles
            )
        tile_cycles = self._counted[step.step_id].tile_cycles()
        notes.add_measured(tile_cycles)
        if step.cost.sync_zone == "external":
            clocks[:] = clocks.max()
        clocks += tile_cycles.reshape(self._machine.n_ipus, -1).max(axis=1)
