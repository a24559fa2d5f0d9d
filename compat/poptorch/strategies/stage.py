"""Stages: blocks that run on one IPU, one after the other."""

from __future__ import annotations

from typing import Self

__all__ = ["Stage"]


class Stage:
    """Blocks, by their names, that make up a stage.

    Raises
    ------
    AssertionError
        When a name is not a string.
    """

    def __init__(self, *block_ids: str) -> None:
        are_names = all(isinstance(block, str) for block in block_ids)
        assert are_names, f"Block IDs are supposed to be strings but got {block_ids}"
        self._blocks = block_ids
        self._stage_id, self._phase_id = -1, -1
        self._ipu: int | None = None

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks."""
        return self._blocks

    def ipu(self, ipu: int) -> Self:
        """Set the IPU.

        Raises
        ------
        AssertionError
            When it is not an integer.
        """
        assert isinstance(ipu, int), f"ipu is {ipu!r}: expected an integer"
        self._ipu = ipu
        return self

    def _setStage(self, stage: int | None) -> Self:
        """Set the number of the stage, if there is one."""
        if stage is not None:
            self._stage_id = stage
        return self
