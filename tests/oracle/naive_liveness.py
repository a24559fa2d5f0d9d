"""Liveness by the book: a table of steps and variables, filled by a walk from the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NaiveLiveness", "ranges_of"]


class NaiveLiveness:
    """Walks nodes backwards and marks in a table which variables are live at every step.

    Parameters
    ----------
    n_steps, n_variables
        Size of the table.
    """

    def __init__(self, n_steps: int, n_variables: int) -> None:
        self.table = np.zeros((n_steps, n_variables), np.bool_)

    def before(self, node: Any, after: set[int]) -> set[int]:
        """Return the variables live before a node, given those live after it."""
        if node.step is not None:
            return self._step(node.step, after)
        if node.function is not None:
            return self.before(node.function, after)
        if node.kind == "If":
            return set().union(*(self.before(child, after) for child in node.children))
        if node.kind == "Overlap":
            return self._overlap(node, after)
        if node.kind == "RepeatWhile":
            condition, body = node.children
            live = self.before(condition, after)
            while True:
                again = live | self.before(condition, after | self.before(body, live))
                if again == live:
                    return live
                live = again
        live = self._sequence(node, after)
        while node.repeat_count > 1:
            again = live | self._sequence(node, after | live)
            if again == live:
                break
            live = again
        control = () if node.control is None else node.control.variables
        return live | {variable.variable_id for variable in control}

    def _overlap(self, node: Any, after: set[int]) -> set[int]:
        io, compute = node.children
        before = self.before(io, self.before(compute, after))
        self.before(io, after)
        held = {
            v
            for child in io.children
            for v in {*child.step.reads, *child.step.writes}
            if self.table[child.step.step_id, v]
        }
        for child in compute.children:
            self.table[child.step.step_id, list(held)] = True
        return before

    def _sequence(self, node: Any, live: set[int]) -> set[int]:
        for child in reversed(node.children):
            live = self.before(child, live)
        return live

    def _step(self, step: Any, after: set[int]) -> set[int]:
        if step.kind == "WriteUndef":
            live = after - set(step.overwrites)
            offset = live
        else:
            offset = after | set(step.writes) | set(step.reads)
            live = (after | set(step.writes)) - set(step.overwrites) | set(step.reads)
        self.table[step.step_id, list(offset)] = True
        return live


def ranges_of(column: NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    """Return the ranges of steps that a column of the table marks."""
    edges = np.flatnonzero(np.diff(column, prepend=False, append=False))
    return tuple((start, end) for start, end in edges.reshape(-1, 2).tolist())
