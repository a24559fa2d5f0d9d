"""Options, by group: `options` has them all, `dictionary` is their base."""

from poptorch.errors import ConfigFileError
from poptorch.options.distributed import DistributedOptions as _DistributedOptions
from poptorch.options.options import Options
from poptorch.options.tensor_locations import TensorLocationSettings
from poptorch.strategies import (
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
)

__all__ = [
    "ConfigFileError",
    "Options",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "SerialPhasedExecution",
    "ShardedExecution",
    "Stage",
    "TensorLocationSettings",
    "_DistributedOptions",
]
