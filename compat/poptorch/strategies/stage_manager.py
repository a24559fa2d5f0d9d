"""The stages of blocks while a model is exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from poptorch._logging import logger
from poptorch.enums import AutoStage
from poptorch.strategies.stage import Stage

__all__ = [
    "AutomaticStages",
    "ExecutionStrategy",
    "StageManager",
    "StatedStages",
    "block_map_of",
    "current_manager",
]

#: What a block does when it begins: takes the numbers of its stage, phase and IPU.
Begin = Callable[[int, int, int], None]

_current: ContextVar[tuple[StageManager, Begin] | None] = ContextVar("stages", default=None)


class StageManager(ABC):
    """Knows the stage of every block."""

    def __init__(self) -> None:
        self._next_auto_id = 0
        self._current_ipu: int | None = None

    @abstractmethod
    def getStage(self, block_id: str) -> Stage:
        """Return the stage of a block."""

    def next_name(self) -> str:
        """Return a name for a block that has none: numbers, in the order in which they begin."""
        self._next_auto_id += 1
        return str(self._next_auto_id - 1)

    def reset_names(self) -> None:
        """Let the next block without a name be the first again."""
        self._next_auto_id = 0

    def place(self, user_id: str | None, ipu_id: int | None) -> tuple[int, int, int]:
        """Return stage, phase and IPU of a block that begins.

        Parameters
        ----------
        user_id
            Its name; None gives it the next number.
        ipu_id
            The IPU that it states.
        """
        name = user_id or self.next_name()
        self._current_ipu = ipu_id
        stage = self.getStage(name)
        ipu = ipu_id if stage._ipu is None else stage._ipu
        if ipu is None:
            ipu = stage._stage_id
        logger.debug(
            "Starting block id=%s stage=%d phase=%d ipu=%d",
            name,
            stage._stage_id,
            stage._phase_id,
            ipu,
        )
        return stage._stage_id, stage._phase_id, ipu


class StatedStages(StageManager):
    """The stages that a strategy states."""

    def __init__(self, block_map: Mapping[str, Stage]) -> None:
        super().__init__()
        self._block_map = block_map

    def getStage(self, block_id: str) -> Stage:
        """Return the stage of a block.

        Raises
        ------
        AssertionError
            When the strategy does not name it.
        """
        known = [*self._block_map]
        assert block_id in self._block_map, (
            f"Unknown Block '{block_id}' list of expected Blocks: {known}"
        )
        return self._block_map[block_id]


class AutomaticStages(StageManager):
    """Stages by the IPU of a block, or by the order of the blocks."""

    def __init__(self, auto_stage: AutoStage) -> None:
        super().__init__()
        self._next_id, self._auto_stage = 1, auto_stage
        self._block_map: dict[str, Stage] = {}

    def getStage(self, block_id: str) -> Stage:
        """Return the stage of a block.

        Raises
        ------
        AssertionError
            When stages are those of IPUs, and the block states none.
        """
        if block_id not in self._block_map:
            number: int | None = self._next_id
            if self._auto_stage is AutoStage.SameAsIpu:
                number = self._current_ipu
                assert number is not None, (
                    "poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for block"
                    f" {block_id}"
                )
            else:
                self._next_id += 1
            self._block_map[block_id] = Stage(block_id)._setStage(number)
        return self._block_map[block_id]


def block_map_of(
    stages: list[Stage], describe: Callable[[Stage], str]
) -> dict[str, Stage]:
    """Return the stages of blocks by their names.

    Parameters
    ----------
    stages
        All stages.
    describe
        Names a stage in messages.

    Raises
    ------
    AssertionError
        When a block is in two.
    """
    block_map: dict[str, Stage] = {}
    for stage in stages:
        for block in stage.blocks:
            assert block not in block_map, f"{block} associated with more than one stage"
            on = "" if stage._ipu is None else f" on IPU {stage._ipu}"
            logger.debug("block %s added to %s%s", block, describe(stage), on)
            block_map[block] = stage
    return block_map


class ExecutionStrategy:
    """The stages of a model, and how they run."""

    def __init__(self, manager: StageManager, block_map: dict[str, Stage]) -> None:
        self._stages_manager, self._block_map = manager, block_map

    def stage(self, block_id: str) -> Stage:
        """Return the stage of a block.

        Raises
        ------
        AssertionError
            When the strategy does not name it.
        """
        assert block_id in self._block_map, f"Unknown block {block_id}"
        return self._block_map[block_id]

    @contextmanager
    def exporting(self, begin: Begin) -> Iterator[None]:
        """Give blocks that begin their stages.

        Parameters
        ----------
        begin
            What every block calls with its stage, phase and IPU.
        """
        self._stages_manager.reset_names()
        token = _current.set((self._stages_manager, begin))
        try:
            yield
        finally:
            _current.reset(token)

    def backendOptions(self) -> dict[str, Any]:
        """Return how the stages run, as options."""
        return {}


def current_manager() -> tuple[StageManager, Begin] | None:
    """Return what knows the stages of the model that is exported, and what blocks call."""
    return _current.get()
