"""Repeated stretches of a program: equal vertices on equally mapped variables."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import ComputeSet, Joined, Tensor, Variable
from tilescope.engine.graph.identity.array_digests import ArrayDigests
from tilescope.engine.program import Execute, Function, Program
from tilescope.engine.program import Repeat as ProgramRepeat
from tilescope.engine.program import Sequence as ProgramSequence

__all__ = [
    "MOVED_BYTES",
    "Leaf",
    "Repeat",
    "Structures",
    "all_repeats",
    "find_repeats",
    "functions_of",
    "named_by",
    "written_by",
]

#: Leaves of the longest stretch that is searched for.
_LONGEST = 128  # Assumption: more than a layer of most networks has

#: Largest constant that a call may fetch from other tiles.
MOVED_BYTES = 1 << 14  # Assumption: a scale or an offset by channel, spread over the tiles


@dataclass(frozen=True, eq=False)
class Leaf:
    """A program that is not a sequence of others, to be compared with others.

    Parameters
    ----------
    program
        The program.
    structure
        Digest of its vertices and of the mappings of its variables; equal leaves differ in the
        variables only, and in the mappings of small constants. Empty for all but compute sets.
    variables
        Its variables in the order in which its vertices name them.
    """

    program: Program
    structure: bytes = b""
    variables: tuple[Variable, ...] = ()

    @property
    def compute_set(self) -> ComputeSet:
        """The compute set of a leaf with a structure."""
        assert isinstance(self.program, Execute)
        return self.program.compute_set


@dataclass(frozen=True)
class Repeat:
    """A stretch of leaves that occurs several times, apart from each other.

    Parameters
    ----------
    starts
        First leaves, ascending.
    length
        Number of leaves.
    """

    starts: tuple[int, ...]
    length: int


@dataclass
class Structures:
    """Describes leaves, every array and variable once."""

    digests: ArrayDigests = field(default_factory=ArrayDigests)
    _variables: dict[Variable, bytes] = field(default_factory=dict)

    def leaves(self, program: Program) -> list[Leaf]:
        """Return the leaves of a program in order.

        The body of a loop is between two leaves without structure that stand for the loop, and name
        what a round leaves to the next: what it reads before it writes it.
        """
        if isinstance(program, ProgramSequence):
            return [leaf for child in program.children for leaf in self.leaves(child)]
        if isinstance(program, ProgramRepeat) and isinstance(program.body, ProgramSequence):
            inside = self.leaves(program.body)
            ends = Leaf(program, b"", tuple(_left_to_next_round(inside)))
            return [ends, *inside, ends]
        if isinstance(program, Execute):
            return [self._leaf(program)]
        return [Leaf(program, b"", tuple(named_by(program)))]

    def body_leaves(self, body: ProgramSequence, shared: Set[Variable]) -> list[Leaf]:
        """Return the leaves of a function in order, between two that stand for its caller.

        Parameters
        ----------
        body
            Of the function.
        shared
            Variables that programs outside of it name, too.
        """
        inside = self.leaves(body)
        named = dict.fromkeys(v for leaf in inside for v in leaf.variables if v in shared)
        ends = Leaf(body, b"", tuple({**named, **dict.fromkeys(_left_to_next_round(inside))}))
        return [ends, *inside, ends]

    def _leaf(self, program: Execute) -> Leaf:
        digest = blake2b(digest_size=16)
        variables: dict[Variable, int] = {}
        for batch in program.compute_set.batches:
            digest.update(f"{batch.codelet.name} {len(batch.fields)}".encode())
            digest.update(self.digests.of(batch.tile))
            for name, column in sorted(batch.scalars.items()):
                digest.update(name.encode() + self.digests.of(column))
            for name, regions in batch.fields.items():
                number = variables.setdefault(regions.variable, len(variables))
                digest.update(f"{name} {number}".encode())
                digest.update(self.digests.of_all(regions.arrays))
        for variable in variables:
            digest.update(self._variable(variable))
        return Leaf(program, digest.digest(), tuple(variables))

    def _variable(self, variable: Variable) -> bytes:
        if variable not in self._variables:
            mapping = self.digests.of(variable.map_start) + self.digests.of(variable.map_tile)
            if variable.category == "constant" and variable.n_bytes <= MOVED_BYTES:
                mapping = b""
            description = f"{variable.dtype.name} {variable.n_elements}".encode()
            self._variables[variable] = description + mapping
        return self._variables[variable]


def written_by(leaf: Leaf) -> set[Variable]:
    """Return the variables that the vertices of a leaf write."""
    if not leaf.structure:
        return set()
    return {
        batch.fields[field.name].variable
        for batch in leaf.compute_set.batches
        for field in batch.codelet.fields
        if field.is_written
    }


def _left_to_next_round(leaves: Sequence[Leaf]) -> list[Variable]:
    """Return the variables that the leaves of a round read, or write in part, at first."""
    left: dict[Variable, None] = {}
    known: set[Variable] = set()
    for leaf in leaves:
        fresh = [variable for variable in leaf.variables if variable not in known]
        if fresh:
            whole = _written_whole(leaf)
            left |= dict.fromkeys(variable for variable in fresh if variable not in whole)
            known.update(fresh)
    return list(left)


def _written_whole(leaf: Leaf) -> set[Variable]:
    """Return the variables of which a leaf writes every element, and reads none before."""
    if not leaf.structure:
        return set()
    n_written: Counter[Variable] = Counter()
    read: set[Variable] = set()
    for batch in leaf.compute_set.batches:
        for of_codelet in batch.codelet.fields:
            regions = batch.fields[of_codelet.name]
            if of_codelet.is_written:
                n_written[regions.variable] += int(regions.n_elements.sum())
            if of_codelet.is_read:
                read.add(regions.variable)
    return {v for v, n in n_written.items() if n >= v.n_elements and v not in read}


def functions_of(program: Program) -> list[Function]:
    """Return the functions that a program calls, in a fixed order."""
    return [item for item in _parts_of(program) if isinstance(item, Function)]


def named_by(
    program: Program, *, with_functions: bool = True, with_vertices: bool = True
) -> dict[Variable, None]:
    """Return the variables that a program names, whatever kind it is, in a fixed order.

    Parameters
    ----------
    program
        The program.
    with_functions
        Whether what the functions name that it calls is among them.
    with_vertices
        Whether what vertices read and write is.
    """
    named: dict[Variable, None] = {}
    for item in _parts_of(program, with_functions=with_functions):
        if isinstance(item, Tensor | Joined):
            named |= dict.fromkeys(item.variables)
        elif isinstance(item, ComputeSet) and with_vertices:
            regions = (r for batch in item.batches for r in batch.fields.values())
            named |= {r.variable: None for r in regions}
    return named


def _parts_of(program: Program, *, with_functions: bool = True) -> Iterator[object]:
    """Yield what a program consists of: tensors, compute sets, functions, and the rest."""
    visited: set[int] = set()
    left: list[object] = [program]
    while left:
        item = left.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        yield item
        if isinstance(item, Mapping):
            left += item.values()
        elif isinstance(item, list | tuple):
            left += item
        elif isinstance(item, Program) or (with_functions and isinstance(item, Function)):
            left += vars(item).values()


def find_repeats(
    leaves: Sequence[Leaf], gain: Callable[[Repeat], float], bound: Callable[[Repeat], float]
) -> list[Repeat]:
    """Return the repeats to outline: the one with most gain first, apart from the others.

    Parameters
    ----------
    leaves
        In program order.
    gain
        Returns what outlining a repeat gains; repeats without gain are left out.
    bound
        Returns an upper bound on the gain of a repeat, and of its stretches without some of them.

    Notes
    -----
    A gain is evaluated only where its bound exceeds the gains that are known.
    """
    candidates = _Candidates(leaves, bound)
    repeats: list[Repeat] = []
    while (best := candidates.best(gain)) is not None:
        repeats.append(best)
        candidates.take(best)
    return repeats


class _Candidates:
    """Repeats by their gain, or by an upper bound until it is evaluated."""

    def __init__(self, leaves: Sequence[Leaf], bound: Callable[[Repeat], float]) -> None:
        self._bound = bound
        self._n_taken = np.zeros(len(leaves) + 1, np.int64)
        #: Upper bounds and gains, largest first, then the shortest and the last repeat.
        self._queue: list[tuple[float, int, int, Repeat]] = []
        self._bounded: set[Repeat] = set()
        self._evaluated: set[Repeat] = set()
        for repeat in all_repeats(leaves):
            self._add(repeat)

    def _add(self, repeat: Repeat | None) -> None:
        """Add a repeat by its bound, unless it was added before."""
        if repeat is not None and repeat not in self._bounded:
            self._bounded.add(repeat)
            self._push(repeat, self._bound(repeat))

    def _push(self, repeat: Repeat, worth: float) -> None:
        if worth > 0:
            heappush(self._queue, (-worth, repeat.length, -repeat.starts[0], repeat))

    def best(self, gain: Callable[[Repeat], float]) -> Repeat | None:
        """Return the repeat with most gain, of the stretches that are left; None without any."""
        while self._queue:
            *_, repeat = heappop(self._queue)
            rest = self._rest(repeat)
            if rest is not repeat:
                self._add(rest)
            elif repeat in self._evaluated:
                return repeat
            else:
                self._evaluated.add(repeat)
                self._push(repeat, gain(repeat))
        return None

    def take(self, repeat: Repeat) -> None:
        """Take the leaves of a repeat: those that overlap lose stretches."""
        is_taken = np.zeros(self._n_taken.size - 1, np.bool_)
        is_taken[np.add.outer(repeat.starts, np.arange(repeat.length))] = True
        self._n_taken[1:] += np.cumsum(is_taken)
        # A gain may grow when stretches are lost: it is no bound on what is left.
        for evaluated in self._evaluated:
            rest = self._rest(evaluated)
            if rest is not evaluated:
                self._add(rest)

    def _rest(self, repeat: Repeat) -> Repeat | None:
        """Return the stretches of a repeat that are left; None if there are fewer than two."""
        starts = np.array(repeat.starts)
        free = starts[self._n_taken[starts + repeat.length] == self._n_taken[starts]]
        if free.size < 2:
            return None
        return repeat if free.size == starts.size else Repeat(tuple(free.tolist()), repeat.length)


def all_repeats(leaves: Sequence[Leaf]) -> list[Repeat]:
    """Return the repeated stretches of every length, with occurrences that do not overlap.

    Stretches of a length are those of the length before with one leaf more. Two are equal if their
    leaves are and share variables in the same way: every variable was named last at the same place,
    or not yet in the stretch.
    """
    repeats: list[Repeat] = []
    codes = _Codes(leaves)
    starts = np.arange(len(leaves))
    group = np.zeros(starts.size, np.int64)
    for length in range(1, _LONGEST + 1):
        is_inside = starts + length <= len(leaves)
        starts, group = starts[is_inside], group[is_inside]
        code = codes.of(starts + length - 1, length)
        has_structure = code >= 0
        starts, group, code = starts[has_structure], group[has_structure], code[has_structure]
        both = group * (code.max(initial=0) + 1) + code
        _, group, count = np.unique(both, return_inverse=True, return_counts=True)
        is_repeated = count[group] > 1
        starts, group = starts[is_repeated], group[is_repeated]
        if not starts.size:
            break
        order = np.argsort(group, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(group[order]) != 0, True)) + 1
        stretches = [starts[order[low:high]] for low, high in pairwise((0, *ends.tolist()))]
        for stretch in sorted(stretches, key=lambda stretch: int(stretch[0])):
            apart = _apart(stretch, length)
            if len(apart) > 1:
                repeats.append(Repeat(tuple(apart), length))
    return repeats


def _apart(starts: NDArray[np.int64], length: int) -> list[int]:
    """Return the starts of stretches that do not overlap, the first ones first."""
    apart: list[int] = []
    ordered: list[int] = starts.tolist()
    end = 0
    while end < len(ordered):
        apart.append(ordered[end])
        end = bisect_left(ordered, ordered[end] + length, end)
    return apart


class _Codes:
    """Numbers leaves: equal ones name equal structures and, within a stretch, equal variables."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._numbers: dict[object, int] = {}
        self._by_leaf = np.full(len(leaves), -1, np.int64)
        #: For every leaf, from which distance on it names one more variable of the stretch.
        changes: list[list[tuple[int, int]]] = [[] for _ in range(_LONGEST + 1)]
        last: dict[Variable, tuple[int, int]] = {}
        for leaf_index, leaf in enumerate(leaves):
            before = [last.get(variable) for variable in leaf.variables]
            last.update({v: (leaf_index, position) for position, v in enumerate(leaf.variables)})
            if not leaf.structure:
                continue
            distances = [None if b is None else (leaf_index - b[0], b[1]) for b in before]
            self._by_leaf[leaf_index] = self._number(leaf.structure, distances, 0)
            for reach in sorted({d[0] for d in distances if d is not None and d[0] < _LONGEST}):
                number = self._number(leaf.structure, distances, reach)
                changes[reach].append((leaf_index, number))
        self._changes = [np.array(change, np.int64).reshape(-1, 2) for change in changes]
        self._length = 1

    def _number(
        self, structure: bytes, distances: Sequence[tuple[int, int] | None], reach: int
    ) -> int:
        """Return the number of a leaf whose variables were named at most so many leaves ago."""
        known = tuple(d if d is not None and d[0] <= reach else None for d in distances)
        return self._numbers.setdefault((structure, known), len(self._numbers))

    def of(self, positions: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """Return the numbers of the last leaves of stretches; lengths ascend from call to call."""
        for reach in range(self._length, length):
            leaves, numbers = self._changes[reach].T
            self._by_leaf[leaves] = numbers
        self._length = length
        return self._by_leaf[positions]
