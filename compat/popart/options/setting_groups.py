"""Classes of options that belong together.

Source: graphcore/popart, willow/include/popart/sessionoptions.hpp.
"""

from __future__ import annotations

from typing import Any

from popart.arguments import BOOL, INT, INTS, Parameter, Signature, instance, match_call
from popart.enums import (
    AccumulateOuterFragmentSchedule,
    AutodiffStitchStrategy,
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    ExecutionPhaseIOSchedule,
    ExecutionPhaseSchedule,
    GradientTensorTrackingMethod,
    TensorStorage,
)
from popart.placement import TensorLocation
from popart.settings import Settings

__all__ = [
    "AccumulateOuterFragmentSettings",
    "AutodiffSettings",
    "AutomaticLossScalingSettings",
    "BatchSerializationSettings",
    "ExecutionPhaseSettings",
    "ExperimentalSettings",
    "NumIOTiles",
    "ReplicatedCollectivesSettings",
    "TensorLocationSettings",
]


class AutomaticLossScalingSettings(Settings):
    """Whether the scale of the loss follows the gradients, and by which of them."""

    enabled: bool
    binEdgeLocation: float
    thresholdUpperCountProportion: float
    toTrackTensors: list[str] | None
    updatePeriod: int
    gradientTensorTrackingMethod: GradientTensorTrackingMethod

    def __init__(
        self,
        enabled: bool = False,
        toTrackTensors: list[str] | None = None,
        binEdgeLocation: float = 0.125,
        thresholdUpperCountProportion: float = 1e-7,
        updatePeriod: int = 1,
        gradientTensorTrackingMethod: GradientTensorTrackingMethod = (
            GradientTensorTrackingMethod.AllNonViewChangingGradientTensors
        ),
    ) -> None:
        self.enabled = enabled
        self.toTrackTensors = toTrackTensors
        self.binEdgeLocation = binEdgeLocation
        self.thresholdUpperCountProportion = thresholdUpperCountProportion
        self.updatePeriod = updatePeriod
        self.gradientTensorTrackingMethod = gradientTensorTrackingMethod


_SIZES = (
    Parameter("minElementsForOffChip", INT, 2),
    Parameter("minElementsForReplicatedTensorSharding", INT, 8192),
)
_LOCATION_FORMS = (
    Signature(()),
    Signature((Parameter("location", instance(TensorLocation)), *_SIZES)),
    Signature((Parameter("storage", instance(TensorStorage)), *_SIZES)),
)


class TensorLocationSettings(Settings):
    """Where tensors of one purpose are kept, and from which number of elements on."""

    location: TensorLocation
    minElementsForOffChip: int
    minElementsForReplicatedTensorSharding: int

    def __init__(self, *arguments: Any, **named: Any) -> None:
        _, bound = match_call(
            "popart.TensorLocationSettings", "__init__", _LOCATION_FORMS, arguments, named
        )
        storage = bound.get("storage", TensorStorage.OnChip)
        self.location = bound.get("location", TensorLocation(storage))
        self.minElementsForOffChip = bound.get("minElementsForOffChip", 2)
        self.minElementsForReplicatedTensorSharding = bound.get(
            "minElementsForReplicatedTensorSharding", 8192
        )


class ReplicatedCollectivesSettings(Settings):
    """Which collectives of replicas are joined."""

    prepareScheduleForMergingCollectives: bool
    mergeAllReduceCollectives: bool
    mergeReduceScatterCollectives: bool
    mergeAllGatherCollectives: bool

    def __init__(
        self,
        prepareScheduleForMergingCollectives: bool = False,
        mergeAllReduceCollectives: bool = False,
        mergeReduceScatterCollectives: bool = False,
        mergeAllGatherCollectives: bool = False,
    ) -> None:
        self.prepareScheduleForMergingCollectives = prepareScheduleForMergingCollectives
        self.mergeAllReduceCollectives = mergeAllReduceCollectives
        self.mergeReduceScatterCollectives = mergeReduceScatterCollectives
        self.mergeAllGatherCollectives = mergeAllGatherCollectives


_BATCH_FORMS = (
    Signature(()),
    Signature(
        (
            Parameter("factor", INT),
            Parameter("concatOnVirtualGraphChange", BOOL),
            Parameter("concatOnExecutionPhaseChange", BOOL),
            Parameter("concatOnPipelineStageChange", BOOL),
            Parameter(
                "transformContext",
                instance(BatchSerializationTransformContext),
                BatchSerializationTransformContext.Fwd,
            ),
            Parameter(
                "method",
                instance(BatchSerializationMethod),
                BatchSerializationMethod.UnrollDynamic,
            ),
            Parameter(
                "batchSchedule",
                instance(BatchSerializationBatchSchedule),
                BatchSerializationBatchSchedule.Isomorphic,
            ),
        )
    ),
)


class BatchSerializationSettings(Settings):
    """Whether a batch is cut into parts that are computed one after another."""

    factor: int
    concatOnVirtualGraphChange: bool
    concatOnExecutionPhaseChange: bool
    concatOnPipelineStageChange: bool
    transformContext: BatchSerializationTransformContext
    method: BatchSerializationMethod
    batchSchedule: BatchSerializationBatchSchedule

    def __init__(self, *arguments: Any, **named: Any) -> None:
        _, bound = match_call(
            "popart.BatchSerializationSettings", "__init__", _BATCH_FORMS, arguments, named
        )
        self.factor = bound.get("factor", 0)
        self.concatOnVirtualGraphChange = bound.get("concatOnVirtualGraphChange", True)
        self.concatOnExecutionPhaseChange = bound.get("concatOnExecutionPhaseChange", True)
        self.concatOnPipelineStageChange = bound.get("concatOnPipelineStageChange", True)
        self.transformContext = bound.get(
            "transformContext", BatchSerializationTransformContext.Fwd
        )
        self.method = bound.get("method", BatchSerializationMethod.UnrollDynamic)
        self.batchSchedule = bound.get("batchSchedule", BatchSerializationBatchSchedule.Isomorphic)


class AutodiffSettings(Settings):
    """Where the backward pass takes forward values from."""

    stitchStrategy: AutodiffStitchStrategy

    def __init__(
        self,
        stitchStrategy: AutodiffStitchStrategy = AutodiffStitchStrategy.RecomputeAllNonInputs,
    ) -> None:
        self.stitchStrategy = stitchStrategy


_SCHEDULE = instance(ExecutionPhaseIOSchedule)
_PHASE_FORMS = (
    Signature(()),
    Signature(
        (
            Parameter("phases", INT),
            Parameter("stages", INT),
            Parameter("weightIOSchedule", _SCHEDULE),
            Parameter("activationIOSchedule", _SCHEDULE),
            Parameter("optimizerStateIOSchedule", _SCHEDULE),
            Parameter("accumulatorIOSchedule", _SCHEDULE),
            Parameter("optimizerSchedule", instance(ExecutionPhaseSchedule)),
        )
    ),
)


class ExecutionPhaseSettings(Settings):
    """The phases of a program whose tensors are loaded for one phase at a time."""

    phases: int
    stages: int
    weightIOSchedule: ExecutionPhaseIOSchedule
    activationIOSchedule: ExecutionPhaseIOSchedule
    optimizerStateIOSchedule: ExecutionPhaseIOSchedule
    accumulatorIOSchedule: ExecutionPhaseIOSchedule
    schedule: ExecutionPhaseSchedule

    def __init__(self, *arguments: Any, **named: Any) -> None:
        _, bound = match_call(
            "popart.ExecutionPhaseSettings", "__init__", _PHASE_FORMS, arguments, named
        )
        preload, on_demand = ExecutionPhaseIOSchedule.Preload, ExecutionPhaseIOSchedule.OnDemand
        self.phases = bound.get("phases", 0)
        self.stages = bound.get("stages", 2)
        self.weightIOSchedule = bound.get("weightIOSchedule", preload)
        self.activationIOSchedule = bound.get("activationIOSchedule", preload)
        self.optimizerStateIOSchedule = bound.get("optimizerStateIOSchedule", on_demand)
        self.accumulatorIOSchedule = bound.get("accumulatorIOSchedule", preload)
        self.schedule = bound.get("optimizerSchedule", ExecutionPhaseSchedule.Interleaving)


_FRAGMENT_FORMS = (
    Signature(()),
    Signature(
        (
            Parameter("schedule", instance(AccumulateOuterFragmentSchedule)),
            Parameter("excludedVirtualGraphs", INTS, []),
        )
    ),
)


class AccumulateOuterFragmentSettings(Settings):
    """The order of what runs once after the micro-batches."""

    schedule: AccumulateOuterFragmentSchedule
    excludedVirtualGraphs: list[int]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        _, bound = match_call(
            "popart.AccumulateOuterFragmentSettings", "__init__", _FRAGMENT_FORMS, arguments, named
        )
        self.schedule = bound.get("schedule", AccumulateOuterFragmentSchedule.Serial)
        self.excludedVirtualGraphs = bound.get("excludedVirtualGraphs", [])


class ExperimentalSettings(Settings):
    """Options that may change."""

    customTransformApplierSettings: dict[str, list[str]]
    createHostTransferableTensorWithOffset: bool

    def __init__(self) -> None:
        self.customTransformApplierSettings = {}
        self.createHostTransferableTensorWithOffset = False


class NumIOTiles:
    """A number of tiles that are kept for transfers with the host."""

    def __init__(self, numIOTiles: int = 0) -> None:
        self._number: int = INT.convert(numIOTiles)

    def __int__(self) -> int:
        return self._number

    def __index__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumIOTiles | int) and int(other) == self._number

    def __hash__(self) -> int:
        return hash(self._number)
