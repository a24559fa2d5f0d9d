"""Every engine option that is known: its kind, its default, what it means, whether it acts yet.

The keys are those that Poplar programs in public use; the ones without effect are accepted so
that such programs run unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "AVAILABLE_MEMORY_PROPORTION",
    "CONVOLUTION_MEMORY",
    "CONVOLUTION_PARTIALS",
    "MATMUL_MEMORY",
    "MATMUL_PARTIALS",
    "OPTIONS",
    "PARTIALS_TYPES",
    "Kind",
    "OptionSpec",
]

Value = bool | int | float | str


class Kind(StrEnum):
    """What a value of an option may be."""

    FLAG = "true or false"
    COUNT = "a whole number from 0"
    REAL = "a number from 0"
    SHARE = "a number above 0, up to 1"
    TEXT = "a string"


@dataclass(frozen=True)
class OptionSpec:
    """One key: what it takes and what it does.

    ``default`` is None where the key simply stays unset. ``follows`` names the flag whose value a
    flag takes while it is not given itself.
    """

    name: str
    kind: Kind
    default: Value | None
    description: str
    has_effect: bool = False
    follows: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """What a value may be, in words."""
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


_ALL = "autoReport.all"

_REPORT = (
    _flag(_ALL, "Write every standard part of the report", acts=True),
    _text(
        "autoReport.directory",
        "Folder the report goes to; a named engine takes a sub-folder of its name",
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
        "Write the execution part: cycles of every step; turns instrumentation on",
        acts=True,
        follows=_ALL,
    ),
    _flag("autoReport.outputLoweredVars", "Write lowered variables", follows=_ALL),
    _flag("autoReport.outputDebugInfo", "Write debug.cbor", follows=_ALL),
    _flag("autoReport.outputSerializedGraph", "Write serialized_graph.capnp"),
    _flag("autoReport.outputArchive", "Write archive.a", follows=_ALL),
    _count(
        "autoReport.executionProfileProgramRunCount",
        "How many runs are recorded in the execution part",
        default=2,
        acts=True,
    ),
)

_DEBUG = (
    _flag(
        "debug.instrument",
        "Count cycles while running; unless given, as autoReport.outputExecutionProfile",
        acts=True,
        follows="autoReport.outputExecutionProfile",
    ),
    _flag("debug.instrumentCompute", "Count cycles of compute sets"),
    _flag("debug.instrumentControlFlow", "Record the control flow"),
    _flag("debug.instrumentExternalExchange", "Count cycles of stream copies and global exchange"),
    _text(
        "debug.computeInstrumentationLevel",
        "How finely compute is counted",
        choices=("vertex", "tile", "ipu", "device"),
    ),
    _flag(
        "debug.allowOutOfMemory",
        "Finish compiling a program that does not fit and write its report, without running it",
        default=True,
        acts=True,
    ),
    _flag("debug.retainDebugInformation", "Keep names for printed summaries"),
    _flag("debug.outputAllSymbols", "Put more symbols into the archive"),
    _text("debug.loweredVarDumpFile", "File for lowered variables"),
    _flag("debug.branchRecordFlush", "Drain the branch record while running", default=None),
    _text("debug.executionProfile", "What the older execution profile holds"),
    _flag("debug.floatPointOpException", "Stop at floating-point exceptions", default=None),
    _flag("debug.nanOverflowMode", "Turn half overflow into NaN", default=None),
    _flag("debug.runtimeVerify", "Verify while running", default=None),
    _flag(
        "debug.verify",
        "Check while a model is compiled that no vertex touches what another one writes",
        default=None,
        acts=True,
    ),
    _flag("debug.trace", "Trace the simulator", default=None),
    _text("debug.traceFile", "File for the simulator's trace"),
    _count("debug.workerStackSizeInBytes", "Stack of one worker, bytes"),
)

# Session options of PopART. Source: graphcore/popart, willow/include/popart/sessionoptions.hpp.
_CACHE = (
    _flag(
        "enableEngineCaching",
        "Keep compiled executables in the folder `cachePath`, and take them from there",
        acts=True,
    ),
    _text(
        "cachePath",
        "Folder of the executable cache; POPXL_CACHE_DIR, POPART_CACHE_DIR or POPTORCH_CACHE_DIR"
        " name one and turn it on",
        default="session_cache",
        acts=True,
    ),
)

_PROFILER = (
    _text("profiler.blocks.filter", "Regular expression over the names of blocks to instrument"),
    _text("profiler.programs.filter", "Regular expression over programs wrapped into blocks"),
    _text("profile.programs.filter", "Another spelling of profiler.programs.filter"),
    _count("profiler.blocks.tile", "Tile of each IPU that times blocks", default=0),
    _count("profiler.blocks.bufferSize", "Buffer for blocks on a tile, bytes", default=1000),
    _flag("profiler.blocks.implicitFlush", "Add stream copies that drain the buffer", default=True),
    _flag("profiler.includeCycleEstimates", "Add estimates of cycles", default=None),
    _flag("profiler.includeFlopEstimates", "Add estimates of floating-point work", default=None),
    _count("profiler.replicaToProfile", "Which replica is profiled"),
    _text("profiler.format", "Format of the profile"),
)

_TARGET = (
    _text("target.saveArchive", "File for the archive"),
    _text("target.saveOutputVertexGraph", "File for the vertex graph"),
    _flag("target.syncReplicasIndependently", "Replicas sync on their own", default=None),
    _text(
        "target.deterministicWorkers",
        "Whether workers run in a fixed order",
        choices=("true", "false", "portable"),
    ),
    OptionSpec(
        "target.hostSyncTimeout", Kind.REAL, 300.0, "How long the host waits for a sync, seconds"
    ),
    _flag("target.extendedMemory", "Use memory beyond the tiles", default=None),
    _count("target.firstRuntimeReplica", "First replica of this process"),
    _count("target.numberRuntimeReplica", "Number of replicas of this process"),
    _count("target.syncPollPeriodUs", "Time between polls for a sync, microseconds"),
    _text("target.syncMethod", "How the host waits for a sync", default="default"),
)

_COMPILER = (
    _count("prng.seed", "Seed of the random numbers"),
    _flag("prng.enableStochasticRounding", "Round half at random", default=None),
    _text("opt.internalExchangeOptimisationTarget", "What exchange code is optimised for"),
    _flag("opt.enableMultiAccessCopies", "Copies that read twice a cycle", default=None),
    _count("opt.maxCopyMergeSize", "Largest copy that is merged, bytes"),
    _count("opt.maxComputeSetsPerLoweredCopy", "Compute sets that one copy may become"),
    _count("opt.maxCompilationThreads", "Threads of the compiler"),
    _flag("opt.enableInlining", "Inline functions", default=None),
    _flag("opt.useAutoloader", "Load the program by the autoloader", default=None),
    _text(
        "exchange.streamBufferOverlap",
        "Which stream buffers may share memory",
        choices=("none", "hostRearrangeOnly", "any"),
    ),
    _flag("exchange.enablePrefetch", "Fetch streams ahead", default=None),
    _text("exchange.multicastPolicy", "How exchange is multicast"),
    _text("streamCallbacks.multiThreadMode", "Threads of callbacks", default="singleThread"),
    _count("streamCallbacks.numWorkerThreads", "Number of threads of callbacks", default=0),
    _text("streamCallbacks.maxLookahead", "How far callbacks run ahead"),
    _flag("streamCallbacks.numaAware", "Pin callbacks to memory nodes", default=None),
)

#: Share of a tile's memory that one operation may take while it runs, unless told otherwise.
#: Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvOptions.hpp.
AVAILABLE_MEMORY_PROPORTION = 0.6

# Session options of PopART and the option of the library in them.
# Source: graphcore/popart, willow/include/popart/sessionoptions.hpp.
CONVOLUTION_MEMORY = "convolutionOptions.availableMemoryProportion"
MATMUL_MEMORY = "matmulOptions.availableMemoryProportion"

CONVOLUTION_PARTIALS = "convolutionOptions.partialsType"
MATMUL_PARTIALS = "matmulOptions.partialsType"

#: Number types of partial sums, the default first.
#: Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvOptions.hpp.
PARTIALS_TYPES = ("float", "half")

_MEMORY = tuple(
    OptionSpec(
        name,
        Kind.SHARE,
        AVAILABLE_MEMORY_PROPORTION,
        f"Largest share of a tile's memory that {what} may take while it runs; a node's own"
        " `__available_memory` takes precedence",
        has_effect=True,
    )
    for name, what in ((CONVOLUTION_MEMORY, "a convolution"), (MATMUL_MEMORY, "a product"))
)
_PARTIALS = tuple(
    _text(
        name,
        f"Number type in which {what} of halves adds up; a node's own `__partials_type` takes"
        " precedence",
        default=PARTIALS_TYPES[0],
        acts=True,
        choices=PARTIALS_TYPES,
    )
    for name, what in ((CONVOLUTION_PARTIALS, "a convolution"), (MATMUL_PARTIALS, "a product"))
)

OPTIONS: dict[str, OptionSpec] = {
    spec.name: spec
    for spec in (
        *_REPORT,
        *_DEBUG,
        *_CACHE,
        *_MEMORY,
        *_PARTIALS,
        *_PROFILER,
        *_TARGET,
        *_COMPILER,
    )
}
"""Every known key, in the order of the reference page."""
