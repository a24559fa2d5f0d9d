"""Enumerations about options of a session."""

from __future__ import annotations

from popart.enumeration import Enumeration

__all__ = [
    "AccumulateOuterFragmentSchedule",
    "AnchorReturnTypeId",
    "AutodiffStitchStrategy",
    "BatchSerializationBatchSchedule",
    "BatchSerializationMethod",
    "BatchSerializationTransformContext",
    "ExecutionPhaseIOSchedule",
    "ExecutionPhaseSchedule",
    "GradientTensorTrackingMethod",
    "Instrumentation",
    "IrSerializationFormat",
    "MergeVarUpdateType",
    "PatternsLevel",
    "RecomputationType",
    "SubgraphCopyingStrategy",
    "SyntheticDataMode",
    "VirtualGraphMode",
]


class AnchorReturnTypeId(Enumeration):
    """Which of the values of an anchor are returned."""

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3


class SyntheticDataMode(Enumeration):
    """Data that are made on the device in place of those of the host."""

    Off = 0
    Zeros = 1
    RandomNormal = 2
    RandomUniform = 3


class RecomputationType(Enumeration):
    """Which activations are computed again in the backward pass."""

    NoRecompute = 0
    Standard = 1
    NormOnly = 2
    Pipeline = 3
    RecomputeAll = 4


class VirtualGraphMode(Enumeration):
    """Who assigns operators to IPUs."""

    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3


class MergeVarUpdateType(Enumeration):
    """Which updates of variables are joined."""

    Off = 0
    All = 1
    AutoLoose = 2
    AutoTight = 3


class IrSerializationFormat(Enumeration):
    """Format of an intermediate representation."""

    JSON = 0


class Instrumentation(Enumeration):
    """Which loops of a program count cycles."""

    Outer = 0
    Inner = 1


class GradientTensorTrackingMethod(Enumeration):
    """Gradients that automatic loss scaling observes."""

    AllNonViewChangingGradientTensors = 0
    ConvAndMatmulGradients = 1
    GradientsOfUserSpecifiedTensors = 2


class BatchSerializationTransformContext(Enumeration):
    """Pass in which a batch is cut."""

    Fwd = 0
    Bwd = 1
    Forward = 0
    Backward = 1


class BatchSerializationMethod(Enumeration):
    """How the parts of a batch are run."""

    UnrollDynamic = 0
    UnrollStatic = 1
    Loop = 2


class BatchSerializationBatchSchedule(Enumeration):
    """Order of the parts of a batch."""

    Scheduler = 0
    Isomorphic = 1
    OverlapOnIo = 2
    OverlapOnCompute = 3


class ExecutionPhaseIOSchedule(Enumeration):
    """When a tensor is loaded for an execution phase."""

    Preload = 0
    OnDemand = 1


class ExecutionPhaseSchedule(Enumeration):
    """Order of the operators of an execution phase."""

    Interleaving = 0
    Batch = 1
    BatchClusteredIO = 2


class AccumulateOuterFragmentSchedule(Enumeration):
    """Order of what runs once after the micro-batches."""

    Scheduler = 0
    Serial = 1
    OverlapCycleOptimized = 2
    OverlapMemoryOptimized = 3


class SubgraphCopyingStrategy(Enumeration):
    """When arguments of an outlined function are copied."""

    OnEnterAndExit = 0
    JustInTime = 1


class AutodiffStitchStrategy(Enumeration):
    """Where a backward function takes forward values from."""

    RecomputeMinimal = 0
    RecomputeAllNonInputs = 1
    AddFwdOutputs = 2
    SafeAddFwdOutputs = 3


class PatternsLevel(Enumeration):
    """Which patterns are enabled."""

    NoPatterns = 0
    Minimal = 1
    Default = 2
    All = 3
