"""The stages of blocks while a model is exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from poptorch._logging import logger
from poptorch.enums import AutoStage
from poptorch.strategies.stage import Stage

__all__ = [
    "OUTSIDE",
    "AutomaticStages",
    "BlockPlaces",
    "ExecutionStrategy",
    "StageManager",
    "StatedStages",
    "block_map_of",
    "current_manager",
]

#: Runs what is computed in its context elsewhere: takes the numbers of an IPU, a stage and a phase.
Placed = Callable[[int | None, int | None, int | None], AbstractContextManager[None]]

#: Phase of what follows a block that has ended.
OUTSIDE = -1

_current: ContextVar[BlockPlaces | None] = ContextVar("places", default=None)


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


class BlockPlaces:
    """The block that a model is in while it is exported.

    Parameters
    ----------
    stages
        Knows the stages of blocks.
    placed
        Runs what is computed in its context elsewhere.
    """

    def __init__(self, stages: StageManager, placed: Placed) -> None:
        self.stages, self._placed = stages, placed
        self._open = ExitStack()

    def begin(self, user_id: str | None, ipu_id: int | None) -> None:
        """Begin a block; the one before ends."""
        stage, phase, ipu = self.stages.place(user_id, ipu_id)
        self.close()
        numbers = (None if number < 0 else number for number in (ipu, stage, phase))
        self._open.enter_context(self._placed(*numbers))

    def end(self) -> None:
        """End the block; what follows is in none."""
        self.close()
        self._open.enter_context(self._placed(None, None, OUTSIDE))

    def close(self) -> None:
        """Forget the block: the module has returned."""
        self._open.close()


def block_map_of(stages: list[Stage], describe: Callable[[Stage], str]) -> dict[str, Stage]:
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
    def exporting(self, placed: Placed) -> Iterator[BlockPlaces]:
        """Give blocks that begin their stages.

        Parameters
        ----------
        placed
            Runs what is computed in its context elsewhere.
        """
        self._stages_manager.reset_names()
        places = BlockPlaces(self._stages_manager, placed)
        token = _current.set(places)
        try:
            yield places
        finally:
            places.close()
            _current.reset(token)

    def backendOptions(self) -> dict[str, Any]:
        """Return how the stages run, as options."""
        return {}


def current_manager() -> BlockPlaces | None:
    """Return the blocks of the model that is exported; None outside of an export."""
    return _current.get()
