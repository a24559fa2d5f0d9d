"""Operations, by libpva's names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from pva.absent import WithAbsent
from pva.context import DebugContext
from pva.program import Program, program_of
from tilescope.analyser import contexts as table
from tilescope.analyser.operations import inside, steps_of
from tilescope.analyser.programs import all_programs

if TYPE_CHECKING:
    from pva.report import Report
    from tilescope.reports import Report as Opened

__all__ = ["Operation", "OperationAnalysis"]


class Operation(WithAbsent):
    """A debug context with all that came of it, what it called in turn included."""

    _absent: ClassVar[dict[str, str]] = {
        "vars": "which parts of variables belong to a debug context",
        "replacedDebugContext": "debug contexts that a transformation replaced",
    }

    def __init__(self, opened: Opened, found: table.DebugContext) -> None:
        self._opened = opened
        self._found = found

    @property
    def name(self) -> str:
        """Full name; levels are joined by ``/``."""
        return self._found.name

    @property
    def debugContext(self) -> DebugContext:
        """Who asked for it."""
        return DebugContext(self._opened, self._found)

    def programs(self) -> list[Program]:
        """Return its programs, in the order of their numbers."""
        wanted = inside(self._opened, self._found.debug_context_id)
        return [
            program_of(self._opened, node)
            for node in all_programs(self._opened).values()
            if node.debug_context_id in wanted
        ]

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


class OperationAnalysis:
    """The operations of a report, one a debug context, callers before what they called."""

    def __init__(self, report: Report) -> None:
        self._report = report

    @cached_property
    def operations(self) -> list[Operation]:
        """All operations."""
        opened = self._report._opened
        return [Operation(opened, context) for context in table.contexts(opened).values()]
