"""Repeated stretches of a program: equal vertices on equally mapped variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from tilescope.engine.graph import ComputeSet, Joined, Tensor, Variable
from tilescope.engine.program import Execute, Function, Program
from tilescope.engine.program import Sequence as ProgramSequence

__all__ = ["Leaf", "Repeat", "Structures", "find_repeats"]

#: Leaves of the longest stretch that is searched for.
_LONGEST = 128  # Assumption: more than a layer of most networks has

#: Largest constant that a call may fetch from other tiles.
_MOVED_BYTES = 1 << 14  # Assumption: a scale or an offset by channel, spread over the tiles


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

    _arrays: dict[int, tuple[object, bytes]] = field(default_factory=dict)
    _variables: dict[Variable, bytes] = field(default_factory=dict)

    def leaves(self, program: Program) -> list[Leaf]:
        """Return the leaves of a program in order."""
        if isinstance(program, ProgramSequence):
            return [leaf for child in program.children for leaf in self.leaves(child)]
        if isinstance(program, Execute):
            return [self._leaf(program)]
        return [Leaf(program, b"", tuple(_named(program)))]

    def _leaf(self, program: Execute) -> Leaf:
        digest = blake2b(digest_size=16)
        variables: dict[Variable, int] = {}
        for batch in program.compute_set.batches:
            digest.update(f"{batch.codelet.name} {len(batch.fields)}".encode())
            digest.update(self._array(batch.tile))
            for name, column in sorted(batch.scalars.items()):
                digest.update(name.encode() + self._array(column))
            for name, regions in batch.fields.items():
                number = variables.setdefault(regions.variable, len(variables))
                digest.update(f"{name} {number}".encode())
                for array in (regions.start, regions.size, regions.stride, regions.first):
                    digest.update(self._array(array))
        for variable in variables:
            digest.update(self._variable(variable))
        return Leaf(program, digest.digest(), tuple(variables))

    def _variable(self, variable: Variable) -> bytes:
        if variable not in self._variables:
            mapping = self._array(variable.map_start) + self._array(variable.map_tile)
            if variable.category == "constant" and variable.n_bytes <= _MOVED_BYTES:
                mapping = b""
            said = f"{variable.dtype.name} {variable.n_elements}".encode()
            self._variables[variable] = said + mapping
        return self._variables[variable]

    def _array(self, array: object) -> bytes:
        """Return the digest of an array, computed once for every object."""
        found = self._arrays.get(id(array))
        if found is None:
            made = np.ascontiguousarray(array)
            said = f"{made.dtype.str}{made.shape}".encode()
            # Kept with the digest: another object could get the id of one that is gone.
            found = array, blake2b(said + made.tobytes(), digest_size=16).digest()
            self._arrays[id(array)] = found
        return found[1]


def _named(program: Program) -> dict[Variable, None]:
    """Return the variables that a program names, whatever kind it is, in a fixed order."""
    found: dict[Variable, None] = {}
    seen: set[int] = set()
    left: list[object] = [program]
    while left:
        item = left.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Tensor | Joined):
            found |= dict.fromkeys(item.variables)
        elif isinstance(item, ComputeSet):
            regions = (r for batch in item.batches for r in batch.fields.values())
            found |= {r.variable: None for r in regions}
        elif isinstance(item, Mapping):
            left += item.values()
        elif isinstance(item, list | tuple):
            left += item
        elif isinstance(item, Program | Function):
            left += vars(item).values()
    return found


def find_repeats(leaves: Sequence[Leaf], gain: Callable[[Repeat], float]) -> list[Repeat]:
    """Return the repeats to outline: the one with most gain first, apart from the others.

    Parameters
    ----------
    leaves
        In program order.
    gain
        Returns what outlining a repeat gains; repeats without gain are left out.
    """
    is_free = np.ones(len(leaves), np.bool_)
    found: list[Repeat] = []
    worth = {repeat: gain(repeat) for repeat in _all_repeats(leaves)}
    candidates = [repeat for repeat in worth if worth[repeat] > 0]
    while candidates:
        best = max(candidates, key=lambda repeat: (worth[repeat], -repeat.length, repeat.starts))
        found.append(best)
        for start in best.starts:
            is_free[start : start + best.length] = False
        left = []
        for repeat in candidates:
            free = [s for s in repeat.starts if is_free[s : s + repeat.length].all()]
            rest = Repeat(tuple(free), repeat.length)
            if len(free) > 1 and rest not in worth:
                worth[rest] = gain(rest)
            if len(free) > 1 and worth[rest] > 0:
                left.append(rest)
        candidates = left
    return found


def _all_repeats(leaves: Sequence[Leaf]) -> list[Repeat]:
    """Return the repeated stretches of every length, with occurrences that do not overlap.

    Stretches of a length are those of the length before with one leaf more: equal stretches have
    equal leaves, which share variables in the same way.
    """
    found: list[Repeat] = []
    numbers: list[dict[Variable, int]] = [{} for _ in leaves]
    groups = [[*range(len(leaves))]]
    for length in range(1, _LONGEST + 1):
        longer: dict[tuple[object, ...], list[int]] = {}
        for group, starts in enumerate(groups):
            for start in starts:
                at = start + length - 1
                if at >= len(leaves) or not leaves[at].structure:
                    continue
                known = numbers[start]
                wiring = tuple(known.setdefault(v, len(known)) for v in leaves[at].variables)
                longer.setdefault((group, leaves[at].structure, wiring), []).append(start)
        groups = [starts for starts in longer.values() if len(starts) > 1]
        if not groups:
            break
        for starts in groups:
            apart: list[int] = []
            for start in starts:
                if not apart or apart[-1] + length <= start:
                    apart.append(start)
            if len(apart) > 1:
                found.append(Repeat(tuple(apart), length))
    return found
