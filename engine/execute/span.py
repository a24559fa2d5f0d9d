"""How a part of a program without decisions moves the clocks of the IPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.errors import BadGraph

__all__ = ["Span", "check_cycles", "has_overlap", "span_of"]

#: Counters are 64-bit; at a gigahertz this limit is more than a hundred years.
_MOST_CYCLES = 1 << 62


@dataclass(frozen=True)
class Span:
    """Cycles of a part of a program on every IPU.

    Parameters
    ----------
    until : ndarray of int64, shape (n_ipus,), cycles
        From the start to the first meeting of all IPUs, or to the end if they do not meet.
    after : ndarray of int64, shape (n_ipus,), cycles
        From the first meeting to the end; None if the IPUs do not meet.
    """

    until: NDArray[np.int64]
    after: NDArray[np.int64] | None = None

    def then(self, second: Span) -> Span:
        """Return the span of this part and a second one."""
        if self.after is None:
            return Span(_sum(self.until, second.until), second.after)
        if second.after is None:
            return Span(self.until, _sum(self.after, second.until))
        between = _sum(self.after, second.until).max()
        return Span(self.until, _sum(second.after, between))

    def times(self, n_rounds: int) -> Span:
        """Return the span of at least one round of this part."""
        if self.after is None:
            return Span(_product(self.until, n_rounds))
        between = _product(_sum(self.after, self.until).max(), n_rounds - 1)
        return Span(self.until, _sum(self.after, between))


def _sum(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a sum of cycles, both below the limit."""
    total = np.asarray(first + second)
    check_cycles(int(total.max()))
    return total


def _product(cycles: NDArray[np.int64], n_rounds: int) -> NDArray[np.int64]:
    check_cycles(int(cycles.max()) * n_rounds)
    return np.asarray(cycles * n_rounds)


def check_cycles(n_cycles: int) -> None:
    """Raise BadGraph if a program takes more cycles than the counters hold.

    Raises
    ------
    BadGraph
        When it does.
    """
    if n_cycles > _MOST_CYCLES:
        raise BadGraph(
            f"The program takes {n_cycles:.3g} cycles, more than the counters' limit of"
            f" {_MOST_CYCLES:.3g}: lower the count of a Repeat"
        )


def has_overlap(node: Node) -> bool:
    """Return whether a node, or a function that it calls, contains an Overlap."""
    if node.kind == "Overlap":
        return True
    called = () if node.function is None else (node.function,)
    return any(map(has_overlap, (*called, *node.children)))


def span_of(nodes: Sequence[Node], n_ipus: int) -> Span:
    """Return the span of nodes in order, without decisions and without overlaps."""
    span = Span(np.zeros(n_ipus, np.int64))
    for node in nodes:
        if node.step is not None:
            span = span.then(_of_step(node.step))
            continue
        if node.function is not None:
            span = span.then(span_of([node.function], n_ipus))
        if node.children and node.repeat_count:
            span = span.then(span_of(node.children, n_ipus).times(node.repeat_count))
    return span


def _of_step(step: Step) -> Span:
    cycles = step.cost.cycles.dense()
    if step.cost.sync_zone == "external":
        return Span(np.zeros_like(cycles), cycles)
    return Span(cycles)
