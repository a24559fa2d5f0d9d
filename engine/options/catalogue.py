"""The catalogue of engine options: type, default, meaning, and whether the option has an effect.

The keys are those of public Poplar programs; keys without effect are accepted so that these
programs run unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tilescope.engine.options.patterns import PATTERNS, pattern_option

__all__ = [
    "ALLOW_OUT_OF_MEMORY",
    "AVAILABLE_MEMORY_PROPORTION",
    "CONVOLUTION_MEMORY",
    "CONVOLUTION_PARTIALS",
    "INDEPENDENT_REPLICAS",
    "MATMUL_MEMORY",
    "MATMUL_PARTIALS",
    "OPTIONS",
    "OUTLINING",
    "PARTIALS_TYPES",
    "PROFILED_REPLICA",
    "Kind",
    "OptionSpec",
]

Value = bool | int | float | str


class Kind(StrEnum):
    """The type of an option's value."""

    FLAG = "true or false"
    COUNT = "an integer from 0, decimal or hexadecimal (0x)"
    COUNT_OR_WORD = "an integer from 0"
    REAL = "a number from 0"
    SHARE = "a number above 0 and at most 1"
    TEXT = "a string"


@dataclass(frozen=True)
class OptionSpec:
    """One key: its allowed values and its meaning.

    ``default`` is None if the key has no default. ``follows`` names the flag that provides the
    default of this flag. ``successor`` is the key by which later releases know the option.
    """

    name: str
    kind: Kind
    default: Value | None
    description: str
    has_effect: bool = False
    follows: str | None = None
    choices: tuple[str, ...] = ()
    successor: str | None = None

    @property
    def allowed(self) -> str:
        """Description of the allowed values."""
        if self.kind is Kind.COUNT_OR_WORD:
            return " or ".join((self.kind.value, *self.choices))
        return " or ".join(self.choices) if self.choices else self.kind.value


def _flag(
    name: str,
    description: str,
    *,
    default: bool | None = False,
    acts: bool = False,
    follows: str | None = None,
) -> OptionSpec:
    return OptionSpec(name, Kind.FLAG, default, description, acts, follows)


def _count(
    name: str, description: str, *, default: int | None = None, acts: bool = False
) -> OptionSpec:
    return OptionSpec(name, Kind.COUNT, default, description, acts)


def _text(
    name: str,
    description: str,
    *,
    default: str | None = None,
    acts: bool = False,
    choices: tuple[str, ...] = (),
) -> OptionSpec:
    return OptionSpec(name, Kind.TEXT, default, description, acts, None, choices)


def _count_or(word: str, name: str, description: str, *, default: int | None = None) -> OptionSpec:
    return OptionSpec(name, Kind.COUNT_OR_WORD, default, description, choices=(word,))


def _renamed(name: str, successor: OptionSpec) -> OptionSpec:
    """Return the key of an earlier release; its value is that of its successor."""
    return OptionSpec(
        name,
        successor.kind,
        None,
        f"Earlier name of `{successor.name}`",
        successor.has_effect,
        None,
        successor.choices,
        successor.name,
    )


ALLOW_OUT_OF_MEMORY = "debug.allowOutOfMemory"
INDEPENDENT_REPLICAS = "target.syncReplicasIndependently"
PROFILED_REPLICA = "profiler.replicaToProfile"

_ALL = "autoReport.all"

_REPORT = (
    _flag(_ALL, "Write all standard parts of the report", acts=True),
    _text(
        "autoReport.directory",
        "Directory of the report; a named engine uses a subdirectory of its name",
        default=".",
        acts=True,
    ),
    _flag(
        "autoReport.outputGraphProfile",
        "Write the compilation part: memory, liveness, programs",
        acts=True,
        follows=_ALL,
    ),
    _flag(
        "autoReport.outputExecutionProfile",
        "Write the execution part: cycles of every step; enables instrumentation unless"
        " debug.instrument is false",
        acts=True,
        follows=_ALL,
    ),
    _flag("autoReport.outputLoweredVars", "Write lowered variables", follows=_ALL),
    _flag(
        "autoReport.outputDebugInfo",
        "Write the debug contexts into a debug.cbor beside the report as well",
        acts=True,
        follows=_ALL,
    ),
    _flag("autoReport.outputSerializedGraph", "Write serialized_graph.capnp"),
    _flag("autoReport.outputArchive", "Write archive.a", follows=_ALL),
    _flag(
        "autoReport.streamAtEachRun",
        "Write the execution part after every run, not at the end; here every run is written as it"
        " ends, whatever the value",
        default=True,
    ),
    _count(
        "autoReport.executionProfileProgramRunCount",
        "Number of runs recorded in the execution part",
        default=2,
        acts=True,
    ),
)

_DEBUG = (
    _flag(
        "debug.instrument",
        "Count cycles at run time. Off: no run is recorded, and cycle counters take no memory;"
        " default: autoReport.outputExecutionProfile",
        acts=True,
        follows="autoReport.outputExecutionProfile",
    ),
    _flag("debug.instrumentCompute", "Count cycles of compute sets"),
    _flag("debug.instrumentControlFlow", "Record the control flow"),
    _flag("debug.instrumentExternalExchange", "Count cycles of stream copies and global exchange"),
    _text(
        "debug.computeInstrumentationLevel",
        "Granularity of compute instrumentation",
        choices=("vertex", "tile", "ipu", "device"),
    ),
    _flag(
        ALLOW_OUT_OF_MEMORY,
        "Complete the compilation of a program that does not fit and write its report",
        default=True,
        acts=True,
    ),
    _flag("debug.retainDebugInformation", "Keep names for printed summaries"),
    _flag("debug.outputAllSymbols", "Include all symbols in the archive"),
    _text("debug.loweredVarDumpFile", "File for lowered variables"),
    _flag("debug.branchRecordFlush", "Flush the branch record at run time", default=None),
    _text("debug.executionProfile", "Contents of the legacy execution profile"),
    _flag("debug.floatPointOpException", "Stop on floating-point exceptions", default=None),
    _flag("debug.nanOverflowMode", "Convert half overflow to NaN", default=None),
    _flag("debug.runtimeVerify", "Verify at run time", default=None),
    _flag(
        "debug.verify",
        "Check at compile time that no vertex accesses what another one writes",
        default=None,
        acts=True,
    ),
    _flag("debug.trace", "Trace the simulator", default=None),
    _text("debug.traceFile", "File for the simulator's trace"),
    _count("debug.workerStackSizeInBytes", "Stack of a worker, bytes"),
    _count("debug.supervisorStackSizeInBytes", "Stack of a supervisor, bytes"),
    _count("debug.branchRecordTile", "Tile of every IPU that records branches"),
    _count("debug.profilingTile", "Tile of every IPU that records the control flow"),
    _flag("debug.cpuMultiThreadExecution", "Run vertices of a CPU target on several threads"),
    _flag("debug.exceptOnSOCError", "Stop on errors of the SoC", default=None),
    _flag("debug.nanOverflowException", "Stop where a half overflows", default=None),
)

# Session options of PopART. Source: graphcore/popart, willow/include/popart/sessionoptions.hpp.
_CACHE = (
    _flag(
        "enableEngineCaching",
        "Store and load compiled programs in the directory `cachePath`; false, if it is given,"
        " stores no programs at all",
        acts=True,
    ),
    _text(
        "cachePath",
        "Directory of the executable cache; POPXL_CACHE_DIR, POPART_CACHE_DIR or"
        " POPTORCH_CACHE_DIR set it and enable the cache",
        default="session_cache",
        acts=True,
    ),
)

_PROFILER = (
    _text("profiler.blocks.filter", "Regular expression over the names of blocks to instrument"),
    _text("profiler.programs.filter", "Regular expression over programs wrapped into blocks"),
    _count("profiler.blocks.tile", "Tile of every IPU that times blocks", default=0),
    _count("profiler.blocks.bufferSize", "Buffer for blocks on a tile, bytes", default=1000),
    _flag("profiler.blocks.implicitFlush", "Add stream copies that flush the buffer", default=True),
    _flag("profiler.includeCycleEstimates", "Include cycle estimates", default=None),
    _flag("profiler.includeFlopEstimates", "Include FLOP estimates", default=None),
    _count(PROFILED_REPLICA, "Replica whose runs the report shows", acts=True),
    _text("profiler.format", "Format of the profile"),
)

_TARGET = (
    _text("target.saveArchive", "File for the archive"),
    _text("target.saveOutputVertexGraph", "File for the vertex graph"),
    _flag(
        INDEPENDENT_REPLICAS,
        "Whether replicas copy from and to the host without waiting for each other",
        default=None,
        acts=True,
    ),
    _text(
        "target.deterministicWorkers",
        "Whether workers run in a fixed order",
        choices=("true", "false", "portable"),
    ),
    OptionSpec(
        "target.hostSyncTimeout", Kind.REAL, 300.0, "Timeout of the host for a sync, seconds"
    ),
    _flag("target.extendedMemory", "Use memory beyond the tiles", default=None),
    _count("target.firstRuntimeReplica", "First replica of this process"),
    _count("target.numberRuntimeReplica", "Number of replicas of this process"),
    _count("target.syncPollPeriodUs", "Interval of polls for a sync, µs"),
    _text(
        "target.syncMethod",
        "Method of waiting for a sync",
        default="default",
        choices=("default", "polling", "hybrid"),
    ),
    _count("target.exceptionPollPeriodUs", "Interval of polls for exceptions, µs", default=250_000),
    _flag("target.gatewayMode", "Reach streaming memory through the gateway", default=None),
    _count_or(
        "auto",
        "target.maxStreamCallbackThreadsPerNumaNode",
        "Number of callback threads of a NUMA node; later streamCallbacks.numWorkerThreads",
    ),
    _count("target.textSectionSizeInBytes", "Size of the code section of a tile, bytes"),
)

_COMPILER = (
    _flag("prng.enable", "Prepare the random number generators of the tiles", default=None),
    _count("prng.seed", "Seed of the random number generator"),
    _flag("prng.enableStochasticRounding", "Round half stochastically", default=None),
    _text("opt.internalExchangeOptimisationTarget", "Optimisation target of exchange code"),
    _flag("opt.enableMultiAccessCopies", "Use copies with two reads per cycle", default=None),
    _count("opt.maxCopyMergeSize", "Largest merged copy, bytes"),
    _count("opt.maxComputeSetsPerLoweredCopy", "Maximum compute sets per lowered copy"),
    _count("opt.maxCompilationThreads", "Maximum number of compiler threads"),
    _count("opt.maxLinkerThreads", "Maximum number of linker threads"),
    _flag(
        "opt.limitVertexStateToLower256K",
        "Place vertex state in the lowest 256 KiB of a tile",
        default=None,
    ),
    _flag("opt.enableSwSyncs", "Sync tiles of an IPU in software", default=None),
    _flag("opt.enableInlining", "Inline functions", default=None),
    _flag("opt.useAutoloader", "Load the program with the autoloader", default=None),
    _text(
        "exchange.streamBufferOverlap",
        "Stream buffers that may overlap in memory",
        choices=("none", "hostRearrangeOnly", "any"),
    ),
    _flag("exchange.enablePrefetch", "Prefetch streams", default=None),
    _text("exchange.multicastPolicy", "Multicast policy of exchanges"),
    _text("streamCallbacks.multiThreadMode", "Threading mode of callbacks", default="singleThread"),
    _count_or("auto", "streamCallbacks.numWorkerThreads", "Number of callback threads", default=0),
    _count_or("unlimited", "streamCallbacks.maxLookahead", "Maximum lookahead of callbacks"),
    _flag("streamCallbacks.numaAware", "Pin callbacks to NUMA nodes", default=None),
)

#: Default share of tile memory available to an operation while it runs.
#: Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvOptions.hpp.
AVAILABLE_MEMORY_PROPORTION = 0.6

# Session options of PopART and the option of the library in them.
# Source: graphcore/popart, willow/include/popart/sessionoptions.hpp.
CONVOLUTION_MEMORY = "convolutionOptions.availableMemoryProportion"
MATMUL_MEMORY = "matmulOptions.availableMemoryProportion"

CONVOLUTION_PARTIALS = "convolutionOptions.partialsType"
MATMUL_PARTIALS = "matmulOptions.partialsType"

OUTLINING = "enableOutlining"

#: Number types of partial sums, the default first.
#: Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvOptions.hpp.
PARTIALS_TYPES = ("float", "half")

_MEMORY = tuple(
    OptionSpec(
        name,
        Kind.SHARE,
        AVAILABLE_MEMORY_PROPORTION,
        f"Share of tile memory available to {what} while it runs; a node's own"
        " `__available_memory` takes precedence",
        has_effect=True,
    )
    for name, what in ((CONVOLUTION_MEMORY, "a convolution"), (MATMUL_MEMORY, "a product"))
)
_PARTIALS = tuple(
    _text(
        name,
        f"Partials type of {what} of halves; a node's own `__partials_type` takes precedence",
        default=PARTIALS_TYPES[0],
        acts=True,
        choices=PARTIALS_TYPES,
    )
    for name, what in ((CONVOLUTION_PARTIALS, "a convolution"), (MATMUL_PARTIALS, "a product"))
)

_REWRITES = (
    _flag(
        OUTLINING,
        "Share vertices and exchange code between repeated operations of a model",
        default=True,
        acts=True,
    ),
    *(
        _flag(pattern_option(name), text, default=True, acts=True)
        for name, text in PATTERNS.items()
    ),
)

_BY_NAME = {spec.name: spec for spec in (*_DEBUG, *_PROFILER)}
# Keys of releases before 2.0 that public programs still set.
# Source: graphcore/poplibs (tests and tools), graphcore/tensorflow (IPU back end).
_EARLIER = (
    _renamed("target.workerStackSizeInBytes", _BY_NAME["debug.workerStackSizeInBytes"]),
    _renamed("target.supervisorStackSizeInBytes", _BY_NAME["debug.supervisorStackSizeInBytes"]),
    _renamed("profile.programs.filter", _BY_NAME["profiler.programs.filter"]),
)

OPTIONS: dict[str, OptionSpec] = {
    spec.name: spec
    for spec in (
        *_REPORT,
        *_DEBUG,
        *_CACHE,
        *_MEMORY,
        *_PARTIALS,
        *_REWRITES,
        *_PROFILER,
        *_TARGET,
        *_COMPILER,
        *_EARLIER,
    )
}
"""Every known key, in the order of the reference page."""
