"""Live variables at every step, across sequences, loops, branches and functions.

A variable is live at a step when a later step may read the value it holds there. The program is
walked backwards; loops and functions are walked to a fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable import Node, Step
from tilescope.engine.compiler.overlap import steps_of
from tilescope.engine.compiler.tile_memory import Lives
from tilescope.engine.graph import GraphImage

__all__ = ["LiveRanges", "live_ranges"]

Set = NDArray[np.bool_]


class _Walk:
    """Backward walk that marks the live variables of every step."""

    def __init__(self, n_variables: int, steps: Sequence[Step]) -> None:
        self.at = np.zeros((len(steps), n_variables), dtype=np.bool_)

    def before(self, node: Node, after: Set) -> Set:
        """Return the variables live before a node, given those live after it."""
        if node.step is not None:
            return self._step(node.step, after)
        if node.function is not None:
            return self.before(node.function, after)
        if node.kind in ("If", "Switch"):
            union = np.zeros_like(after)
            for child in node.children:
                union |= self.before(child, after)
            return union
        if node.kind == "Overlap":
            return self._overlap(node, after)
        if node.kind == "RepeatWhile":
            condition, body = node.children
            live = self.before(condition, after)
            while True:
                again = live | self.before(condition, after | self.before(body, live))
                if (again == live).all():
                    return live
                live = again
        live = self._sequence(node, after)
        if node.repeat_count > 1:
            while True:
                again = live | self._sequence(node, after | live)
                if (again == live).all():
                    break
                live = again
        if node.control is not None:
            live = live.copy()
            live[[variable.variable_id for variable in node.control.variables]] = True
        return live

    def _overlap(self, node: Node, after: Set) -> Set:
        """Walk two concurrent sides: the inputs and results of each are live throughout the other.

        What the I/O tiles hold in between is live at every step of the compute side; temporaries of
        the compute side are not live at the steps of the I/O side, so that its variables can still
        share memory.
        """
        io, compute = node.children
        before = self.before(io, self.before(compute, after))
        self.before(io, after)  # compute may finish first: its results are live here too
        held = np.zeros_like(after)
        for step in steps_of(io):
            own = [*step.reads, *step.writes]
            held[own] |= self.at[step.step_id, own]
        self.at[[step.step_id for step in steps_of(compute)]] |= held
        return before

    def _sequence(self, node: Node, after: Set) -> Set:
        live = after
        for child in reversed(node.children):
            live = self.before(child, live)
        return live

    def _step(self, step: Step, after: Set) -> Set:
        live = after.copy()
        if step.kind == "WriteUndef":  # touches no memory: the old value just dies
            live[list(step.overwrites)] = False
            self.at[step.step_id] |= live
            return live
        live[list(step.writes)] = True
        self.at[step.step_id] |= live
        live[list(step.overwrites)] = False
        live[list(step.reads)] = True
        self.at[step.step_id] |= live & ~_only(step.overwrites, live.size, step.reads)
        return live


def _only(overwrites: Sequence[int], size: int, reads: Sequence[int]) -> Set:
    """Return the variables that a step overwrites and does not read."""
    found = np.zeros(size, dtype=np.bool_)
    found[list(overwrites)] = True
    found[list(reads)] = False
    return found


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

    is_always_live: Set
    ranges: dict[int, Lives]


def live_ranges(graph: GraphImage, steps: Sequence[Step], roots: Sequence[Node]) -> LiveRanges:
    """Return which variables are always live, and the live ranges of the others.

    Parameters
    ----------
    graph
        The graph with its variables.
    steps
        Steps with the variables they read, write and overwrite completely.
    roots
        Control programs, which run any number of times in any order. A variable that one of
        them reads before writing it is state left by the host or an earlier run: it is always live.
    """
    walk = _Walk(len(graph.variables), steps)
    always = np.array([v.category == "constant" for v in graph.variables], dtype=np.bool_)
    for root in roots:
        always |= walk.before(root, np.zeros(always.size, dtype=np.bool_))
    ranges: dict[int, Lives] = {}
    for variable_id in np.flatnonzero(~always).tolist():
        edges = np.flatnonzero(np.diff(walk.at[:, variable_id], prepend=False, append=False))
        if edges.size:
            ranges[variable_id] = tuple(
                (start, end) for start, end in edges.reshape(-1, 2).tolist()
            )
    return LiveRanges(always, ranges)
