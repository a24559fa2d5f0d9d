"""What programs are made of: that every part is there, is of the graph, and none holds itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from tilescope.engine.arguments import a_kind, a_list, a_switch, a_text, shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import ComputeSet, Graph, Joined, Tensor, View
from tilescope.engine.graph.elements import check_each_once
from tilescope.engine.program.program import Function, Program

__all__ = ["check_programs"]

#: By annotation: what a program takes there, and what messages call it.
_KINDS: dict[str, tuple[Any, str]] = {
    "Program": (Program, "program"),
    "ComputeSet": (ComputeSet, "ComputeSet"),
    "Tensor": (Tensor, "Tensor"),
    "View": (View, "Tensor"),
    "Function": (Function, "Function"),
}


#: Programs within each other; each takes several calls of the compiler, of Python's thousand.
_MOST_LEVELS = 150


def check_programs(graph: Graph, programs: Any) -> None:
    """Check control programs before anything is made of them.

    Raises
    ------
    BadGraph
        When a part is missing or of the wrong kind, belongs to another graph, or contains itself.
    """
    a_kind("What is compiled", graph, Graph, "the engine.Graph that the programs run on")
    if isinstance(programs, Program) or not isinstance(programs, Iterable):
        raise BadGraph(
            f"Control programs come as a list, not as a {type(programs).__name__}: write [program]"
        )
    check = _Check(graph)
    for index, program in enumerate(programs):
        check.kind(program, "Program", f"Control program {index}")
        check.part(program, [])


class _Check:
    """Walks programs; functions once, since what they call is seen when they are lowered."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._functions: set[int] = set()

    def kind(self, value: Any, annotation: str, where: str) -> None:
        """Check that something is of the kind that its place asks for.

        Raises
        ------
        BadGraph
            When it is not.
        """
        kind, name = _KINDS[annotation]
        if not isinstance(value, kind):
            raise BadGraph(f"{where} is {shown(value)}: a {name} is needed")

    def part(self, value: Any, around: list[Program]) -> None:
        """Check a part of a program, and what is in it."""
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
        if any(program is each for each in around):
            raise BadGraph(f"{where} contains itself: use Repeat or RepeatWhile for a loop")
        if len(around) >= _MOST_LEVELS:
            raise BadGraph(
                f"{where} lies in more than {_MOST_LEVELS} programs, each in the next: put programs"
                " beside each other in one Sequence"
            )
        inside = [*around, program]
        for field in dataclasses.fields(program):
            value = getattr(program, field.name)
            self._field(f"{where}: its {field.name}", str(field.type), value)
            if isinstance(value, list | tuple):
                for index, each in enumerate(value):
                    self.kind(each, "Program", f"{where}: part {index}")
                    self.part(each, inside)
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
        """Check that a field of a program holds what it is declared to."""
        if annotation in _KINDS:
            self.kind(value, annotation, where)
        elif annotation == "str":
            a_text(where, value)
        elif annotation == "bool":
            a_switch(where, value)
        elif annotation.startswith("list"):
            a_list(where, value, "a list of programs")
        elif annotation.startswith("Mapping"):
            a_kind(where, value, Mapping, "a dictionary of programs by number")


def _called(program: Program) -> str:
    name = getattr(program, "name", "")
    return (
        f"{type(program).__name__} {shown(name)}"
        if isinstance(name, str) and name
        else type(program).__name__
    )
