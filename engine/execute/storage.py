"""Storage of values: a copy's source and result share it where they can, and it is not made.

A value is what a variable holds from its first writer to its last reader. Its copy can lie at the
same place if the value ends with the copy, or neither changes while both are read. The compiled
program does not depend on it: its cycles and its memory include every copy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tilescope.engine.compiler.executable.tile_memory import Lives

__all__ = ["Copy", "Group", "Storage", "Trace", "Value", "coalesce"]

#: One past every step: the end of values that are kept.
_FOREVER = 1 << 62
#: A group holds its memory as long as one of its values lives. Groups are joined if they are small,
#: elements, or one is a quarter of the other at least.
_SMALL, _LEAST_SHARE = 1 << 16, 4


class Copy(NamedTuple):
    """Batches of vertices that copy elements, all of them equally far.

    Parameters
    ----------
    step, batches
        Where it is: the step, and the numbers of the batches in its compute set.
    source, result
        Variables.
    shift
        Place of an element in the source, counted from that in the result.
    n_elements
        Elements that it copies.
    """

    step: int
    batches: tuple[int, ...]
    source: int
    result: int
    shift: int
    n_elements: int


@dataclass(frozen=True)
class Trace:
    """What the steps of a program do with its variables.

    Parameters
    ----------
    sizes
        Elements, by variable.
    kinds
        Types, by variable: values of one type can share storage.
    lives
        Half-open ranges of steps during which a variable is live, by its number; the others are
        kept.
    fixed
        Variables that have one place throughout, since not only vertices use them.
    segments
        Half-open ranges of steps that run one after the other, ascending.
    writers
        Steps that write a variable, ascending, by its number.
    copies
        The copies, by step.
    """

    sizes: Sequence[int]
    kinds: Sequence[str]
    lives: Mapping[int, Lives]
    fixed: frozenset[int] = frozenset()
    segments: Sequence[tuple[int, int]] = ()
    writers: Mapping[int, Sequence[int]] = field(default_factory=dict)
    copies: Sequence[Copy] = ()


class _Life(NamedTuple):
    """A half-open range of steps during which a value is live."""

    start: int
    end: int
    value: int


@dataclass(eq=False)
class Value:
    """What a variable holds during some of its lives, which are ascending."""

    variable: int
    n_elements: int
    lives: Lives
    #: The group, and the first element in it; numbers in a group may be negative.
    group: Group
    offset: int = 0
    #: The value whose content it has throughout: itself, unless it is a copy that never changes.
    origin: int = -1

    @property
    def is_kept(self) -> bool:
        """Whether it is kept after the program."""
        return self.lives[0][0] < 0

    def lives_of(self, number: int) -> list[_Life]:
        """Return its lives, with its number."""
        return [_Life(*life, number) for life in self.lives]


@dataclass(eq=False)
class Group:
    """Values that share storage.

    Parameters
    ----------
    first, end
        The first element of all values, and one past the last.
    lives
        Lives of its values, by their start.
    values
        Their numbers.
    longest
        Steps of the longest life of a value that is not kept.
    """

    first: int
    end: int
    lives: list[_Life]
    values: list[int]
    longest: int

    def at(self, life: _Life) -> Iterator[_Life]:
        """Return those of its lives that overlap another one."""
        if self.is_kept:
            yield self.lives[0]
        index = bisect_left(self.lives, (life.end, -1, -1)) - 1
        while index >= 0 and self.lives[index].start > max(life.start - self.longest, -1):
            if self.lives[index].end > life.start:
                yield self.lives[index]
            index -= 1

    @property
    def is_kept(self) -> bool:
        """Whether one of its values is kept."""
        return bool(self.lives) and self.lives[0].start < 0

    @property
    def ranges(self) -> Lives:
        """The half-open ranges of steps during which one of its values is live."""
        ranges: list[tuple[int, int]] = []
        for start, end, _ in self.lives:
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
            else:
                ranges.append((start, end))
        return tuple(ranges)


class _Link(NamedTuple):
    """A copy in question: its step, source and result, and how far the result's group moves."""

    step: int
    source: int
    result: int
    move: int


@dataclass(frozen=True, eq=False)
class Storage:
    """Which values share storage.

    Parameters
    ----------
    values
        All values: variable, lives, group and offset.
    without
        By step, the batches whose copies are not made.
    """

    values: Sequence[Value]
    without: Mapping[int, tuple[int, ...]]

    @property
    def groups(self) -> list[Group]:
        """The groups, in the order of their first values."""
        return [*{id(value.group): value.group for value in self.values}.values()]


def coalesce(trace: Trace) -> Storage:
    """Return the storage of a program's values, with as few copies as possible.

    Parameters
    ----------
    trace
        What the program does.
    """
    return _Coalescing(trace).result()


class _Coalescing:
    """Joins the groups of values that copies connect, one copy after the other."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._values: list[Value] = []
        #: By variable: the lives of its values.
        self._of: list[list[_Life]] = []
        for variable in range(len(trace.sizes)):
            self._of.append(
                sorted(
                    life for lives in self._divided(variable) for life in self._add(variable, lives)
                )
            )

    def result(self) -> Storage:
        without: dict[int, tuple[int, ...]] = {}
        for copy in self._trace.copies:
            source = self._value_at(copy.source, copy.step)
            result = self._value_at(copy.result, copy.step)
            if source >= 0 and result >= 0 and self._join(copy, source, result):
                without[copy.step] = (*without.get(copy.step, ()), *copy.batches)
        return Storage(self._values, without)

    def _divided(self, variable: int) -> list[Lives]:
        """Return the lives of a variable's values.

        A life amid steps that run one after the other is a value of its own: nothing comes in
        before, and nothing is left behind. The lives that reach the first or last of such steps
        may be of one value.
        """
        lives = self._trace.lives.get(variable)
        if lives is None:
            return [((-1, _FOREVER),)]
        if variable in self._trace.fixed:
            return [lives]
        alone, others = list[tuple[int, int]](), list[tuple[int, int]]()
        for life in lives:
            (alone if self._is_amid(life) else others).append(life)
        return [*((life,) for life in alone), *([tuple(others)] if others else [])]

    def _is_amid(self, life: tuple[int, int]) -> bool:
        """Return whether a life reaches neither end of the steps that it is among."""
        index = bisect_right(self._trace.segments, (life[0], _FOREVER)) - 1
        if index < 0:
            return False
        first, end = self._trace.segments[index]
        return first < life[0] and life[1] < end

    def _add(self, variable: int, lives: Lives) -> list[_Life]:
        number, n_elements = len(self._values), self._trace.sizes[variable]
        own = [_Life(*life, number) for life in lives]
        longest = max((end - start for start, end in lives if start >= 0), default=0)
        group = Group(0, n_elements, [*own], [number], longest)
        self._values.append(Value(variable, n_elements, lives, group, 0, number))
        return own

    def _value_at(self, variable: int, step: int) -> int:
        """Return the value that a variable has at a step; -1 if it is not live."""
        lives = self._of[variable]
        index = bisect_right(lives, (step, _FOREVER, 0)) - 1
        return lives[index].value if index >= 0 and step < lives[index].end else -1

    def _join(self, copy: Copy, source: int, result: int) -> bool:
        """Let a copy's source and its result share storage; return whether they do."""
        a, b = self._values[source], self._values[result]
        covers_result = copy.n_elements == b.n_elements
        if self._trace.kinds[a.variable] != self._trace.kinds[b.variable] or not (
            covers_result or copy.n_elements == a.n_elements
        ):
            return False
        origin = b.origin
        if covers_result and self._stays_equal(copy, self._values[a.origin], b):
            b.origin = a.origin
        move = a.offset + copy.shift - b.offset
        link = _Link(copy.step, source, result, move)
        if a.group is b.group:
            may_share = move == 0 and all(
                self._agree(link, x, y) for x in a.lives_of(source) for y in b.lives_of(result)
            )
        else:
            may_share = _is_worth_it(a.group, b.group) and self._groups_agree(link)
        if not may_share:
            b.origin = origin
        elif a.group is not b.group:
            self._merge(a.group, b.group, move)
        return may_share

    def _stays_equal(self, copy: Copy, origin: Value, b: Value) -> bool:
        """Return whether a copy has the content of its origin as long as it lives."""
        return [*self._writes(b.variable, b.lives)] == [copy.step] and all(
            step == copy.step for step in self._writes(origin.variable, b.lives)
        )

    def _writes(self, variable: int, lives: Lives) -> Iterator[int]:
        """Return the steps of some lives that write a variable."""
        writers = self._trace.writers.get(variable, ())
        for start, end in lives:
            yield from writers[bisect_left(writers, start) : bisect_left(writers, end)]

    def _groups_agree(self, link: _Link) -> bool:
        """Return whether the groups of a copy's source and result can share storage."""
        a, b = self._values[link.source].group, self._values[link.result].group
        if len(a.lives) < len(b.lives):
            return all(self._agree(link, x, y) for x in a.lives for y in b.at(x))
        return all(self._agree(link, x, y) for y in b.lives for x in a.at(y))

    def _agree(self, link: _Link, x_life: _Life, y_life: _Life) -> bool:
        """Return whether two values, of the source's group and of the result's, never disturb."""
        if x_life.end <= y_life.start or y_life.end <= x_life.start:
            return True
        x, y = self._values[x_life.value], self._values[y_life.value]
        apart = y.offset + link.move - x.offset
        if apart >= x.n_elements or -apart >= y.n_elements or x.origin == y.origin:
            return True
        # The source ends with the copy, and the result begins with it.
        is_link = x_life.value == link.source and y_life.value == link.result
        return is_link and x_life.end == link.step + 1 and y_life.start == link.step

    def _merge(self, a: Group, b: Group, move: int) -> None:
        """Join group b to group a, `move` elements later: the larger one takes all values."""
        if len(a.lives) < len(b.lives):
            a, b, move = b, a, -move
        for number in b.values:
            self._values[number].group = a
            self._values[number].offset += move
        for life in b.lives:
            insort(a.lives, life)
        a.values += b.values
        a.first, a.end = min(a.first, b.first + move), max(a.end, b.end + move)
        a.longest = max(a.longest, b.longest)


def _is_worth_it(a: Group, b: Group) -> bool:
    """Return whether two groups may hold their memory as long as one of them lives."""
    if a.is_kept or b.is_kept:
        return not (a.is_kept and b.is_kept)
    small, large = sorted((a.end - a.first, b.end - b.first))
    return large <= _SMALL or small * _LEAST_SHARE >= large
