"""Which options of a session act on the simulated machine, and warnings for those that do not."""

from __future__ import annotations

from popart.effect import Effect, warn_once
from popart.options.session_options import SessionOptions
from popart.settings import fields_of

__all__ = ["OPTION_EFFECTS", "effect_of", "options_set", "warn_without_effect"]


_PLACED = "needs several IPUs or the memory of the host"
_ONE_WAY = "the engine has one way"
_IR = "PopART's intermediate representation has no counterpart"
_HOST = "transfers with the host are simulated as they are"

#: The effect of every option, and in the words of the engine what it sets or why it does nothing.
OPTION_EFFECTS: dict[str, tuple[Effect, str]] = {
    # Compilation
    "logDir": (Effect.NONE, "directory of drawings of PopART's intermediate representation"),
    "dotChecks": (Effect.NONE, _IR),
    "firstDotOp": (Effect.NONE, _IR),
    "finalDotOp": (Effect.NONE, _IR),
    "dotOpNames": (Effect.NONE, _IR),
    "exportPoplarComputationGraph": (Effect.NONE, "the report holds the graph"),
    "exportPoplarVertexGraph": (Effect.NONE, "the report holds the vertices"),
    "separateCallOpPdfs": (Effect.NONE, _IR),
    "enableOutlining": (Effect.ACTS, "outlining of repeated operations"),
    "enableOutliningCopyCostPruning": (Effect.NONE, "the engine prices copies always"),
    "outlineThreshold": (Effect.NONE, "the engine has a threshold of its own"),
    "outlineSequenceBreakCost": (Effect.NONE, "the engine has a threshold of its own"),
    "subgraphCopyingStrategy": (Effect.NONE, "copies stand where the compiler puts them"),
    "enableNonStableSoftmax": (Effect.NONE, "softmax subtracts the maximum always"),
    "compileEngine": (Effect.ACTS, "whether `prepareDevice` compiles"),
    "constantWeights": (Effect.ACTS, "weights of an inference are constants or parameters"),
    "enableFullyConnectedPass": (Effect.NONE, _ONE_WAY),
    "enableSerializedMatmuls": (Effect.NONE, _ONE_WAY),
    "partialsTypeMatMuls": (Effect.ACTS, "type of the partial sums of products"),
    "enableStableNorm": (Effect.NONE, "normalisations are stable always"),
    "groupNormStridedChannelGrouping": (Effect.REFUSED, "channels of a group are a stride apart"),
    "engineOptions": (Effect.ACTS, "Poplar's engine options"),
    "convolutionOptions": (
        Effect.ACTS,
        "`partialsType` and `availableMemoryProportion` of convolutions",
    ),
    "lstmOptions": (Effect.NONE, "recurrent layers have one plan"),
    "matmulOptions": (Effect.ACTS, "partials and memory of products"),
    "reportOptions": (Effect.ACTS, "options of the summary report"),
    "gclOptions": (Effect.NONE, "collectives have one plan"),
    "experimentalSettings": (Effect.NONE, _IR),
    "customCodelets": (Effect.NONE, "compiled codelets cannot run on a simulated tile"),
    "updatableNamedBuffers": (Effect.NONE, "all weights can be updated"),
    "customCodeletCompileFlags": (Effect.NONE, "compiled codelets cannot run"),
    "timeLimitScheduler": (Effect.NONE, "the scheduler has no limit of time"),
    "swapLimitScheduler": (Effect.NONE, "the scheduler makes no swaps"),
    "serializedPoprithmsShiftGraphsDir": (Effect.NONE, "the scheduler makes no swaps"),
    "kahnTieBreaker": (Effect.NONE, "operations keep the order of the model"),
    "transitiveClosureOptimizationThreshold": (Effect.NONE, _IR),
    "strictOpVersions": (Effect.NONE, "versions are exact always"),
    "opxAliasChecking": (Effect.NONE, "aliases are checked always"),
    "opxModifyChecking": (Effect.NONE, "modifications are checked always"),
    "enableSupportedDataTypeCasting": (Effect.NONE, "64-bit integers are narrowed if they fit"),
    "enableMergeExchange": (Effect.NONE, _ONE_WAY),
    "enableInplaceAmbiguityChecking": (Effect.NONE, "the compiler orders updates in place"),
    "throwIfLog2ScaleTensorNotInRange": (Effect.NONE, "the engine has no 8-bit floats"),
    "enableConstantFoldingOfMultipleConsumers": (Effect.NONE, "constants are folded always"),
    "useLoopCandidateCreator": (Effect.NONE, _ONE_WAY),
    "aliasZeroCopy": (Effect.NONE, "copies are elided where nothing changes meanwhile"),
    # Training
    "autoRecomputation": (Effect.ACTS, "recomputation of activations"),
    "explicitRecomputation": (Effect.NONE, "recomputation is explicit always"),
    "mergeVarUpdate": (Effect.NONE, _ONE_WAY),
    "mergeVarUpdateMemThreshold": (Effect.NONE, _ONE_WAY),
    "looseThresholdAtPeak": (Effect.NONE, _ONE_WAY),
    "enableGradientAccumulation": (Effect.ACTS, "micro-batches of a step"),
    "accumulationFactor": (Effect.ACTS, "number of micro-batches of a step"),
    "accumulationAndReplicationReductionType": (
        Effect.ACTS,
        "sum or mean of micro-batches and replicas",
    ),
    "meanAccumulationAndReplicationReductionStrategy": (
        Effect.NONE,
        "a mean is divided once, after the sum",
    ),
    "disableGradAccumulationTensorStreams": (Effect.NONE, _HOST),
    "disableOptimizerStateTensorStreams": (Effect.NONE, _HOST),
    "accumulateOuterFragmentSettings": (Effect.NONE, "updates follow the micro-batches in order"),
    "batchSerializationSettings": (
        Effect.ACTS,
        "parts of a batch that are computed one after another",
    ),
    "autodiffSettings": (Effect.NONE, "the backward pass reads forward values directly"),
    "delayVarUpdates": (Effect.NONE, _ONE_WAY),
    "scheduleNonWeightUpdateGradientConsumersEarly": (Effect.NONE, _ONE_WAY),
    "decomposeGradSum": (Effect.NONE, _ONE_WAY),
    "automaticLossScalingSettings": (
        Effect.ACTS,
        "automatic loss scaling, by the gradients of weights",
    ),
    "ensureFp32LossScaleTensor": (Effect.NONE, "the scale of the loss is single precision"),
    "activationTensorLocationSettings": (
        Effect.ACTS,
        "activations in streaming memory; those of a pipeline stay on the tiles",
    ),
    "weightTensorLocationSettings": (
        Effect.ACTS,
        "weights in streaming memory, whole on every replica",
    ),
    "optimizerStateTensorLocationSettings": (
        Effect.ACTS,
        "states of the optimizer in streaming memory, or in shards of replicas",
    ),
    "accumulatorTensorLocationSettings": (
        Effect.ACTS,
        "sums of gradients in streaming memory, whole on every replica",
    ),
    "tensorLocationSettingsOverride": (Effect.ACTS, "tensors in streaming memory, by name"),
    # Devices and transfers
    "rearrangeAnchorsOnHost": (Effect.NONE, _HOST),
    "rearrangeStreamsOnHost": (Effect.NONE, _HOST),
    "enablePrefetchDatastreams": (Effect.NONE, _HOST),
    "defaultBufferingDepth": (Effect.NONE, _HOST),
    "bufferingDepthMap": (Effect.NONE, _HOST),
    "enableReplicatedGraphs": (Effect.ACTS, "the model runs on several sets of IPUs"),
    "replicatedGraphCount": (Effect.ACTS, "number of replicas"),
    "enableDistributedReplicatedGraphs": (Effect.REFUSED, _PLACED),
    "globalReplicationFactor": (Effect.REFUSED, _PLACED),
    "globalReplicaOffset": (Effect.REFUSED, _PLACED),
    "replicatedCollectivesSettings": (Effect.NONE, "collectives have one plan"),
    "virtualGraphMode": (Effect.ACTS, "IPUs of nodes"),
    "virtualGraphSplitRatios": (Effect.ACTS, ""),
    "enablePipelining": (Effect.ACTS, "stages of virtual graphs run at the same time"),
    "createImplicitPipeliningFwdOnlyProgram": (Effect.REFUSED, "a session has one program"),
    "stashAllTensorsInferencePipeline": (Effect.NONE, "an inference has nothing to restore"),
    "executionPhaseSettings": (
        Effect.ACTS,
        "phases run in ascending order; copies are on demand, and beside compute on I/O tiles",
    ),
    "syntheticDataMode": (Effect.ACTS, "data made in place of the host's"),
    "instrumentWithHardwareCycleCounter": (Effect.ACTS, "whether `getCycleCount` counts"),
    "hardwareInstrumentations": (Effect.ACTS, "what `getCycleCount` counts: a run, or one batch"),
    "enableFloatingPointChecks": (Effect.NONE, "a simulated run goes on after an exception"),
    "enableStochasticRounding": (Effect.ACTS, "stochastic rounding to half"),
    "_enableRngStateManagement": (Effect.NONE, "the state of random numbers is managed always"),
    "enableLoadAndOffloadRNGState": (Effect.ACTS, "`getRNGState` and `setRNGState`"),
    "numIOTiles": (
        Effect.ACTS,
        "tiles that copy from and to streaming memory beside compute, where locations ask for them",
    ),
    "groupHostSync": (Effect.NONE, _HOST),
    "useHostCopyOps": (Effect.NONE, _IR),
    "enableExplicitMainLoops": (Effect.NONE, _IR),
    "enableEfficientOverlapIOTopoCons": (Effect.NONE, _HOST),
    # Caches
    "enableEngineCaching": (Effect.ACTS, "whether programs of hardware are kept in `cachePath`"),
    "enableVariablesCaching": (Effect.NONE, "weights are never kept with a program"),
    "cachePath": (Effect.ACTS, "directory of programs that are kept"),
}


def effect_of(option: str) -> Effect:
    """Return what a session does with an option that differs from its default."""
    return OPTION_EFFECTS[option][0]


def options_set(options: SessionOptions) -> list[str]:
    """Return the names of the options that differ from their defaults."""
    defaults = SessionOptions()
    return [
        name
        for name in fields_of(SessionOptions)
        if getattr(options, name) != getattr(defaults, name)
    ]


def warn_without_effect(options: SessionOptions) -> None:
    """Warn of the options that are set and do nothing, once in a process by name."""
    for name in options_set(options):
        if effect_of(name) is Effect.NONE:
            warn_once(f"SessionOptions.{name}", OPTION_EFFECTS[name][1])
