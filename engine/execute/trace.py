"""What a compiled program does with its variables, as their storage on the host is decided by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tilescope.engine.compiler.executable.executable import Executable, Node, Step
from tilescope.engine.compiler.overlap import nodes_of
from tilescope.engine.execute.storage import Copy, Trace
from tilescope.engine.graph import VertexBatch

__all__ = ["trace_of"]


def trace_of(executable: Executable) -> Trace:
    """Return the trace of a program; all values of a graph that its user made are kept.

    Parameters
    ----------
    executable
        The program.
    """
    variables = executable.graph.variables
    sizes = [variable.n_elements for variable in variables]
    kinds = [variable.dtype.name for variable in variables]
    if not executable.is_model:
        return Trace(sizes, kinds, {})
    writers: defaultdict[int, list[int]] = defaultdict(list)
    for step in executable.steps:
        if step.kind != "WriteUndef":  # which writes nothing
            for variable in step.writes:
                writers[variable].append(step.step_id)
    return Trace(
        sizes,
        kinds,
        executable.memory.lives,
        frozenset(_fixed(executable)),
        _Segments(executable.roots).ranges(),
        writers,
        [copy for step in executable.steps for copy in _copies(step)],
    )


def _fixed(executable: Executable) -> Iterator[int]:
    """Yield the variables that host streams, remote memory and control flow use."""
    for step in executable.steps:
        if step.access is not None:
            yield from (*step.reads, *step.writes)
    for root in executable.roots:
        for node in nodes_of(root):
            if node.control is not None:
                yield from (variable.variable_id for variable in node.control.variables)


def _copies(step: Step) -> list[Copy]:
    """Return the batches of a step that copy elements equally far, together where they agree."""
    if step.compute_set is None:
        return []
    copies: dict[tuple[int, int, int], Copy] = {}
    for number, batch in enumerate(step.compute_set.batches):
        route = _route(batch) if batch.codelet.is_copy else None
        if route is not None:
            others = copies.get(route, Copy(step.step_id, (), *route, 0))
            n_elements = others.n_elements + int(batch.fields["out"].n_elements.sum())
            batches = (*others.batches, number)
            copies[route] = others._replace(batches=batches, n_elements=n_elements)
    return [*copies.values()]


def _route(batch: VertexBatch) -> tuple[int, int, int] | None:
    """Return source, result and shift of a copy; None if some elements go farther than others."""
    source, result = batch.fields["x"], batch.fields["out"]
    shift = source.start - result.start
    # The stride of a single element means nothing.
    is_stretched = (source.stride != result.stride) & (result.size > 1)
    if shift.size == 0 or (shift != shift[0]).any() or is_stretched.any():
        return None
    return source.variable.variable_id, result.variable.variable_id, int(shift[0])


class _Segments:
    """Collects the ranges of steps that run one after the other."""

    def __init__(self, roots: Iterable[Node]) -> None:
        self._ranges: set[tuple[int, int]] = set()
        self._first, self._end = 0, 0
        self._functions: set[int] = set()
        for root in roots:
            self._apart(root)

    def ranges(self) -> list[tuple[int, int]]:
        """Return them: half-open, ascending."""
        return sorted(self._ranges)

    def _cut(self) -> None:
        if self._end > self._first:
            self._ranges.add((self._first, self._end))
        self._first = self._end = 0

    def _apart(self, node: Node) -> None:
        """Walk what does not run once after what is before it."""
        self._cut()
        self._walk(node)
        self._cut()

    def _walk(self, node: Node) -> None:
        if node.step is not None:
            if node.step.step_id != self._end or self._first == self._end:
                self._cut()
                self._first = node.step.step_id
            self._end = node.step.step_id + 1
        elif node.kind == "Overlap":  # its sides run at one time
            self._cut()
        elif node.function is not None:
            self._cut()
            if id(node.function) not in self._functions:
                self._functions.add(id(node.function))
                self._apart(node.function)
        else:
            is_straight = node.repeat_count == 1 and node.control is None
            for child in node.children:
                (self._walk if is_straight else self._apart)(child)
            if not is_straight:
                self._cut()
