"""Expansion of the library calls in programs into a private image of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilescope.engine.channels import POPLAR
from tilescope.engine.graph import ComputeSet, GraphCopy, GraphImage, Joined, OwnGraph, Tensor
from tilescope.engine.graph.freeze import altered
from tilescope.engine.library.copy_program import copy_compute_sets
from tilescope.engine.program import Copy, Execute, Function, Overlap, Program
from tilescope.engine.program import Sequence as ProgramSequence
from tilescope.tracepoints import traced

__all__ = ["expand_programs"]


@traced(POPLAR, "compile.expand")
def expand_programs(
    graph: GraphCopy | OwnGraph, programs: Sequence[Program]
) -> tuple[GraphImage, tuple[Program, ...]]:
    """Return a graph as a frozen image, and its programs in the compiler's form.

    The programs are not modified. In the returned programs, every tensor and
    compute set belongs to the image, and every copy is a sequence of compute sets.

    Parameters
    ----------
    graph
        Variables and compute sets of the programs: a copy of a caller's graph, or the engine's own.
    programs
        Control programs, checked.

    Raises
    ------
    BadGraph
        When a copy uses a variable that is not mapped.
    """
    expansion = _Expansion(graph)
    expanded = tuple(expansion.program(program) for program in programs)
    return expansion.copy.freeze(), expanded


class _Expansion:
    """Rewrites programs onto the copy of their graph, in lowering order."""

    def __init__(self, graph_copy: GraphCopy | OwnGraph) -> None:
        self.copy = graph_copy
        #: By function and side of the Overlap around the call: each side has its own steps.
        self._functions: dict[tuple[Function, str], Function] = {}
        self._side = ""

    def program(self, program: Program) -> Program:
        """Return the program on the copy."""
        if isinstance(program, Copy):
            return self._copy(program)
        if isinstance(program, Overlap):
            return self._overlap(program)
        return altered(
            program, **{name: self._part(value) for name, value in vars(program).items()}
        )

    def _part(self, value: Any) -> Any:
        """Return a field's value on the copy."""
        match value:
            case Program():
                return self.program(value)
            case Tensor() | Joined():
                return self.copy.tensor(value)
            case ComputeSet():
                return self.copy.compute_set(value)
            case Function():
                return self._function(value)
            case list() | tuple():
                return [self._part(item) for item in value]
            case Mapping():
                return {number: self._part(case) for number, case in value.items()}
        return value

    def _overlap(self, program: Overlap) -> Overlap:
        """Rewrite both sides; within another Overlap, a later error, the side is kept."""
        sides = {}
        around = self._side
        for side in ("io", "compute"):
            self._side = around or side
            sides[side] = self.program(getattr(program, side))
        self._side = around
        return Overlap(**sides, name=program.name, debug=program.debug)

    def _function(self, function: Function) -> Function:
        key = function, self._side
        if key not in self._functions:
            # Registered before its body is expanded: recursion is reported later.
            function_ = self._functions[key] = replace(function)
            function_.body = self.program(function.body)
        return self._functions[key]

    def _copy(self, program: Copy) -> ProgramSequence:
        """Return the compute sets of a copy, as a sequence with the copy's name."""
        copied = Copy(
            self.copy.tensor(program.source),
            self.copy.tensor(program.target),
            program.name,
            debug=program.debug,
        )
        compute_sets = copy_compute_sets(self.copy.graph, copied)
        return ProgramSequence(
            program.name,
            [Execute(compute_set) for compute_set in compute_sets],
            debug=program.debug,
        )
