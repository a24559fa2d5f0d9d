"""Blocks: stretches of a program with the time of every execution, by libpva's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pva.entry import Entry
from pva.program import Program, program_of

if TYPE_CHECKING:
    from tilescope.analyser.program.blocks import BlockExecution
    from tilescope.reports import Report as Opened

__all__ = ["Block"]


class Block(Entry):
    """One execution of a block or of a stream copy, as a tile sees it."""

    def __init__(self, opened: Opened, execution: BlockExecution, tile_id: int) -> None:
        super().__init__(
            opened, tile_id, execution.run_id, execution.program_id, execution.start_cycle
        )
        self._found = execution
        self.tile = tile_id

    @property
    def program(self) -> Program:
        """The block, or the stream copy."""
        return program_of(self._opened, self._found.program_id)

    @property
    def cyclesFrom(self) -> int:
        """Cycle at which it begins."""
        return self._found.start_cycle

    @property
    def cyclesTo(self) -> int:
        """Cycle at which it ends."""
        return self._found.end_cycle

    def isCommon(self) -> bool:
        """Whether it is a block of the program."""
        return not self._found.is_stream_copy

    def isStreamCopy(self) -> bool:
        """Whether it is a stream copy."""
        return self._found.is_stream_copy

    def isBlockFlush(self) -> bool:
        """Never: the simulator records without a buffer to empty."""
        return False

    def isOverflow(self) -> bool:
        """Never: the simulator records without a buffer to overflow."""
        return False

    def __repr__(self) -> str:
        return f"<Block {self.program.name} {self.cyclesFrom} to {self.cyclesTo}>"
