"""A program as instructions of the compiled caller: calls, loops, branches and clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Node, ReplicaAccess, Step
from tilescope.engine.execute.launch import Launch
from tilescope.engine.execute.span import has_overlap, span_of
from tilescope.engine.graph import View
from tilescope.engine.host.jit.calls import N_REGISTERS, Op

__all__ = ["Action", "Instructions", "Part", "Work", "assemble"]

_INT64 = 1 << 64
#: The launches of one step, which need nothing of each other.
Stage = tuple[Launch, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """Stages in a row, without anything between them.

    Parameters
    ----------
    stages
        Launches of every stage; a stage needs the one before.
    n_passes
        How often the repeats around it run it, at least.
    """

    stages: tuple[Stage, ...]
    n_passes: int

    @cached_property
    def work(self) -> int:
        """Work of one pass."""
        return sum(launch.work for stage in self.stages for launch in stage)


#: What only Python can do: copy from or to the host or streaming memory; let replicas wait for each
#: other, and copy between them; tell the vertices of a step the time; advance the clocks by what
#: the vertices of a step have counted; begin the first and the second side of an Overlap, and end
#: it; print a tensor, or fail; run launches without compilation.
Work = Literal["copy", "meet", "stamp", "measure", "begin", "turn", "join", "tell", "launch"]


@dataclass(frozen=True, eq=False)
class Action:
    """A piece of work for Python."""

    work: Work
    subject: Step | Node | Part

    @property
    def step(self) -> Step:
        """The step that it is for."""
        assert isinstance(self.subject, Step), self.work
        return self.subject


@dataclass(eq=False)
class Instructions:
    """What the compiled caller runs; see `Op` for the rows.

    Parameters
    ----------
    rows
        The instructions.
    parts
        Calls of the RUN instructions.
    actions
        By DO instruction, what Python does, in order.
    spans
        Rows of cycles by IPU.
    controls
        Integers on the device that decide.
    n_registers
        Registers, with room for the stack of calls.
    stack
        First place of the stack.
    """

    rows: list[list[int]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    actions: list[list[Action]] = field(default_factory=list)
    spans: list[NDArray[np.int64]] = field(default_factory=list)
    controls: list[View] = field(default_factory=list)
    n_registers: int = 0
    stack: int = 0

    def __str__(self) -> str:
        """Return a listing: an instruction per line."""
        width = len(str(len(self.rows)))
        return "\n".join(
            f"{place:{width}} {Op(op).name:8} {' '.join(map(str, numbers))}"
            for place, (op, *numbers) in enumerate(self.rows)
        )


def assemble(root: Node, launches: Callable[[Step], Sequence[Launch]], n_ipus: int) -> Instructions:
    """Return the instructions of a control program.

    The clocks are kept for programs that are not foldable. Their number, and that of the calls,
    does not depend on how often a loop runs.

    Parameters
    ----------
    root
        The program.
    launches
        Returns the launches of a step.
    n_ipus
        IPUs of the machine.

    Raises
    ------
    BadGraph
        When the program takes more cycles than the counters hold.
    """
    return _Assembler(launches, n_ipus).assemble(root)


class _Assembler:
    """Writes instructions; what follows each other without a jump is collected first."""

    def __init__(self, launches: Callable[[Step], Sequence[Launch]], n_ipus: int) -> None:
        self._launches, self._n_ipus = launches, n_ipus
        self._program = Instructions()
        self._rows = self._program.rows
        #: Stages, and nodes whose time has not passed, since the last instruction.
        self._stages: list[Stage] = []
        self._timed: list[Node] = []
        self._n_passes = 1
        self._n_counters = 0
        #: The last place where a jump arrives.
        self._target = 0
        #: By function, and whether it keeps the clocks: where it is, and where it is called.
        self._functions: dict[int, Node] = {}
        self._places: dict[tuple[int, bool], int] = {}
        self._calls: dict[tuple[int, bool], list[int]] = {}
        self._parts: dict[tuple[tuple[int, ...], ...], int] = {}
        #: By node.
        self._is_straight: dict[int, bool] = {}
        self._has_overlap: dict[int, bool] = {}

    def assemble(self, root: Node) -> Instructions:
        program = self._program
        self._node(root, is_timed=not root.is_foldable)
        self._add(Op.END)
        while waiting := [key for key in self._calls if key not in self._places]:
            for function, is_timed in waiting:
                self._places[function, is_timed] = self._here()
                self._node(self._functions[function], is_timed=is_timed)
                self._add(Op.RETURN)
        for key, calls in self._calls.items():
            for call in calls:
                self._rows[call][1] = self._places[key]
        program.stack = N_REGISTERS + self._n_counters
        program.n_registers = program.stack + len(self._places)
        return program

    def _here(self) -> int:
        """Return the place of the next instruction, where a jump arrives."""
        self._flush()
        self._target = len(self._rows)
        return self._target

    def _add(self, op: Op, *numbers: int) -> list[int]:
        """Add an instruction after what was collected; return its row."""
        self._flush()
        return self._add_row(op, *numbers)

    def _add_row(self, op: Op, *numbers: int) -> list[int]:
        row = [int(op), *numbers, *[0] * (4 - len(numbers))]
        self._rows.append(row)
        return row

    def _flush(self) -> None:
        """Add the instructions of what was collected."""
        self._flush_stages()
        if self._timed:
            span = span_of(self._timed, self._n_ipus)
            self._timed = []
            if span.after is not None:
                self._add_row(Op.MEET, self._span(span.until, span.after))
            elif span.until.any():
                self._add_row(Op.ADVANCE, self._span(span.until))

    def _flush_stages(self) -> None:
        if not self._stages:
            return
        key = tuple(tuple(map(id, stage)) for stage in self._stages)
        if key not in self._parts:
            self._parts[key] = len(self._program.parts)
            self._program.parts.append(Part(tuple(self._stages), self._n_passes))
        self._stages = []
        self._add_row(Op.RUN, self._parts[key])

    def _span(self, *rows: NDArray[np.int64]) -> int:
        """Add rows of cycles; return the first."""
        self._program.spans += rows
        return len(self._program.spans) - len(rows)

    def _counter(self) -> int:
        """Return a register of its own: no part of a program is in progress twice."""
        self._n_counters += 1
        return N_REGISTERS + self._n_counters - 1

    def _control(self, control: View) -> int:
        self._program.controls.append(control)
        return len(self._program.controls) - 1

    def _act(self, work: Work, subject: Step | Node) -> None:
        """Let Python do something; what it does in a row takes one return."""
        action = Action(work, subject)
        place = len(self._rows)
        if place != self._target and place and self._rows[-1][0] == Op.DO:
            self._program.actions[self._rows[-1][1]].append(action)
            return
        self._program.actions.append([action])
        self._add_row(Op.DO, len(self._program.actions) - 1)

    def _node(self, node: Node, *, is_timed: bool) -> None:
        """Add a node; its time is another's if it is not timed."""
        if is_timed and node.is_foldable and not self._overlaps(node):
            self._timed.append(node)
            is_timed = False
        if node.step is not None:
            self._step(node, node.step, is_timed)
        elif node.kind == "Overlap" and is_timed:
            self._overlap(node)
        elif node.function is not None:
            self._call(node.function, is_timed)
        elif node.control is not None or node.kind == "ErrorProgram":
            self._decide(node)
        elif node.repeat_count == 1:
            for child in node.children:
                self._node(child, is_timed=is_timed)
        elif node.repeat_count:
            self._repeat(node, is_timed)

    def _overlaps(self, node: Node) -> bool:
        if id(node) not in self._has_overlap:
            self._has_overlap[id(node)] = has_overlap(node)
        return self._has_overlap[id(node)]

    def _step(self, node: Node, step: Step, is_timed: bool) -> None:
        launches = tuple(self._launches(step))
        if is_timed and step.reads_clock:
            self._flush()
            self._act("stamp", step)
        if launches:
            self._stages.append(launches)
        if isinstance(step.access, ReplicaAccess) or (is_timed and step.meets_replicas):
            self._flush()
            self._act("meet", step)
        elif step.access is not None:
            self._flush_stages()
            self._act("copy", step)
        if is_timed and step.is_data_dependent:
            self._flush()
            self._act("measure", step)
        elif is_timed:
            self._timed.append(node)

    def _repeat(self, node: Node, is_timed: bool) -> None:
        self._flush()
        counter, n_passes = self._counter(), self._n_passes
        self._n_passes *= node.repeat_count
        start = self._add(Op.SET, counter, node.repeat_count)
        top = self._here()
        for child in node.children:
            self._node(child, is_timed=is_timed)
        self._flush()
        self._n_passes = n_passes
        if len(self._rows) == top:  # nothing is done: however often
            assert self._rows.pop() is start
        else:
            self._add(Op.AGAIN, counter, top)

    def _overlap(self, node: Node) -> None:
        """Add the concurrent sides of an Overlap, one after the other."""
        io, compute = node.children
        self._flush()
        self._act("begin", node)
        for child in io.children[:-1]:
            self._node(child, is_timed=True)
        self._flush()
        self._act("turn", node)
        for child in compute.children[:-1]:
            self._node(child, is_timed=True)
        self._flush()
        self._act("join", node)

    def _call(self, function: Node, is_timed: bool) -> None:
        """Add a call; a function without jumps is as good in its place."""
        if self._straight(function):
            self._node(function, is_timed=is_timed)
            return
        self._add(Op.CALL)
        self._functions[id(function)] = function
        self._calls.setdefault((id(function), is_timed), []).append(len(self._rows) - 1)

    def _straight(self, node: Node) -> bool:
        """Return whether a node has no loops and no decisions."""
        if id(node) not in self._is_straight:
            called = () if node.function is None else (node.function,)
            is_plain = node.control is None and node.repeat_count == 1
            self._is_straight[id(node)] = is_plain and all(
                map(self._straight, (*called, *node.children))
            )
        return self._is_straight[id(node)]

    def _decide(self, node: Node) -> None:
        """Add a node that decides, prints or fails."""
        match node.kind:
            case "If":
                self._if(node, self._controlling(node))
            case "Switch":
                self._switch(node, self._controlling(node))
            case "RepeatWhile":
                self._while(node, self._controlling(node))
            case _:
                self._flush()
                self._act("tell", node)

    def _controlling(self, node: Node) -> View:
        if node.control is None:
            raise AssertionError(node.name)
        return node.control

    def _test(self, control: int, value: int, *, is_equal: bool) -> list[int]:
        """Add a jump if a control is a value, or if it is not; its goal is the third number."""
        return self._add(Op.TEST, control, 0, _wrapped(value), int(is_equal))

    def _if(self, node: Node, control: View) -> None:
        self._choose(node, [(0, 1)], self._control(control))

    def _switch(self, node: Node, control: View) -> None:
        cases = [(value, branch) for branch, value in enumerate(node.cases)]
        self._choose(node, cases, self._control(control))

    def _choose(self, node: Node, cases: Sequence[tuple[int, int]], control: int) -> None:
        """Add branches: those of some values of the control, and the other one."""
        tests = {branch: self._test(control, value, is_equal=True) for value, branch in cases}
        others = [branch for branch in range(len(node.children)) if branch not in tests]
        ends = []
        for branch in (*others, *tests):
            here = self._here()
            if branch in tests:
                tests[branch][2] = here
            self._add(Op.NOTE, branch)
            self._node(node.children[branch], is_timed=True)
            ends.append(self._add(Op.JUMP))
        here = self._here()
        for end in ends:
            end[1] = here

    def _while(self, node: Node, control: View) -> None:
        condition, body = node.children
        # A pass without decisions always takes the same time: their number is noted.
        is_even = condition.is_foldable and body.is_foldable
        counter, number = self._counter(), self._control(control)
        if is_even:
            self._add(Op.SET, counter, 0)
        top = self._here()
        self._node(condition, is_timed=True)
        decision = self._test(number, 0, is_equal=node.while_true)
        if not is_even:
            self._add(Op.NOTE, 1)
        self._node(body, is_timed=True)
        if is_even:
            self._add(Op.COUNT, counter)
        self._add(Op.JUMP, top)
        decision[2] = self._here()
        self._add(Op.NOTE, counter if is_even else 0, int(is_even))


def _wrapped(value: int) -> int:
    """Return a number as int64 has it."""
    return (value + _INT64 // 2) % _INT64 - _INT64 // 2
