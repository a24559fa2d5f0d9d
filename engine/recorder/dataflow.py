"""Data flow between steps: which step last wrote the elements that another step reads.

The program is walked in execution order with the last writer of every element. Loops are walked
twice, since the second round reads what the first one wrote and later rounds change nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Executable, Node, ReplicaAccess, Step
from tilescope.engine.graph import OUTLINE_COPY, ComputeSet, Regions, Variable, View
from tilescope.engine.intervals.runs import union_runs
from tilescope.reports import ReportWriter

__all__ = ["dataflow", "write_dataflow"]

#: Kinds of programs whose children are alternatives.
_BRANCHES = ("If", "Switch")
#: The set of no writers: elements that no step has written.
_NOBODY = 0


@dataclass(frozen=True, eq=False)
class _Elements:
    """Elements of a variable as ascending runs that do not touch; both ndarrays of int64."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]

    @classmethod
    def of(cls, regions: Sequence[Regions], where: str) -> _Elements:
        """Return the elements of regions on one variable."""
        runs = []
        for regions_ in regions:
            tile = np.zeros(regions_.start.size, np.int32)
            runs.append(
                union_runs(regions_.start, regions_.size, regions_.stride, tile, 0, where)[1:]
            )
        start, length = (np.concatenate(column) for column in zip(*runs, strict=True))
        if len(runs) == 1:
            return cls(start, start + length)
        unit = np.ones((start.size, 1), np.int64)
        tile = np.zeros(start.size, np.int32)
        _, start, length = union_runs(start, length[:, None], unit, tile, 0, where)
        return cls(start, start + length)

    @property
    def n_elements(self) -> int:
        """Number of elements."""
        return int((self.end - self.start).sum())

    def below(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of the elements come before each of some places."""
        length = self.end - self.start
        run = np.searchsorted(self.start, positions, side="right") - 1
        before = (np.cumsum(length) - length)[run] + np.minimum(
            positions - self.start[run], length[run]
        )
        return np.where(run < 0, 0, before)

    def has(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each of some places is one of the elements."""
        run = np.searchsorted(self.start, positions, side="right") - 1
        return np.asarray((run >= 0) & (positions < self.end[run]))


@dataclass(frozen=True, eq=False)
class _Access:
    """Elements of one variable that a step reads, or writes; vertices never write one twice."""

    variable: Variable
    regions: Sequence[Regions]
    where: str
    is_write: bool

    @cached_property
    def elements(self) -> _Elements | None:
        """The elements; None for all of the variable."""
        n_elements = self.variable.n_elements
        if (
            self.is_write
            and sum(int(regions_.n_elements.sum()) for regions_ in self.regions) == n_elements
        ):
            return None
        elements_ = _Elements.of(self.regions, self.where)
        return None if elements_.n_elements == n_elements else elements_


@dataclass(frozen=True)
class _Accesses:
    """What a step reads, then writes."""

    reads: tuple[_Access, ...] = ()
    writes: tuple[_Access, ...] = ()


@dataclass(frozen=True, eq=False)
class _Origin:
    """The writers of a variable's elements: pieces that cover it, and a set of writers of each.

    Both are ndarrays of int64; `start` begins at 0, and `writers` holds numbers of sets.
    """

    start: NDArray[np.int64]
    writers: NDArray[np.int64]


#: The origin of every variable that has been written.
_State = dict[int, _Origin]


def _one_origin(writers: int) -> _Origin:
    """Return the origin of a variable with one set of writers."""
    return _Origin(np.zeros(1, np.int64), np.full(1, writers, np.int64))


class _Walk:
    """Collects the flows between steps along the program.

    Attributes
    ----------
    flows
        By source step, target step and variable: elements that the target reads.
    """

    def __init__(self) -> None:
        self.flows: dict[tuple[int, int, int], int] = {}
        self._sets: list[frozenset[int]] = [frozenset()]
        self._number: dict[frozenset[int], int] = {frozenset(): _NOBODY}
        self._accesses: dict[ComputeSet, _Accesses] = {}
        self._state: _State = {}
        #: The last exchange that broadcasts a decision.
        self._decision: int | None = None

    def programs(self, roots: Iterable[Node]) -> None:
        """Walk the control programs, which the host may run in any order, and repeatedly."""
        ends: _State = {}
        for root in roots:
            self._state = {}
            self._walk(root)
            ends = self._merged(ends, self._state)
        for root in roots:
            self._state = dict(ends)
            self._walk(root)

    def _walk(self, node: Node) -> None:
        if node.step is not None:
            self._step(node.step)
        elif node.function is not None:
            self._walk(node.function)
        elif node.kind in _BRANCHES:
            self._decide(node.control)
            before, after = self._state, []
            for child in node.children:
                self._state = dict(before)
                self._walk(child)
                after.append(self._state)
            self._state = after[0]
            for state in after[1:]:
                self._state = self._merged(self._state, state)
        elif node.kind == "RepeatWhile":
            self._while(node)
        else:
            for _ in range(min(node.repeat_count, 2)):
                for child in node.children:
                    self._walk(child)

    def _while(self, node: Node) -> None:
        """Walk a loop that runs its body any number of times."""
        condition, body = node.children
        entry = dict(self._state)
        for _ in range(2):
            self._walk(condition)
            self._decide(node.control)
            self._walk(body)
            self._state = self._merged(entry, self._state)
        self._walk(condition)
        self._decide(node.control)

    def _decide(self, control: View | None) -> None:
        """Read the tensor that decides, in the step that broadcasts it."""
        if control is not None and self._decision is not None:
            self._read(self._decision, _accesses_of_view(control))

    def _step(self, step: Step) -> None:
        if step.kind == "WriteUndef":
            for variable in step.overwrites:
                self._state.pop(variable, None)
        elif step.compute_set is not None and step.debug.operation == OUTLINE_COPY:
            self._hand_on(step.compute_set)
        elif step.compute_set is not None:
            if step.compute_set not in self._accesses:
                self._accesses[step.compute_set] = _accesses_of(step.compute_set)
            accesses = self._accesses[step.compute_set]
            self._read(step.step_id, accesses.reads)
            self._write(step.step_id, accesses.writes)
        elif isinstance(step.access, ReplicaAccess):
            self._read(step.step_id, _accesses_of_view(step.access.source))
            self._write(step.step_id, _accesses_of_view(step.access.target))
        elif step.access is not None:
            row = getattr(step.access, "row", None)
            if isinstance(row, View):
                self._read(step.step_id, _accesses_of_view(row))
            access = self._write if step.access.is_input else self._read
            access(step.step_id, _accesses_of_view(step.access.tensor))
        elif step.serves is None and step.reads:
            self._decision = step.step_id

    def _hand_on(self, compute_set: ComputeSet) -> None:
        """Copy whole variables for outlined operations: what is moved keeps its writers."""
        before = dict(self._state)
        for batch in compute_set.batches:
            of, to = (
                next(
                    batch.fields[field.name].variable.variable_id
                    for field in batch.codelet.fields
                    if field.is_written == is_target
                )
                for is_target in (False, True)
            )
            if of in before:
                self._state[to] = before[of]
            else:
                self._state.pop(to, None)

    def _read(self, step_id: int, reads: Iterable[_Access]) -> None:
        for access in reads:
            variable = access.variable
            origin = self._state.get(variable.variable_id)
            if origin is None:
                continue
            elements = access.elements
            if len(origin.start) == 1:
                counts = [variable.n_elements if elements is None else elements.n_elements]
            else:
                edges = np.append(origin.start, variable.n_elements)
                counts = np.diff(edges if elements is None else elements.below(edges)).tolist()
            of_set: dict[int, int] = {}
            for number, count in zip(origin.writers.tolist(), counts, strict=True):
                of_set[number] = of_set.get(number, 0) + count
            of_writer: dict[int, int] = {}
            for number, count in of_set.items():
                for writer in self._sets[number] if count else ():
                    of_writer[writer] = of_writer.get(writer, 0) + count
            for writer, count in of_writer.items():
                key = writer, step_id, variable.variable_id
                self.flows[key] = max(self.flows.get(key, 0), count)

    def _write(self, step_id: int, writes: Iterable[_Access]) -> None:
        step_set = self._set_of(frozenset((step_id,)))
        for access in writes:
            number = access.variable.variable_id
            if access.elements is None:
                self._state[number] = _one_origin(step_set)
                continue
            before = self._state.get(number) or _one_origin(_NOBODY)
            ends = access.elements.end[access.elements.end < access.variable.n_elements]
            start = np.unique(np.concatenate((before.start, access.elements.start, ends)))
            writers = before.writers[np.searchsorted(before.start, start, side="right") - 1]
            self._state[number] = _joined(
                start, np.where(access.elements.has(start), step_set, writers)
            )

    def _set_of(self, steps: frozenset[int]) -> int:
        """Return the number of a set of writers."""
        number = self._number.setdefault(steps, len(self._sets))
        if number == len(self._sets):
            self._sets.append(steps)
        return number

    def _merged(self, first: _State, second: _State) -> _State:
        """Return the state after either of two ways."""
        merged = dict(first)
        for variable, origin in second.items():
            merged[variable] = self._either(first.get(variable) or _one_origin(_NOBODY), origin)
        for variable in first.keys() - second.keys():
            merged[variable] = first[variable]
        return merged

    def _either(self, first: _Origin, second: _Origin) -> _Origin:
        """Return the origin that has the writers of both."""
        if first is second:
            return first
        if len(first.start) == len(second.start) == 1:
            (a,), (b,) = first.writers.tolist(), second.writers.tolist()
            return _one_origin(self._set_of(self._sets[a] | self._sets[b]))
        start = np.union1d(first.start, second.start)
        sides = (
            side.writers[np.searchsorted(side.start, start, side="right") - 1]
            for side in (first, second)
        )
        pairs, which = np.unique(np.stack(list(sides), axis=1), axis=0, return_inverse=True)
        union = [self._set_of(self._sets[a] | self._sets[b]) for a, b in pairs.tolist()]
        return _joined(start, np.array(union, np.int64)[which.reshape(-1)])


def _joined(start: NDArray[np.int64], writers: NDArray[np.int64]) -> _Origin:
    """Return an origin in which adjacent pieces differ."""
    is_new = np.append(True, writers[1:] != writers[:-1])
    return _Origin(start[is_new], writers[is_new])


def _accesses_of(compute_set: ComputeSet) -> _Accesses:
    """Return the elements that the vertices of a compute set read and write."""
    reads: dict[Variable, list[Regions]] = {}
    writes: dict[Variable, list[Regions]] = {}
    for batch in compute_set.batches:
        for field in batch.codelet.fields:
            regions = batch.fields[field.name]
            for is_done, accesses in ((field.is_read, reads), (field.is_written, writes)):
                if is_done:
                    accesses.setdefault(regions.variable, []).append(regions)
    sides = (
        tuple(
            _Access(variable, regions_, compute_set.name, accesses is writes)
            for variable, regions_ in accesses.items()
        )
        for accesses in (reads, writes)
    )
    return _Accesses(*sides)


def _accesses_of_view(view: View) -> tuple[_Access, ...]:
    """Return the elements of a tensor."""
    regions_by_variable: dict[Variable, list[Regions]] = {}
    for tensor in view.pieces:
        atoms = tensor.atoms or ((1, 0),)
        sizes, strides = (np.array([column], np.int64) for column in zip(*atoms, strict=True))
        regions = Regions(tensor.variable, np.array([tensor.offset], np.int64), sizes, strides)
        regions_by_variable.setdefault(tensor.variable, []).append(regions)
    return tuple(
        _Access(variable, regions_, view.name, False)
        for variable, regions_ in regions_by_variable.items()
    )


def dataflow(executable: Executable) -> Mapping[str, NDArray[np.int64]]:
    """Return which step last wrote what another step reads.

    Returns
    -------
    Mapping of str to ndarray of int64, shape (n_flows,)
        The columns of the array group ``dataflow``, sorted by target step, variable and source
        step.
    """
    walk = _Walk()
    walk.programs(executable.roots)
    sizes = {item.variable_id: item.dtype.n_bytes for item in executable.graph.variables}
    edges = sorted((target, which, source, n) for (source, target, which), n in walk.flows.items())
    rows = np.array(edges, np.int64).reshape(-1, 4)
    bytes_per_element = np.array([sizes[which] for which in rows[:, 1].tolist()], np.int64)
    return {
        "target_step_id": rows[:, 0],
        "variable_id": rows[:, 1],
        "source_step_id": rows[:, 2],
        "bytes": rows[:, 3] * bytes_per_element,
    }


def write_dataflow(writer: ReportWriter, executable: Executable) -> None:
    """Write the array group ``dataflow``."""
    writer.append_columns("dataflow", dataflow(executable))
