"""Operations, by libpva's names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pva.context import DebugContext
from pva.entry import Entry
from pva.explained import Explained
from pva.lazy import LazyList
from pva.lowered import lowered_variables
from pva.program import Program, program_of
from tilescope.analyser.memory.variable_parts import program_parts
from tilescope.analyser.program import contexts as table
from tilescope.analyser.program.operations import programs_of, steps_of

if TYPE_CHECKING:
    from pva.report import Report
    from pva.variable import LoweredVariable
    from tilescope.reports import Report as Opened

__all__ = ["Operation", "OperationAnalysis"]


class Operation(Entry):
    """A debug context with all that came of it, what it called in turn included."""

    def __init__(self, opened: Opened, context: table.DebugContext) -> None:
        super().__init__(opened, context.debug_context_id)
        self._found = context

    @property
    def name(self) -> str:
        """Full name; levels are joined by ``/``."""
        return self._found.name

    @property
    def debugContext(self) -> DebugContext:
        """Who asked for it."""
        return DebugContext(self._opened, self._found)

    @property
    def replacedDebugContext(self) -> list[DebugContext]:
        """Contexts that a transformation of the graph replaced; none, they are kept as parents."""
        return []

    def programs(self) -> list[Program]:
        """Return its programs, in the order of their numbers."""
        programs = programs_of(self._opened, self._found.debug_context_id)
        return [program_of(self._opened, program_id) for program_id in programs]

    @property
    def vars(self) -> LazyList[LoweredVariable]:
        """The parts of variables that its programs read or write, each once."""
        programs = programs_of(self._opened, self._found.debug_context_id)
        return lowered_variables(self._opened, program_parts(self._opened, programs))

    @cached_property
    def _steps(self) -> tuple[int, ...]:
        return steps_of(self._opened, self._found.debug_context_id)

    @property
    def firstStepIndex(self) -> int:
        """First liveness step of its programs; -1 if it has none."""
        return self._steps[0] if self._steps else -1

    @property
    def lastStepIndex(self) -> int:
        """Last liveness step of its programs; -1 if it has none."""
        return self._steps[-1] if self._steps else -1

    def __repr__(self) -> str:
        return f"<Operation {self._found.layer} {self._found.name}>"


class OperationAnalysis(Explained):
    """The operations of a report, one a debug context, callers before what they called."""

    def __init__(self, report: Report) -> None:
        self._opened = report._opened

    @cached_property
    def operations(self) -> LazyList[Operation]:
        """All operations."""
        opened = self._opened
        contexts = list(table.contexts(opened).values())
        return LazyList(len(contexts), lambda index: Operation(opened, contexts[index]))
