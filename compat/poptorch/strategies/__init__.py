"""Execution strategies: which blocks of a model are which stage, on which IPU.

What a block is, is in `poptorch.ops`; how a stage reaches the graph, in the executor.
"""

from poptorch.strategies.phased import ParallelPhasedExecution, Phase, SerialPhasedExecution
from poptorch.strategies.pipelined import PipelinedExecution, ShardedExecution
from poptorch.strategies.stage import Stage
from poptorch.strategies.stage_manager import (
    OUTSIDE,
    ExecutionStrategy,
    StageManager,
    current_manager,
)

__all__ = [
    "OUTSIDE",
    "ExecutionStrategy",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "SerialPhasedExecution",
    "ShardedExecution",
    "Stage",
    "StageManager",
    "current_manager",
]
