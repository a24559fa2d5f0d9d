"""Programs and visitors, by libpva's names."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from pva.absent import WithAbsent
from pva.compute_set import ComputeSet, compute_set_of, step_cycles_by_tile
from pva.context import DebugContext
from tilescope.analyser import programs as tree
from tilescope.analyser.contexts import contexts

if TYPE_CHECKING:
    from tilescope.analyser.programs import ProgramNode
    from tilescope.reports import Report as Opened

__all__ = ["OnTileExecuteProgram", "Program", "ProgramVisitor", "program_of"]


class Program(WithAbsent):
    """A program of the tree; its subclass is named after its kind."""

    class Type(Enum):
        """Kind of a program."""

        Unknown = 0
        Sequence = 1
        Repeat = 2
        RepeatWhile = 3
        If = 4
        Switch = 5
        Call = 6
        OnTileExecute = 7
        DoExchange = 8
        GlobalExchange = 9
        Sync = 10
        Sans = 11
        SyncAns = 12
        StreamCopyBegin = 13
        StreamCopyMid = 14
        StreamCopyEnd = 15
        WriteUndef = 16

    _absent: ClassVar[dict[str, str]] = {
        "vars": "which variables a program uses",
        "codeBytesByTile": "the code of one program on each tile (see codeBytes for its sum)",
        "controlCodeByTile": "the control code of one program on each tile",
    }

    def __init__(self, opened: Opened, node: ProgramNode) -> None:
        self._opened = opened
        self._node = node

    @property
    def name(self) -> str:
        """Debug name; empty for a nameless program."""
        return self._node.name

    @property
    def type(self) -> Program.Type:
        """Kind of the program."""
        return Program.Type.__members__.get(self._node.kind, Program.Type.Unknown)

    @property
    def _id(self) -> int:
        """Number that no other program of the report has."""
        return self._node.program_id

    @property
    def children(self) -> list[Program]:
        """Programs inside, in order."""
        inside = tree.child_ids(self._opened).get(self._node.program_id, ())
        return [program_of(self._opened, tree.program(self._opened, each)) for each in inside]

    @property
    def codeBytes(self) -> int:
        """Control or exchange code over all tiles, bytes; not in libpva."""
        return self._node.code_bytes

    @property
    def estimatedCyclesByTile(self) -> list[int]:
        """Busy cycles of every tile in one execution; empty for programs that hold others."""
        if self._node.step_id is None:
            return []
        return step_cycles_by_tile(self._opened, self._node.step_id)

    @property
    def debugContext(self) -> DebugContext | None:
        """Who asked for it; None for what nobody asked for by name."""
        found = contexts(self._opened).get(self._node.debug_context_id or 0)
        if self._node.debug_context_id is None or found is None:
            return None
        return DebugContext(self._opened, found)

    def accept(self, visitor: ProgramVisitor) -> None:
        """Call the visitor's method for this kind; kinds it has none for are passed over."""
        method: Callable[[Program], Any] | None = getattr(visitor, f"visit{self._node.kind}", None)
        if method is not None:
            method(self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Program)
            and other._opened is self._opened
            and other._node.program_id == self._node.program_id
        )

    def __hash__(self) -> int:
        return hash((id(self._opened), self._node.program_id))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.label} id {self._node.program_id}>"


class OnTileExecuteProgram(Program):
    """Runs a compute set."""

    @property
    def computeset(self) -> ComputeSet:
        """The compute set that it runs."""
        return compute_set_of(self._opened, self._node)


_SUBCLASSES: dict[str, type[Program]] = {"OnTileExecute": OnTileExecuteProgram} | {
    kind: type(f"{kind}Program", (Program,), {"__doc__": f"A program of kind {kind}."})
    for kind in Program.Type.__members__
    if kind not in {"OnTileExecute", "Unknown"}
}


class ProgramVisitor:
    """Base of visitors; override the methods of the kinds you are after."""

    def visitOnTileExecute(self, program: Any) -> None:
        """Visit a program that runs a compute set."""

    def visitDoExchange(self, program: Any) -> None:
        """Visit an exchange within an IPU."""

    def visitGlobalExchange(self, program: Any) -> None:
        """Visit an exchange between IPUs."""

    def visitStreamCopyBegin(self, program: Any) -> None:
        """Visit the begin of a copy from or to the host."""

    def visitStreamCopyMid(self, program: Any) -> None:
        """Visit the transfer of a copy from or to the host."""

    def visitStreamCopyEnd(self, program: Any) -> None:
        """Visit the end of a copy from or to the host."""

    def visitSync(self, program: Any) -> None:
        """Visit a sync."""

    def visitSequence(self, program: Any) -> None:
        """Visit a sequence."""

    def visitRepeat(self, program: Any) -> None:
        """Visit a loop of known length."""


def program_of(opened: Opened, node: ProgramNode) -> Program:
    """Return a program of the subclass of its kind."""
    return _SUBCLASSES.get(node.kind, Program)(opened, node)
