"""Which variables live at which step, over sequences and loops."""

from __future__ import annotations

from collections.abc import Sequence

from engine.compiler.executable import Node, Step
from engine.graph import Graph

__all__ = ["lifetimes"]


def _loop_ranges(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Return the half-open ranges of steps that repeat, outermost first."""
    ranges = []

    def steps_of(node: Node) -> list[int]:
        if node.step is not None:
            return [node.step.step_id]
        return [step for child in node.children for step in steps_of(child)]

    for node in nodes:
        if node.kind == "Repeat":
            inside = steps_of(node)
            if inside:
                ranges.append((min(inside), max(inside) + 1))
    return ranges


def lifetimes(
    graph: Graph, steps: Sequence[Step], nodes: Sequence[Node]
) -> dict[int, tuple[int, int]]:
    """Return the half-open range of steps at which each not-always-live variable lives.

    A variable lives from the first step that writes it to the last that reads it. One that a loop
    reads before it writes, or that is used inside a loop and outside it, lives for the whole loop.
    Control programs run any number of times in any order, so that one that is read before it is
    written, or that several control programs use, lives at every step.

    Parameters
    ----------
    graph
        Its variables.
    steps
        In program order, with the variables each reads and writes.
    nodes
        The lowered tree, for its loops.

    Returns
    -------
    dict
        By variable id; variables that no step uses, and always-live ones, are left out.
    """
    accesses: dict[int, list[tuple[int, bool]]] = {}
    for step in steps:
        for variable in step.reads:
            accesses.setdefault(variable, []).append((step.step_id, False))
        for variable in step.writes:
            accesses.setdefault(variable, []).append((step.step_id, True))
    loops = _loop_ranges(nodes)
    root_of = {n.step.step_id: n.root_index for n in nodes if n.step is not None}
    result: dict[int, tuple[int, int]] = {}
    for variable, found in accesses.items():
        if graph.variables[variable].is_always_live:
            continue
        is_shared = len({root_of[step] for step, _ in found}) > 1
        if is_shared or not min(found)[1]:
            result[variable] = (0, len(steps))
            continue
        start = min(step for step, _ in found)
        end = max(step for step, _ in found) + 1
        for first, last in reversed(loops):  # inner loops first: each may widen the next
            inside = [(step, writes) for step, writes in found if first <= step < last]
            if not inside:
                continue
            is_used_outside = start < first or end > last
            reads_first = not min(inside)[1]
            if is_used_outside or reads_first:
                start, end = min(start, first), max(end, last)
        result[variable] = (start, end)
    return result
