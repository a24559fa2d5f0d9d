"""Live variables at every step, across sequences, loops, branches and functions.

A variable is live at a step when a later step may read the value it holds there. The program is
walked backwards; loops and functions are walked to a fixed point.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.compiler.executable.tile_memory import Lives
from tilescope.engine.compiler.overlap import steps_of
from tilescope.engine.graph import GraphImage
from tilescope.tracepoints import traced

__all__ = ["LiveRanges", "live_ranges"]

Variables = set[int]


class _Walk:
    """Backward walk that collects the ranges of steps at which variables are live.

    Along consecutive steps, only what changes is looked at: a range stays open while its variable
    is live.

    Attributes
    ----------
    ranges
        By variable: ranges of steps at which it is live, first and one past the last; they may
        overlap, as functions and loops are walked several times.
    """

    def __init__(self) -> None:
        self.ranges: dict[int, list[tuple[int, int]]] = {}
        #: Live variables with the last step of their open range.
        self._live: dict[int, int] = {}
        #: The step that was walked last: open ranges begin here.
        self._at = 0

    def before(self, node: Node, after: Variables) -> Variables:
        """Return the variables live before a node, given those live after it."""
        self._begin(after)
        self._walk(node)
        live = set(self._live)
        self._begin(())
        return live

    def _begin(self, live: Iterable[int]) -> None:
        """Close all ranges, and go on elsewhere with other live variables."""
        step = self._at
        for variable, last in self._live.items():
            if last >= step:
                self.ranges.setdefault(variable, []).append((step, last + 1))
        self._live = dict.fromkeys(live, -1)
        self._at = 0

    def _walk(self, node: Node) -> None:
        if node.step is not None:
            self._step(node.step)
        elif node.function is not None:
            self._walk(node.function)
        elif node.kind in ("If", "Switch"):
            after = set(self._live)
            self._begin(set().union(*(self.before(child, after) for child in node.children)))
        elif node.kind == "Overlap":
            self._overlap(node)
        elif node.kind == "RepeatWhile":
            self._while(node)
        elif node.repeat_count > 1:
            self._repeat(node)
        else:
            self._sequence(node)
        if node.control is not None and node.kind not in ("If", "Switch", "RepeatWhile"):
            self._touch(variable.variable_id for variable in node.control.variables)

    def _while(self, node: Node) -> None:
        condition, body = node.children
        after = set(self._live)
        live = self.before(condition, after)
        while True:
            again = live | self.before(condition, after | self.before(body, live))
            if again == live:
                self._begin(live)
                return
            live = again

    def _repeat(self, node: Node) -> None:
        after = set(self._live)
        live = self._before_sequence(node, after)
        while True:
            again = live | self._before_sequence(node, after | live)
            if again == live:
                self._begin(live)
                return
            live = again

    def _overlap(self, node: Node) -> None:
        """Walk two concurrent sides: the inputs and results of each are live throughout the other.

        What the I/O tiles hold in between is live at every step of the compute side; temporaries of
        the compute side are not live at the steps of the I/O side, so that its variables can still
        share memory.
        """
        io, compute = node.children
        after = set(self._live)
        before = self.before(io, self.before(compute, after))
        self.before(io, after)  # compute may finish first: its results are live here too
        held = {
            variable
            for step in steps_of(io)
            for variable in (*step.reads, *step.writes)
            if step.kind != "WriteUndef" or self._was_live(variable, step.step_id)
        }
        during = _joined([(step.step_id, step.step_id + 1) for step in steps_of(compute)])
        for variable in held:
            self.ranges.setdefault(variable, []).extend(during)
        self._begin(before)

    def _was_live(self, variable: int, step_id: int) -> bool:
        """Return whether a closed range of a variable has a step."""
        return any(start <= step_id < end for start, end in self.ranges.get(variable, ()))

    def _before_sequence(self, node: Node, after: Variables) -> Variables:
        """Return the variables live before one round of a loop."""
        self._begin(after)
        self._sequence(node)
        return set(self._live)

    def _sequence(self, node: Node) -> None:
        for child in reversed(node.children):
            self._walk(child)

    def _step(self, step: Step) -> None:
        step_id = step.step_id
        if self._at != step_id + 1:
            self._begin(tuple(self._live))
            self._live = dict.fromkeys(self._live, step_id)
        if step.kind == "WriteUndef":  # touches no memory: the old value just dies
            self._at = step_id + 1
            self._close(step.overwrites)
            self._at = step_id
            return
        self._at = step_id + 1
        self._touch(step.writes)
        self._touch(step.reads)
        self._at = step_id
        self._close(set(step.overwrites).difference(step.reads))

    def _touch(self, variables: Iterable[int]) -> None:
        """Open the ranges of variables at the step before the present one."""
        for variable in variables:
            self._live.setdefault(variable, self._at - 1)

    def _close(self, variables: Iterable[int]) -> None:
        """End the ranges of variables: they are not live before the present step."""
        for variable in variables:
            last = self._live.pop(variable, -1)
            if last >= self._at:
                self.ranges.setdefault(variable, []).append((self._at, last + 1))


def _joined(ranges: list[tuple[int, int]]) -> Lives:
    """Return ranges in order, without overlaps, and apart from each other."""
    lives: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if lives and start <= lives[-1][1]:
            lives[-1] = lives[-1][0], max(end, lives[-1][1])
        else:
            lives.append((start, end))
    return tuple(lives)


@dataclass(frozen=True)
class LiveRanges:
    """Live ranges of variables.

    Parameters
    ----------
    is_always_live : ndarray of bool, shape (n_variables,)
        Constants, and state that the host or an earlier run left.
    ranges
        By id of the variables that are not always live: every range of steps at which the variable
        is live or touched. Between two of them its memory is free. Unused variables are left out.
    """

    is_always_live: NDArray[np.bool_]
    ranges: dict[int, Lives]


@traced(POPLAR, "compile.liveness")
def live_ranges(graph: GraphImage, roots: Sequence[Node]) -> LiveRanges:
    """Return which variables are always live, and the live ranges of the others.

    Parameters
    ----------
    graph
        The graph with its variables.
    roots
        Control programs, whose steps name the variables they read, write and overwrite completely.
        They run any number of times in any order. A variable that one of
        them reads before writing it is state left by the host or an earlier run: it is always live.
    """
    walk = _Walk()
    always = np.array([v.category == "constant" for v in graph.variables], dtype=np.bool_)
    for root in roots:
        always[list(walk.before(root, set()))] = True
    ranges = {
        variable_id: _joined(walk.ranges[variable_id])
        for variable_id in sorted(walk.ranges)
        if not always[variable_id]
    }
    return LiveRanges(always, ranges)
