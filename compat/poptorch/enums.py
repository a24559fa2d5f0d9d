"""Enumerations of PopTorch, with its values."""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = [
    "AutoStage",
    "CommGroupType",
    "ConnectionType",
    "DataLoaderMode",
    "HalfFloatCastingBehavior",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConvPlanType",
    "OutputMode",
    "OverlapMode",
    "ReductionType",
    "SharingStrategy",
    "SyncPattern",
    "VariableRetrievalMode",
]


class MeanReductionStrategy(IntEnum):
    """When the mean of gradients is divided."""

    Running = 0
    Post = 1
    PostAndLoss = 2


class DataLoaderMode(IntEnum):
    """How a `DataLoader` loads batches."""

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(IntEnum):
    """How a data set reaches the process that loads it."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class OutputMode(IntEnum):
    """Which results of the batches of a run are returned."""

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4


class ConnectionType(IntEnum):
    """When a model attaches to a device."""

    Always = 0
    OnDemand = 1
    Never = 2


class HalfFloatCastingBehavior(IntEnum):
    """How half and float mix; deprecated, as in the original."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class ReductionType(IntEnum):
    """How gradients of micro-batches and replicas are combined."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class SyncPattern(IntEnum):
    """Which IPUs synchronise with each other."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class MatMulSerializationMode(Enum):
    """Which dimension of a product is computed in parts."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class Liveness(IntEnum):
    """How long tensors of a phase stay on the chip."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class OverlapMode(Enum):
    """What transfers with the host overlap with."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"


class AutoStage(IntEnum):
    """How blocks without a stage get one."""

    SameAsIpu = 0
    AutoIncrement = 1


class MultiConvPlanType(IntEnum):
    """How the convolutions of a `MultiConv` share the tiles."""

    Parallel = 0
    Serial = 1


class CommGroupType(IntEnum):
    """Kinds of groups of replicas."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(IntEnum):
    """Which replicas return a variable."""

    OnePerGroup = 0
    AllReplicas = 2
