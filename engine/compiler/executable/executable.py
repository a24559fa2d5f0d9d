"""The compiler's output: steps and the lowered program tree. Immutable."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.executable.executable_bytes import read_executable, write_executable
from tilescope.engine.compiler.executable.messages import Messages
from tilescope.engine.compiler.executable.parts import Parts
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.compiler.executable.tile_memory import LiveBytes, LiveParts, Memory
from tilescope.engine.errors import BadExecutable
from tilescope.engine.graph import (
    ComputeSet,
    DebugContext,
    GraphImage,
    Joined,
    PlanStage,
    Regions,
    RemoteBuffer,
    Stage,
    Tensor,
    Variable,
    VertexBatch,
    View,
)
from tilescope.engine.graph.freeze import Freezable, altered
from tilescope.engine.machine import Machine
from tilescope.engine.notice import Notice
from tilescope.engine.planner.plan import Plan, PlannedStage
from tilescope.engine.program.print_format import PrintFormat
from tilescope.engine.program.program import PipelineRole
from tilescope.reports.figures import fits

__all__ = [
    "EXECUTABLE_KINDS",
    "CompileRecord",
    "Executable",
    "Node",
    "RemoteAccess",
    "ReplicaAccess",
    "Step",
    "Stopwatch",
    "StreamAccess",
    "VertexUse",
]


@dataclass(frozen=True)
class StreamAccess:
    """A host stream's copy: name, tensor, and whether it goes to the device."""

    stream: str
    tensor: View
    is_input: bool


@dataclass(frozen=True)
class RemoteAccess:
    """A copy from or to rows of a remote buffer: which, and whether it goes to the device."""

    buffer: RemoteBuffer
    tensor: View
    row: int | View
    is_input: bool


@dataclass(frozen=True)
class ReplicaAccess:
    """A copy between replicas: what is sent, what receives it, and from which replica, by replica.

    Parameters
    ----------
    sources
        By part of the elements, which are equal, and replica: the one that it receives from.
    """

    source: View
    target: View
    sources: tuple[tuple[int, ...], ...]


@dataclass
class Step(Freezable):
    """A leaf of the program: one action of all tiles, done each time it is reached."""

    step_id: int
    kind: str
    name: str
    debug: DebugContext
    cost: StepCost
    compute_set: ComputeSet | None = None
    #: For a sync or exchange, the compute set whose data it moves.
    serves: ComputeSet | None = None
    #: The plan stage it belongs to; None where nothing was planned.
    plan_stage: PlanStage | None = None
    access: StreamAccess | RemoteAccess | ReplicaAccess | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    #: Buffers that an exchange fills for the compute phase after it, or that a compute phase fills
    #: for the exchange after it.
    messages: Messages | None = None
    #: For a compute phase, the step that delivers what it reads from other tiles.
    arrival: int | None = None
    code_bytes: Column | None = None
    program_id: int = -1
    #: Variables that the step overwrites completely, so their previous contents are not needed.
    overwrites: tuple[int, ...] = ()
    #: By batch, the tiles on which its vertices take their slow path, ascending: ndarray of int64;
    #: empty where no batch has such tiles.
    slow_tiles: tuple[NDArray[np.int64], ...] = ()
    #: Whether it begins on all replicas when the last of them is ready.
    meets_replicas: bool = False

    @functools.cached_property
    def is_data_dependent(self) -> bool:
        """Whether its cycles depend on the data."""
        return self.compute_set is not None and any(
            batch.codelet.is_data_dependent for batch in self.compute_set.batches
        )

    @functools.cached_property
    def reads_clock(self) -> bool:
        """Whether a vertex reads the cycle counter."""
        return self.compute_set is not None and any(
            batch.codelet.reads_clock for batch in self.compute_set.batches
        )


@dataclass
class Node(Freezable):
    """A node of the lowered program tree; children point to their parent."""

    program_id: int
    parent_id: int | None
    position: int
    root_index: int
    kind: str
    name: str
    debug: DebugContext
    repeat_count: int = 1
    step: Step | None = None
    children: Sequence[Node] = field(default_factory=list)
    root_kind: str = "control"
    #: Of the root of a function that a pipeline consists of.
    role: PipelineRole | None = None
    #: The controlling tensor of If, Switch and RepeatWhile.
    control: View | None = None
    #: Case values of a Switch's children; the last child is the default.
    cases: tuple[int, ...] = ()
    #: Whether a RepeatWhile continues while its control is not zero.
    while_true: bool = True
    #: Root of the function that a Call runs.
    function: Node | None = None
    #: For PrintTensor and ErrorProgram.
    message: str = ""
    #: How PrintTensor shows the values.
    print_format: PrintFormat | None = None

    def freeze(self) -> None:
        """Reject changes to the node, its list of children and its step from now on."""
        self.children = tuple(self.children)
        if self.step is not None:
            self.step.freeze()
        super().freeze()

    @functools.cached_property
    def is_static(self) -> bool:
        """Whether its cycles are data-independent: no decisions, no counted codelets."""
        if self.kind in ("If", "Switch", "RepeatWhile", "ErrorProgram", "PrintTensor"):
            return False
        if self.step is not None:
            return not self.step.is_data_dependent
        if self.function is not None and not self.function.is_static:
            return False
        return all(child.is_static for child in self.children)

    @functools.cached_property
    def is_foldable(self) -> bool:
        """Whether its steps can be timed apart from the run: static, and nothing reads the time.

        Nor do replicas wait for each other in them.
        """
        if not self.is_static:
            return False
        if self.step is not None and (self.step.reads_clock or self.step.meets_replicas):
            return False
        if self.function is not None and not self.function.is_foldable:
            return False
        return all(child.is_foldable for child in self.children)


@dataclass(frozen=True)
class VertexUse:
    """How a compute set uses a codelet: totals for the report."""

    compute_set_id: int
    codelet_name: str
    n_vertices: int
    n_edges: int
    n_tiles: int
    max_cycles: int
    total_cycles: int
    flops: int
    state_bytes: int

    def of(self, compute_set_id: int) -> VertexUse:
        """Return the same for another compute set."""
        return altered(self, compute_set_id=compute_set_id)


@dataclass(frozen=True)
class CompileRecord:
    """How an executable was produced; says nothing about the program.

    Parameters
    ----------
    cache
        ``off``, ``miss`` or ``hit``: whether the executable cache had it.
    wall_start_us, wall_duration_us
        Start, since the Unix epoch, and duration, microseconds.
    """

    cache: str = "off"
    wall_start_us: int = 0
    wall_duration_us: int = 0


@dataclass(frozen=True)
class Stopwatch:
    """Start of a compilation: microseconds since the Unix epoch, and the performance counter."""

    began_us: int = field(default_factory=lambda: time.time_ns() // 1000)
    counter_ns: int = field(default_factory=time.perf_counter_ns)

    def record(self, cache: str) -> CompileRecord:
        """Return the record of a compilation that ends now."""
        elapsed_us = (time.perf_counter_ns() - self.counter_ns) // 1000
        return CompileRecord(cache, self.began_us, elapsed_us)


@dataclass(frozen=True)
class Executable:
    """A compiled program with everything a report contains about it."""

    graph: GraphImage
    machine: Machine
    steps: tuple[Step, ...]
    nodes: tuple[Node, ...]
    roots: tuple[Node, ...]
    functions: tuple[Node, ...]
    memory: Memory
    vertex_uses: tuple[VertexUse, ...]
    plans: tuple[Plan, ...] = ()
    record: CompileRecord = CompileRecord()
    #: Digests of the structure and of the weights of a model; empty for programs of the graph API.
    graph_digest: str = ""
    weights_digest: str = ""
    #: What whoever reads its report should know.
    notices: tuple[Notice, ...] = ()
    #: Where what is made of it is kept for later processes; None if nowhere.
    parts: Parts | None = None

    @property
    def is_model(self) -> bool:
        """Whether it is a compiled model, of which the host reads results through streams only."""
        return bool(self.graph_digest)

    @property
    def overfull_tiles(self) -> NDArray[np.int64]:
        """Tiles that do not fit, as `tilescope.reports.figures` defines it: ndarray of int64."""
        memory, machine = self.memory, self.machine
        fitting = fits(
            memory.including_gaps,
            memory.code_end,
            machine.allocatable_bytes,
            machine.non_interleaved_bytes,
        )
        return np.flatnonzero(~fitting)

    @property
    def alone(self) -> Executable:
        """The program without the caller's graph, and without a place on disk."""
        return replace(self, graph=replace(self.graph, sources=()), parts=None)

    def to_bytes(self) -> bytes:
        """Return the executable as bytes, for `from_bytes` in any process with the same engine.

        The user's graph is not part of it: there, build the tensors to read and write from
        ``graph.variables``.

        Raises
        ------
        BadExecutable
            When another process could not find a codelet: define it at a module's top level.
        """
        return write_executable(self.alone, EXECUTABLE_KINDS)

    @classmethod
    def from_bytes(cls, data: bytes) -> Executable:
        """Return the executable serialised by `to_bytes`.

        The modules that define its codelets are imported: load bytes only from a source you would
        run a program from.

        Raises
        ------
        BadExecutable
            When the bytes are damaged, were written by another engine, or need a codelet that is
            missing or has changed.
        """
        executable = read_executable(data, EXECUTABLE_KINDS)
        if not isinstance(executable, cls):
            raise BadExecutable("These bytes are not an executable, only a part of one")
        return executable


#: All types that an executable consists of.
EXECUTABLE_KINDS = (
    Column,
    CompileRecord,
    ComputeSet,
    DebugContext,
    Executable,
    GraphImage,
    Joined,
    LiveBytes,
    LiveParts,
    Machine,
    Memory,
    Messages,
    Node,
    Notice,
    Plan,
    PlanStage,
    PlannedStage,
    PrintFormat,
    Regions,
    RemoteAccess,
    RemoteBuffer,
    ReplicaAccess,
    Stage,
    Step,
    StepCost,
    StreamAccess,
    Tensor,
    Variable,
    VertexBatch,
    VertexUse,
)
