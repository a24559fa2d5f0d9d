"""Loops of a program around its operations, such as the micro-batches of gradient accumulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.contexts import enclosing
from tilescope.analyser.program.program_tree import all_programs, child_ids

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["RoundLoop", "StepOfRound", "round_loops"]

#: Programs that run some of their children, or run them a number of times that varies.
_BRANCHES = ("If", "Switch", "RepeatWhile")
#: Most parts of a program with its functions written out.
_MOST_PROGRAMS = 1_000_000


class StepOfRound(NamedTuple):
    """A step of a loop's body, in program order.

    ``n_times`` is how often it runs in a round, at most where ``is_certain`` is false. ``is_only``
    states that it runs nowhere else.
    """

    step_id: int
    n_times: int
    is_certain: bool
    is_only: bool


@dataclass(frozen=True)
class RoundLoop:
    """A loop that no operation is around; ``steps`` are those of its body, also in functions."""

    program_id: int
    name: str
    n_rounds: int
    steps: tuple[StepOfRound, ...]


@cached
def round_loops(report: Report) -> tuple[RoundLoop, ...]:
    """Return the outermost loops of the control programs that are not part of an operation.

    Raises
    ------
    BadQuestion
        When the program with its functions written out has more than 1,000,000 parts.
    """
    tree = _Tree(report)
    answer = []
    for loop in [loop for root in tree.roots for loop in tree.loops(root)]:
        outside = {step for root in tree.roots for step, _, _ in tree.steps([root], without=loop)}
        steps = tuple(
            StepOfRound(step, times, is_certain, step not in outside)
            for step, times, is_certain in tree.steps(tree.children(loop))
        )
        node = all_programs(report)[loop]
        answer.append(RoundLoop(loop, node.name or node.kind, node.repeat_count, steps))
    return tuple(answer)


class _Tree:
    """The programs of a report, with functions where they are called."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._every, self._below = all_programs(report), child_ids(report)
        tops = [item for item in self._every.values() if item.parent_id is None]
        self._functions = {
            item.name: item.program_id for item in tops if item.root_kind == "function"
        }
        self.roots = [item.program_id for item in tops if item.root_kind != "function"]

    def children(self, number: int) -> list[int]:
        """Return the programs in a program, and the function that it calls."""
        program = self._every[number]
        below = list(self._below.get(number, ()))
        if program.kind == "Call" and program.name in self._functions:
            below.append(self._functions[program.name])
        return below

    def loops(self, number: int) -> Iterator[int]:
        """Yield the outermost loops below a program that no operation is around."""
        for child in self._below.get(number, ()):
            program = self._every[child]
            if enclosing(self._report, program.debug_context_id):
                continue
            if program.kind == "Repeat" and program.repeat_count > 1:
                yield child
            else:
                yield from self.loops(child)

    def steps(
        self, programs: Sequence[int], without: int | None = None
    ) -> list[tuple[int, int, bool]]:
        """Return the steps of programs in order, how often each runs, and whether it must.

        ``without`` is a program to leave out.

        Raises
        ------
        BadQuestion
            When there are more than 1,000,000 of them and of what they are in.
        """
        found: list[tuple[int, int, bool]] = []
        todo = [(number, 1, True) for number in reversed(programs)]
        for n_seen in count():
            if not todo:
                break
            if n_seen == _MOST_PROGRAMS:
                raise BadQuestion(
                    f"this program has more than {_MOST_PROGRAMS:,} parts with its functions"
                    " written out, too many to find loops in; list regions by layer or run"
                )
            number, times, is_certain = todo.pop()
            if number == without:
                continue
            program = self._every[number]
            times *= max(program.repeat_count, 1)
            if program.step_id is not None:
                found.append((program.step_id, times, is_certain))
            is_certain &= program.kind not in _BRANCHES
            below = reversed(self.children(number))
            todo += [(child, times, is_certain) for child in below]
        return found
