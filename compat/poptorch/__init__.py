"""PopTorch's names over TileScope's engine: PyTorch programs for IPUs, profiled without one.

`options` and `strategies` say how a model runs, `dataloader` feeds it, `optim` trains it, `ops`
are called in it, `executor` runs it. Names, defaults and exceptions are PopTorch's.
"""

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError("poptorch needs PyTorch 2.13 or newer: install tilescope[torch]") from None

from poptorch import _impl as _impl
from poptorch import ops, optim, options, poptorch_core, profiling, testing
from poptorch._logging import logger, setLogLevel
from poptorch.dataloader import AsynchronousDataAccessor, DataLoader
from poptorch.enums import (
    AutoStage,
    CommGroupType,
    ConnectionType,
    DataLoaderMode,
    HalfFloatCastingBehavior,
    Liveness,
    MatMulSerializationMode,
    MeanReductionStrategy,
    MultiConvPlanType,
    OutputMode,
    OverlapMode,
    ReductionType,
    SharingStrategy,
    SyncPattern,
    VariableRetrievalMode,
)
from poptorch.errors import (
    ConfigFileError,
    Error,
    RecoverableError,
    UnrecoverableError,
    createPoptorchError,
)
from poptorch.executor.executor import PoplarExecutor
from poptorch.executor.hooks import registerPostCompileHook, registerPreCompileHook
from poptorch.models import (
    inferenceModel,
    ipuHardwareIsAvailable,
    ipuHardwareVersion,
    load,
    trainingModel,
)
from poptorch.ops import (
    CPU,
    Attribute,
    BeginBlock,
    Block,
    BlockFunction,
    MultiConv,
    NameScope,
    cond,
    ctc_beam_search_decoder,
    custom_op,
    dynamic_slice,
    dynamic_update,
    for_loop,
    fps,
    identity_loss,
    ipu_print_tensor,
    nearest,
    nop,
    recomputationCheckpoint,
    removeBlocks,
    serializedMatMul,
    set_available_memory,
    set_overlap_for_input,
    set_overlap_for_output,
)
from poptorch.options import (
    Options,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
    TensorLocationSettings,
)
from poptorch.printing import module_repr, print  # PopTorch's name
from poptorch.running import isRunningOnIpu
from poptorch.trees import ICustomArgParser, registerCustomArgParser
from poptorch.version import __version__

__all__ = [
    "CPU",
    "AsynchronousDataAccessor",
    "Attribute",
    "AutoStage",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "CommGroupType",
    "ConfigFileError",
    "ConnectionType",
    "DataLoader",
    "DataLoaderMode",
    "Error",
    "HalfFloatCastingBehavior",
    "ICustomArgParser",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConv",
    "MultiConvPlanType",
    "NameScope",
    "Options",
    "OutputMode",
    "OverlapMode",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "PoplarExecutor",
    "RecoverableError",
    "ReductionType",
    "SerialPhasedExecution",
    "ShardedExecution",
    "SharingStrategy",
    "Stage",
    "SyncPattern",
    "TensorLocationSettings",
    "UnrecoverableError",
    "VariableRetrievalMode",
    "__version__",
    "cond",
    "createPoptorchError",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "for_loop",
    "fps",
    "identity_loss",
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "ipu_print_tensor",
    "isRunningOnIpu",
    "load",
    "logger",
    "module_repr",
    "nearest",
    "nop",
    "ops",
    "optim",
    "options",
    "poptorch_core",
    "print",
    "profiling",
    "recomputationCheckpoint",
    "registerCustomArgParser",
    "registerPostCompileHook",
    "registerPreCompileHook",
    "removeBlocks",
    "serializedMatMul",
    "setLogLevel",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
    "testing",
    "trainingModel",
]
