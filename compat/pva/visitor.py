"""Visitors of programs, by libpva's names."""

from __future__ import annotations

from typing import Any

__all__ = ["ProgramVisitor"]


class ProgramVisitor:
    """Base of visitors; override the methods of the kinds you are after."""

    def visitSequence(self, program: Any) -> None:
        """Visit a sequence."""

    def visitBlock(self, program: Any) -> None:
        """Visit a block, a named stretch of the program."""

    def visitRepeat(self, program: Any) -> None:
        """Visit a loop of known length."""

    def visitRepeatWhile(self, program: Any) -> None:
        """Visit a loop that data ends."""

    def visitIf(self, program: Any) -> None:
        """Visit a branch."""

    def visitSwitch(self, program: Any) -> None:
        """Visit a branch of many ways."""

    def visitCall(self, program: Any) -> None:
        """Visit a call of a function."""

    def visitExecute(self, program: Any) -> None:
        """Visit an execution of a compute set before it is lowered."""

    def visitCopy(self, program: Any) -> None:
        """Visit a copy before it is lowered."""

    def visitCopySharedStructure(self, program: Any) -> None:
        """Visit copies of one structure before they are lowered."""

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

    def visitSans(self, program: Any) -> None:
        """Visit a tile's arrival at a sync that it does not wait for."""

    def visitSyncAns(self, program: Any) -> None:
        """Visit a sync and the arrival at it."""

    def visitWriteUndef(self, program: Any) -> None:
        """Visit a mark that a variable's value is no longer needed."""

    def visitPrintTensor(self, program: Any) -> None:
        """Visit a print of a tensor."""

    def visitErrorProgram(self, program: Any) -> None:
        """Visit an error that stops the program."""

    def visitUnknown(self, program: Any) -> None:
        """Visit a program of a kind that libpva does not have."""
