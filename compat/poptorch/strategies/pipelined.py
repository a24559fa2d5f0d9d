"""Strategies in which stages run at the same time, or one after the other."""

from __future__ import annotations

from typing import Any

from poptorch.enums import AutoStage
from poptorch.strategies.stage import Stage
from poptorch.strategies.stage_manager import (
    AutomaticStages,
    ExecutionStrategy,
    StageManager,
    StatedStages,
    block_map_of,
)

__all__ = ["PipelinedExecution", "ShardedExecution"]


class PipelinedExecution(ExecutionStrategy):
    """Stages that run at the same time, on batches that follow each other.

    Parameters
    ----------
    *args
        Stages, or names of blocks that are a stage, in order; or one `AutoStage`, by which blocks
        get their stages. Without any, a stage is what is on an IPU.

    Raises
    ------
    AssertionError
        When an argument is neither, or a block is in two stages.
    """

    def __init__(self, *args: Stage | str | AutoStage) -> None:
        manager: StageManager
        if len(args) == 1 and isinstance(args[0], AutoStage):
            manager, block_map = AutomaticStages(args[0]), {}
        elif args:
            stages = [_stage_of(arg)._setStage(n) for n, arg in enumerate(args)]
            block_map = block_map_of(stages, lambda stage: f"stage {stage._stage_id}")
            manager = StatedStages(block_map)
        else:
            manager, block_map = AutomaticStages(AutoStage.SameAsIpu), {}
        super().__init__(manager, block_map)

    def backendOptions(self) -> dict[str, Any]:
        """Return how the stages run, as options."""
        return {"execution_mode": 0}


class ShardedExecution(PipelinedExecution):
    """Stages that run one after the other, on one batch."""

    def backendOptions(self) -> dict[str, Any]:
        """Return how the stages run, as options."""
        return {"execution_mode": 1}


def _stage_of(arg: object) -> Stage:
    if isinstance(arg, Stage):
        return arg
    assert isinstance(arg, str), f"All arguments must be block IDs or Stages, not {type(arg)}"
    return Stage(arg)
