"""Executes a lowered program on the host's copy of the tiles' memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cycles.cycles import CountedCycles
from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.errors import ProgramError
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.execute.plan import LaunchPlan, Part, Rounds
from tilescope.engine.execute.threads import Calls
from tilescope.engine.execute.timeline import Clock
from tilescope.engine.graph import View

__all__ = ["Walker"]


class Walker:
    """Executes nodes of the program tree.

    Parameters
    ----------
    plan
        The launches.
    memory
        Values of the variables.
    stream
        Executes a step that copies from or to the host.
    show
        Prints a title and values.
    counted
        By step id, the counted cycles of data-dependent steps; filled during the run.
    counters : ndarray of int64, shape (n_ipus,)
        Cycle counters of the IPUs at the start of the run.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        memory: HostMemory,
        stream: Callable[[Step], None],
        show: Callable[[str, NDArray[Any]], None],
        counted: dict[int, CountedCycles],
        counters: NDArray[np.int64],
    ) -> None:
        self._plan = plan
        self._memory = memory
        self._stream = stream
        self._show = show
        self._counted = counted
        self._counters = counters

    def run(self, node: Node, clock: Clock | None = None) -> None:
        """Execute a node; with a clock, also advance the clock.

        Raises
        ------
        ProgramError
            When the program reaches an ErrorProgram.
        """
        if clock is not None and node.is_foldable:
            clock.run(node)
            clock = None
        if clock is None and node.control is None:
            self._play(self._plan.parts(node))
        elif node.step is not None:
            self._step(node.step, clock)
        elif node.kind == "Overlap" and clock is not None:
            clock.overlap(node, lambda child: self.run(child, clock))
        elif node.function is not None:
            self.run(node.function, clock)
        elif node.control is not None or node.kind == "ErrorProgram":
            self._control(node, clock)
        else:
            for _ in range(node.repeat_count):
                for child in node.children:
                    self.run(child, clock)

    def _play(self, parts: Sequence[Part]) -> None:
        """Execute parts of a program whose time is known."""
        for part in parts:
            match part:
                case Calls():
                    part.run()
                case Rounds():
                    for _ in range(part.n_rounds):
                        self._play(part.body)
                case Step():
                    self._stream(part)
                case Node():
                    self._control(part, None)

    def _control(self, node: Node, clock: Clock | None) -> None:
        """Execute a node that decides, prints or fails."""
        if node.control is not None:
            self._decide(node, node.control, clock)
        else:
            raise ProgramError(node.message)

    def _decide(self, node: Node, control: View, clock: Clock | None) -> None:
        match node.kind:
            case "If":
                branch = node.children[0 if self._number(control) else 1]
                self.run(branch, clock)
            case "Switch":
                number = self._number(control)
                position = node.cases.index(number) if number in node.cases else len(node.cases)
                self.run(node.children[position], clock)
            case "RepeatWhile":
                self._while(node, control, clock)
            case "PrintTensor":
                self._show(node.message, self._memory.read(control))
            case "ErrorProgram":
                values = np.array2string(self._memory.read(control), threshold=20)
                raise ProgramError(f"{node.message}: {values}")

    def _while(self, node: Node, control: View, clock: Clock | None) -> None:
        condition, body = node.children
        # A round without decisions always takes the same time: only the number of rounds is kept.
        is_even = clock is not None and condition.is_foldable and body.is_foldable
        inner = None if is_even else clock
        rounds = 0
        self.run(condition, inner)
        while bool(self._number(control)) == node.while_true:
            self.run(body, inner)
            self.run(condition, inner)
            rounds += 1
        if is_even and clock is not None:
            clock.run(condition)
            if rounds:
                # After the first condition, a round is the body followed by the condition.
                clock.run_round([body, condition], rounds)

    def _number(self, tensor: View) -> int:
        (tensor_part,) = tensor.pieces
        return self._memory.number(tensor_part)

    def _step(self, step: Step, clock: Clock | None) -> None:
        launches = self._plan.launches(step)
        for launch in launches:
            if launch.clock.size:
                assert clock is not None, "a program that reads the time runs with a clock"
                ipus = launch.tile // clock.machine.tiles_per_ipu
                launch.clock[:] = (self._counters + clock.now())[ipus]
        if launches:
            self._plan.calls(step).run()
        if step.access is not None:
            self._stream(step)
        if clock is None:
            return
        if step.is_data_dependent and step.compute_set is not None:
            count = self._counted.get(step.step_id)
            if count is None:
                counts = [launch.counts for launch in launches]
                count = CountedCycles(step.compute_set, clock.machine, counts, step.slow_tiles)
                self._counted[step.step_id] = count
            clock.step(step, count.tile_cycles())
        else:
            clock.step(step)
