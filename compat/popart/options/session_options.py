"""`SessionOptions`: what a program asks of the compiler and of the device.

Source: graphcore/popart, willow/include/popart/sessionoptions.hpp.
"""

from __future__ import annotations

import os

from popart import logger
from popart.enums import (
    Instrumentation,
    MeanReductionStrategy,
    MergeVarUpdateType,
    RecomputationType,
    ReductionType,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    VirtualGraphMode,
)
from popart.errors import popart_exception
from popart.options.setting_groups import (
    AccumulateOuterFragmentSettings,
    AutodiffSettings,
    AutomaticLossScalingSettings,
    BatchSerializationSettings,
    ExecutionPhaseSettings,
    ExperimentalSettings,
    ReplicatedCollectivesSettings,
    TensorLocationSettings,
)
from popart.placement import TensorLocation
from popart.settings import Settings

__all__ = ["SessionOptions"]


class SessionOptions(Settings):
    """All options of a session, with PopART's defaults.

    ``POPART_CACHE_DIR`` and ``POPXL_CACHE_DIR`` in the environment set `enableEngineCaching` and
    `cachePath`; the second takes precedence over the first.
    """

    logDir: str
    dotChecks: set[str]
    firstDotOp: int
    finalDotOp: int
    dotOpNames: bool
    exportPoplarComputationGraph: bool
    exportPoplarVertexGraph: bool
    separateCallOpPdfs: bool
    enableOutlining: bool
    enableOutliningCopyCostPruning: bool
    outlineThreshold: float
    outlineSequenceBreakCost: float
    subgraphCopyingStrategy: SubgraphCopyingStrategy
    autoRecomputation: RecomputationType
    mergeVarUpdate: MergeVarUpdateType
    mergeVarUpdateMemThreshold: int
    looseThresholdAtPeak: int
    rearrangeAnchorsOnHost: bool
    rearrangeStreamsOnHost: bool
    enablePrefetchDatastreams: bool
    defaultBufferingDepth: int
    bufferingDepthMap: dict[str, int]
    enableNonStableSoftmax: bool
    enableReplicatedGraphs: bool
    enableGradientAccumulation: bool
    accumulationAndReplicationReductionType: ReductionType
    meanAccumulationAndReplicationReductionStrategy: MeanReductionStrategy
    replicatedGraphCount: int
    accumulationFactor: int
    virtualGraphMode: VirtualGraphMode
    virtualGraphSplitRatios: list[float]
    enablePipelining: bool
    syntheticDataMode: SyntheticDataMode
    instrumentWithHardwareCycleCounter: bool
    hardwareInstrumentations: set[Instrumentation]
    disableGradAccumulationTensorStreams: bool
    disableOptimizerStateTensorStreams: bool
    compileEngine: bool
    constantWeights: bool
    enableEngineCaching: bool
    enableVariablesCaching: bool
    cachePath: str
    enableFloatingPointChecks: bool
    enableStochasticRounding: bool
    _enableRngStateManagement: bool
    executionPhaseSettings: ExecutionPhaseSettings
    accumulateOuterFragmentSettings: AccumulateOuterFragmentSettings
    explicitRecomputation: bool
    numIOTiles: int
    aliasZeroCopy: bool
    batchSerializationSettings: BatchSerializationSettings
    autodiffSettings: AutodiffSettings
    delayVarUpdates: bool
    scheduleNonWeightUpdateGradientConsumersEarly: bool
    enableFullyConnectedPass: bool
    enableSerializedMatmuls: bool
    partialsTypeMatMuls: str
    enableStableNorm: bool
    engineOptions: dict[str, str]
    convolutionOptions: dict[str, str]
    lstmOptions: dict[str, str]
    matmulOptions: dict[str, str]
    reportOptions: dict[str, str]
    gclOptions: dict[str, str]
    experimentalSettings: ExperimentalSettings
    customCodelets: list[str]
    updatableNamedBuffers: list[str]
    customCodeletCompileFlags: str
    timeLimitScheduler: float
    swapLimitScheduler: int
    serializedPoprithmsShiftGraphsDir: str
    kahnTieBreaker: str
    transitiveClosureOptimizationThreshold: int
    decomposeGradSum: bool
    replicatedCollectivesSettings: ReplicatedCollectivesSettings
    enableDistributedReplicatedGraphs: bool
    globalReplicationFactor: int
    globalReplicaOffset: int
    groupHostSync: bool
    strictOpVersions: bool
    opxAliasChecking: bool
    opxModifyChecking: bool
    useHostCopyOps: bool
    enableEfficientOverlapIOTopoCons: bool
    enableLoadAndOffloadRNGState: bool
    activationTensorLocationSettings: TensorLocationSettings
    weightTensorLocationSettings: TensorLocationSettings
    optimizerStateTensorLocationSettings: TensorLocationSettings
    accumulatorTensorLocationSettings: TensorLocationSettings
    tensorLocationSettingsOverride: dict[str, TensorLocation]
    automaticLossScalingSettings: AutomaticLossScalingSettings
    enableSupportedDataTypeCasting: bool
    enableExplicitMainLoops: bool
    groupNormStridedChannelGrouping: bool
    enableMergeExchange: bool
    ensureFp32LossScaleTensor: bool
    enableInplaceAmbiguityChecking: bool
    createImplicitPipeliningFwdOnlyProgram: bool
    throwIfLog2ScaleTensorNotInRange: bool
    enableConstantFoldingOfMultipleConsumers: bool
    useLoopCandidateCreator: bool
    stashAllTensorsInferencePipeline: bool

    def __init__(self) -> None:
        self._set_compilation()
        self._set_training()
        self._set_devices()
        self._set_cache()

    def _set_compilation(self) -> None:
        self.logDir = ""
        self.dotChecks = set()
        self.firstDotOp, self.finalDotOp = 0, 10000
        self.dotOpNames = False
        self.exportPoplarComputationGraph = self.exportPoplarVertexGraph = False
        self.separateCallOpPdfs = True
        self.enableOutlining = self.enableOutliningCopyCostPruning = True
        self.outlineThreshold, self.outlineSequenceBreakCost = 1.0, 10000.0
        self.subgraphCopyingStrategy = SubgraphCopyingStrategy.OnEnterAndExit
        self.enableNonStableSoftmax = False
        self.compileEngine = self.constantWeights = True
        self.enableFullyConnectedPass = self.enableSerializedMatmuls = True
        self.partialsTypeMatMuls = ""
        self.enableStableNorm = self.groupNormStridedChannelGrouping = False
        for name in ("engine", "convolution", "lstm", "matmul", "report", "gcl"):
            setattr(self, f"{name}Options", {})
        self.experimentalSettings = ExperimentalSettings()
        self.customCodelets, self.updatableNamedBuffers = [], []
        self.customCodeletCompileFlags = ""
        self.timeLimitScheduler, self.swapLimitScheduler = 1e9, 1_000_000_000
        self.serializedPoprithmsShiftGraphsDir, self.kahnTieBreaker = "", "greedy"
        self.transitiveClosureOptimizationThreshold = 100_000
        self.strictOpVersions = True
        self.opxAliasChecking = self.opxModifyChecking = False
        self.enableSupportedDataTypeCasting = self.enableMergeExchange = True
        self.enableInplaceAmbiguityChecking = self.useLoopCandidateCreator = False
        self.throwIfLog2ScaleTensorNotInRange = True
        self.enableConstantFoldingOfMultipleConsumers = True
        self.aliasZeroCopy = False

    def _set_training(self) -> None:
        self.autoRecomputation = RecomputationType.NoRecompute
        self.explicitRecomputation = False
        self.mergeVarUpdate = MergeVarUpdateType.Off
        self.mergeVarUpdateMemThreshold, self.looseThresholdAtPeak = 1_000_000, 8000
        self.enableGradientAccumulation, self.accumulationFactor = False, 1
        self.accumulationAndReplicationReductionType = ReductionType.Sum
        self.meanAccumulationAndReplicationReductionStrategy = MeanReductionStrategy.Post
        self.disableGradAccumulationTensorStreams = False
        self.disableOptimizerStateTensorStreams = False
        self.accumulateOuterFragmentSettings = AccumulateOuterFragmentSettings()
        self.batchSerializationSettings = BatchSerializationSettings()
        self.autodiffSettings = AutodiffSettings()
        self.delayVarUpdates = True
        self.scheduleNonWeightUpdateGradientConsumersEarly = self.decomposeGradSum = False
        self.automaticLossScalingSettings = AutomaticLossScalingSettings()
        self.ensureFp32LossScaleTensor = False
        for purpose in ("activation", "weight", "optimizerState", "accumulator"):
            setattr(self, f"{purpose}TensorLocationSettings", TensorLocationSettings())
        self.tensorLocationSettingsOverride = {}

    def _set_devices(self) -> None:
        self.rearrangeAnchorsOnHost, self.rearrangeStreamsOnHost = True, False
        self.enablePrefetchDatastreams, self.defaultBufferingDepth = True, 1
        self.bufferingDepthMap = {}
        self.enableReplicatedGraphs, self.replicatedGraphCount = False, 1
        self.enableDistributedReplicatedGraphs = False
        self.globalReplicationFactor, self.globalReplicaOffset = 1, 0
        self.replicatedCollectivesSettings = ReplicatedCollectivesSettings()
        self.virtualGraphMode, self.virtualGraphSplitRatios = VirtualGraphMode.Off, []
        self.enablePipelining = False
        self.createImplicitPipeliningFwdOnlyProgram = self.stashAllTensorsInferencePipeline = False
        self.executionPhaseSettings = ExecutionPhaseSettings()
        self.syntheticDataMode = SyntheticDataMode.Off
        self.instrumentWithHardwareCycleCounter = False
        self.hardwareInstrumentations = {Instrumentation.Outer}
        self.enableFloatingPointChecks = self.enableStochasticRounding = False
        self._enableRngStateManagement = self.enableLoadAndOffloadRNGState = False
        self.numIOTiles = 0
        self.groupHostSync = self.useHostCopyOps = self.enableExplicitMainLoops = False
        self.enableEfficientOverlapIOTopoCons = False

    def _set_cache(self) -> None:
        self.enableEngineCaching, self.enableVariablesCaching = False, True
        self.cachePath = "session_cache"
        first, second = os.environ.get("POPART_CACHE_DIR"), os.environ.get("POPXL_CACHE_DIR")
        if first and second and first != second:
            logger.warn(
                f"Both POPART_CACHE_DIR ('{first}') and POPXL_CACHE_DIR ('{second}') are set and"
                " differ from each other. The value of POPART_CACHE_DIR will be ignored."
            )
        if first or second:
            self.enableEngineCaching = True
            self.cachePath = str(second or first)

    @property
    def updatableBuffers(self) -> list[str]:
        """`updatableNamedBuffers` by another name."""
        return self.updatableNamedBuffers

    @updatableBuffers.setter
    def updatableBuffers(self, names: list[str]) -> None:
        self.updatableNamedBuffers = names

    @property
    def serializedPoprithmsAnnealGraphsDir(self) -> str:
        """`serializedPoprithmsShiftGraphsDir` by its old name."""
        return self.serializedPoprithmsShiftGraphsDir

    @serializedPoprithmsAnnealGraphsDir.setter
    def serializedPoprithmsAnnealGraphsDir(self, path: str) -> None:
        self.serializedPoprithmsShiftGraphsDir = path

    @property
    def defaultPrefetchBufferingDepth(self) -> int:
        """`defaultBufferingDepth` by its old name."""
        return self.defaultBufferingDepth

    @defaultPrefetchBufferingDepth.setter
    def defaultPrefetchBufferingDepth(self, depth: int) -> None:
        _warn_of_old_name("defaultPrefetchBufferingDepth", "defaultBufferingDepth")
        self.defaultBufferingDepth = depth

    @property
    def prefetchBufferingDepthMap(self) -> dict[str, int]:
        """`bufferingDepthMap` by its old name."""
        return self.bufferingDepthMap

    @prefetchBufferingDepthMap.setter
    def prefetchBufferingDepthMap(self, depths: dict[str, int]) -> None:
        _warn_of_old_name("prefetchBufferingDepthMap", "bufferingDepthMap")
        self.bufferingDepthMap = depths

    def enableExplicitIR(self, enable: bool) -> None:
        """Set `useHostCopyOps`, `enableExplicitMainLoops` and `explicitRecomputation` at once."""
        self.useHostCopyOps = self.enableExplicitMainLoops = enable
        self.explicitRecomputation = enable

    def getGlobalReplicationFactor(self) -> int:
        """Return the number of replicas over all processes."""
        if self.enableDistributedReplicatedGraphs:
            return self.globalReplicationFactor
        return self.replicatedGraphCount if self.enableReplicatedGraphs else 1

    def getAccumulationFactor(self) -> int:
        """Return the number of micro-batches of a step; refuse one above 1 without accumulation."""
        if not self.enableGradientAccumulation and self.accumulationFactor > 1:
            raise popart_exception(
                "enableGradientAccumulation is false, but accumulationFactor > 1. Either enable"
                " gradient accumulation, or set the accumulation factor to 1"
            )
        return self.accumulationFactor

    def getBufferingDepth(self, tensorId: str, isRearrangedOnHost: bool = False) -> int:
        """Return the number of buffers of a stream; refuse one that Poplar does not have."""
        default = 1 if isRearrangedOnHost else self.defaultBufferingDepth
        depth = self.bufferingDepthMap.get(tensorId, default)
        if depth < 1:
            raise popart_exception(
                f"Unable to support a buffering depth of {depth} for tensor {tensorId} (minimum"
                " buffering depth is 1)"
            )
        if depth > 1 and isRearrangedOnHost:
            raise popart_exception(
                f"Unable to support a buffering depth >1 for tensor {tensorId} because the stream"
                " is set to rearrange on the host"
            )
        return depth

    def autoRecomputationEnabled(self) -> bool:
        """Whether the compiler chooses activations to compute again."""
        return self.autoRecomputation is not RecomputationType.NoRecompute


def _warn_of_old_name(old: str, new: str) -> None:
    logger.warn(
        f"The session option {old} has been deprecated and will be removed in a future release."
        f" Please use the alias {new} instead."
    )
