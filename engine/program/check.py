"""Validation of programs: parts are present, belong to the graph, and do not contain themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from tilescope.engine.arguments import a_kind, a_list, a_switch, a_text, shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import ComputeSet, Graph, Joined, Tensor, View
from tilescope.engine.graph.mapping.elements import check_each_once
from tilescope.engine.program.program import Function, Program

__all__ = ["check_nesting", "check_programs"]

#: By annotation: the allowed type, and its name in messages.
_KINDS: dict[str, tuple[Any, str]] = {
    "Program": (Program, "program"),
    "ComputeSet": (ComputeSet, "ComputeSet"),
    "Tensor": (Tensor, "Tensor"),
    "View": (View, "Tensor"),
    "Function": (Function, "Function"),
}


#: Maximum nesting depth; a level takes several compiler calls, and Python's limit is a thousand.
_MOST_LEVELS = 150


def check_programs(graph: Graph, programs: Any) -> None:
    """Check control programs before compilation.

    Raises
    ------
    BadGraph
        When a part is missing or of the wrong kind, belongs to another graph, or contains itself.
    """
    a_kind("The graph", graph, Graph, "the engine.Graph that the programs run on")
    if isinstance(programs, Program) or not isinstance(programs, Iterable):
        raise BadGraph(
            f"Expected a list of control programs, got a {type(programs).__name__}: write [program]"
        )
    check = _Check(graph)
    for index, program in enumerate(programs):
        check.kind(program, "Program", f"Control program {index}")
        check.part(program, [])


def check_nesting(programs: Iterable[Program]) -> None:
    """Check that programs of the engine's own are not nested too deeply for the compiler.

    Raises
    ------
    BadGraph
        At a program in more programs than the compiler follows.
    """
    level: list[Program] = list(programs)
    for _ in range(_MOST_LEVELS):
        level = [part for program in level for part in _parts(program)]
        if not level:
            return
    raise _too_deep(_called(level[0]))


def _parts(program: Program) -> Iterable[Program]:
    """Yield the programs in a program; those of functions begin anew."""
    for value in vars(program).values():
        if isinstance(value, Program):
            yield value
        elif isinstance(value, list | tuple):
            yield from value
        elif isinstance(value, Mapping):
            yield from value.values()


def _too_deep(where: str) -> BadGraph:
    return BadGraph(
        f"{where} is nested in more than {_MOST_LEVELS} programs: put programs side by"
        " side in one Sequence"
    )


class _Check:
    """Walks programs; functions once, since their calls are checked during lowering."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._functions: set[int] = set()

    def kind(self, value: Any, annotation: str, where: str) -> None:
        """Check that a value has the type that its place requires.

        Raises
        ------
        BadGraph
            When it has not.
        """
        kind, name = _KINDS[annotation]
        if not isinstance(value, kind):
            raise BadGraph(f"{where} is {shown(value)}: expected a {name}")

    def part(self, value: Any, around: list[Program]) -> None:
        """Check a part of a program, and everything in it."""
        match value:
            case Program():
                self._program(value, around)
            case Tensor() | Joined():
                self.graph.check_own(value)
            case ComputeSet():
                self.graph.check_own_compute_set(value)
            case Function():
                if id(value) not in self._functions:
                    self._functions.add(id(value))
                    a_text("The name of a Function", value.name)
                    self.kind(value.body, "Program", f"Function {value.name!r}: its body")
                    self.part(value.body, [])

    def _program(self, program: Program, around: list[Program]) -> None:
        where = _called(program)
        if any(program is outer for outer in around):
            raise BadGraph(f"{where} contains itself: use Repeat or RepeatWhile for a loop")
        if len(around) >= _MOST_LEVELS:
            raise _too_deep(where)
        inside = [*around, program]
        for field in dataclasses.fields(program):
            value = getattr(program, field.name)
            self._field(f"{where}: its {field.name}", str(field.type), value)
            if isinstance(value, list | tuple):
                for index, part in enumerate(value):
                    self.kind(part, "Program", f"{where}: part {index}")
                    self.part(part, inside)
            elif isinstance(value, Mapping):
                for number, case in value.items():
                    if not isinstance(number, int):
                        raise BadGraph(f"{where}: case {shown(number)} is not an integer")
                    self.kind(case, "Program", f"{where}: case {number}")
                    self.part(case, inside)
            else:
                self.part(value, inside)
                if field.name == "target":
                    check_each_once(f"{where}: its target", value)

    def _field(self, where: str, annotation: str, value: Any) -> None:
        """Check that a field of a program has its declared type."""
        if annotation in _KINDS:
            self.kind(value, annotation, where)
        elif annotation == "str":
            a_text(where, value)
        elif annotation == "bool":
            a_switch(where, value)
        elif annotation.startswith("list"):
            a_list(where, value, "a list of programs")
        elif annotation.startswith("Mapping"):
            a_kind(where, value, Mapping, "a dictionary of programs by case value")


def _called(program: Program) -> str:
    name = getattr(program, "name", "")
    return (
        f"{type(program).__name__} {shown(name)}"
        if isinstance(name, str) and name
        else type(program).__name__
    )
