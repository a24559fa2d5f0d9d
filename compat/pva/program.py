"""Programs, by libpva's names."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pva.compute_set import ComputeSet
from pva.context import DebugContext
from pva.cycles import CycleRange
from pva.entry import Entry
from pva.lazy import LazyList
from pva.lowered import lowered_variables
from pva.occupied import estimated_cycles_by_tile
from tilescope.analyser.memory.program_code import exchange_code, own_control_code
from tilescope.analyser.memory.variable_parts import program_parts
from tilescope.analyser.program.contexts import contexts
from tilescope.analyser.program.program_tree import child_ids, program
from tilescope.analyser.program.programs import first_program, unique_programs
from tilescope.analyser.time.execution import external_syncs

if TYPE_CHECKING:
    from pva.variable import LoweredVariable
    from pva.visitor import ProgramVisitor
    from tilescope.analyser.program.program_tree import ProgramNode
    from tilescope.reports import Report as Opened

__all__ = [
    "DoExchangeProgram",
    "ExchangeProgram",
    "GlobalExchangeProgram",
    "OnTileExecuteProgram",
    "Program",
    "StreamCopyBeginProgram",
    "StreamCopyEndProgram",
    "StreamCopyMidProgram",
    "program_of",
]


class Program(Entry):
    """A program of the tree; compute, exchanges and stream copies have subclasses."""

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
        Execute = 17
        Copy = 18
        CopySharedStructure = 19
        Block = 20
        PrintTensor = 21
        ErrorProgram = 22

    def __init__(self, opened: Opened, node: ProgramNode) -> None:
        super().__init__(opened, first_program(opened)[node.program_id])
        self._node = node

    @property
    def name(self) -> str:
        """Debug name, empty for a nameless program; of a sync ``Internal`` or ``External``."""
        if self._node.kind == "Sync":
            step_id = self._node.step_id  # None if the report contradicts itself
            is_external = step_id is not None and bool(external_syncs(self._opened)[step_id])
            return "External" if is_external else "Internal"
        return self._node.name

    @property
    def type(self) -> Program.Type:
        """Kind of the program."""
        return _TYPES.get(self._node.kind, Program.Type.Unknown)

    @property
    def _id(self) -> int:
        """Number that no other program of the report has.

        Programs that run the same compute set, as calls of a function do, have the same.
        """
        return self._identity[0]

    @property
    def children(self) -> list[Program]:
        """Programs inside, in order."""
        inside = child_ids(self._opened).get(self._node.program_id, ())
        return [program_of(self._opened, child) for child in inside]

    @property
    def codeBytes(self) -> int:
        """Control or exchange code over all tiles, bytes; not in libpva."""
        return self._node.code_bytes

    @property
    def controlCodeByTile(self) -> list[int]:
        """Control code of the program on every tile, without that of programs in it, bytes."""
        code: list[int] = own_control_code(
            self._opened, unique_programs(self._opened)[self._id]
        ).tolist()
        return code

    @property
    def vars(self) -> LazyList[LoweredVariable]:
        """The parts of variables that it reads or writes; none for programs that hold others."""
        return lowered_variables(self._opened, program_parts(self._opened, [self._node.program_id]))

    @property
    def estimatedCyclesByTile(self) -> list[int]:
        """Cycles of every tile in one execution; empty for programs that hold others."""
        if self._node.step_id is None:
            return []
        return estimated_cycles_by_tile(self._opened, self._node.step_id)

    @property
    def debugContext(self) -> DebugContext | None:
        """Who asked for it; None for what nobody asked for by name."""
        if self._node.debug_context_id is None:
            return None
        context = contexts(self._opened).get(self._node.debug_context_id)
        return None if context is None else DebugContext(self._opened, context)

    def accept(self, visitor: ProgramVisitor) -> None:
        """Call the visitor's method for this kind; kinds it has none for are passed over."""
        name = f"visit{self.type.name}"
        method: Callable[[Program], Any] | None = getattr(visitor, name, None)
        if method is not None:
            method(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.label} id {self._id}>"


_TYPES = Program.Type.__members__


class OnTileExecuteProgram(Program):
    """Runs a compute set."""

    @cached_property
    def computeset(self) -> ComputeSet:
        """The compute set that it runs."""
        return ComputeSet(self._opened, self._node.compute_set_id or 0, self._node.step_id)


class ExchangeProgram(Program):
    """Moves data between tiles, IPUs, or from and to the host."""

    @property
    def codeBytesByTile(self) -> list[int]:
        """Exchange code on every tile, bytes."""
        code: list[int] = exchange_code(self._opened, self._node.program_id).tolist()
        return code


class DoExchangeProgram(ExchangeProgram):
    """Moves data between the tiles of an IPU."""


class GlobalExchangeProgram(ExchangeProgram):
    """Moves data between IPUs."""

    @property
    def cyclesFrom(self) -> CycleRange:
        """When tiles begin in one execution, cycles from its begin: at once."""
        return CycleRange(0, 0)

    @property
    def cyclesTo(self) -> CycleRange:
        """When the tiles that take part end in one execution, cycles from its begin."""
        active = [cycles for cycles in self.estimatedCyclesByTile if cycles]
        return CycleRange(min(active, default=0), max(active, default=0))


class StreamCopyBeginProgram(Program):
    """Begins a copy from or to the host."""


class StreamCopyMidProgram(ExchangeProgram):
    """Moves the data of a copy from or to the host."""


class StreamCopyEndProgram(Program):
    """Ends a copy from or to the host."""


_SUBCLASSES = {
    subclass.__name__.removesuffix("Program"): subclass
    for subclass in (
        OnTileExecuteProgram,
        DoExchangeProgram,
        GlobalExchangeProgram,
        StreamCopyBeginProgram,
        StreamCopyMidProgram,
        StreamCopyEndProgram,
    )
}


def program_of(opened: Opened, program_id: int) -> Program:
    """Return a program by its number, of the subclass of its kind."""
    node = program(opened, program_id)
    return _SUBCLASSES.get(node.kind, Program)(opened, node)
