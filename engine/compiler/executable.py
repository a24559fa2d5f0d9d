"""What the compiler makes: steps, the lowered program tree, costs, memory. Never changed after."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.messages import Messages
from tilescope.engine.graph import (
    ComputeSet,
    DebugContext,
    Graph,
    PlanStage,
    RemoteBuffer,
    View,
)
from tilescope.engine.machine import Machine
from tilescope.engine.planner.plan import Plan
from tilescope.reports.figures import fits

__all__ = [
    "CompileRecord",
    "Executable",
    "LiveParts",
    "Memory",
    "Node",
    "RemoteAccess",
    "Step",
    "StepCost",
    "StreamAccess",
    "VertexUse",
]


@dataclass
class StepCost:
    """What one execution of a step costs.

    Parameters
    ----------
    cycles : ndarray of int64, shape (n_ipus,)
        Time on each IPU.
    tile_cycles : ndarray of int64, shape (n_tiles,)
        Busy cycles of every tile.
    sent_bytes, received_bytes : ndarray of int64, shape (n_tiles,)
        Exchanged by every tile; a multicast counts once for its sender.
    paired_bytes : ndarray of int64, shape (n_tiles,)
        Of the received, those that come at double rate because the tile's partner takes them too.
    fragments : ndarray of int64, shape (n_tiles,)
        Separate pieces each tile receives.
    host_in_bytes, host_out_bytes : ndarray of int64, shape (n_ipus,)
        From and to the host.
    remote_in_bytes, remote_out_bytes : ndarray of int64, shape (n_ipus,)
        From and to remote buffers in streaming memory.
    link_in_bytes, link_out_bytes : ndarray of int64, shape (n_ipus,)
        From and to other IPUs.
    flops : ndarray of int64, shape (n_ipus,)
        Useful floating-point operations.
    """

    cycles: NDArray[np.int64]
    tile_cycles: NDArray[np.int64]
    sent_bytes: NDArray[np.int64]
    received_bytes: NDArray[np.int64]
    paired_bytes: NDArray[np.int64]
    fragments: NDArray[np.int64]
    host_in_bytes: NDArray[np.int64]
    host_out_bytes: NDArray[np.int64]
    remote_in_bytes: NDArray[np.int64]
    remote_out_bytes: NDArray[np.int64]
    link_in_bytes: NDArray[np.int64]
    link_out_bytes: NDArray[np.int64]
    flops: NDArray[np.int64]
    sync_zone: str = "none"

    @classmethod
    def nothing(cls, machine: Machine) -> StepCost:
        """Return the cost of a step that costs nothing."""
        tiles, ipus = machine.n_tiles, machine.n_ipus

        def zeros(n: int) -> NDArray[np.int64]:
            return np.zeros(n, np.int64)

        return cls(
            cycles=zeros(ipus),
            tile_cycles=zeros(tiles),
            sent_bytes=zeros(tiles),
            received_bytes=zeros(tiles),
            paired_bytes=zeros(tiles),
            fragments=zeros(tiles),
            host_in_bytes=zeros(ipus),
            host_out_bytes=zeros(ipus),
            remote_in_bytes=zeros(ipus),
            remote_out_bytes=zeros(ipus),
            link_in_bytes=zeros(ipus),
            link_out_bytes=zeros(ipus),
            flops=zeros(ipus),
        )


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


@dataclass
class Step:
    """A leaf of the program: something every tile does once each time it is reached."""

    step_id: int
    kind: str
    name: str
    debug: DebugContext
    cost: StepCost
    compute_set: ComputeSet | None = None
    #: For a sync or exchange, the compute set whose data it brings or takes away.
    serves: ComputeSet | None = None
    access: StreamAccess | RemoteAccess | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    #: Buffers that an exchange fills for the compute phase after it, or that a compute phase fills
    #: for the exchange after it.
    messages: Messages | None = None
    #: For a compute phase, the step that brings what it reads from other tiles.
    arrival: int | None = None
    code_bytes: NDArray[np.int64] | None = None
    program_id: int = -1
    #: Variables that the step writes in full, so that what they held before is not needed.
    overwrites: tuple[int, ...] = ()
    #: By batch, the tiles on which its vertices take their slow path: ndarray of bool, shape
    #: (n_tiles,); empty where none does.
    slow_tiles: tuple[NDArray[np.bool_], ...] = ()

    @property
    def plan_stage(self) -> PlanStage | None:
        """Which stage of which plan it belongs to; None where nothing was planned."""
        served = self.compute_set or self.serves
        return None if served is None else served.plan_stage

    @property
    def is_data_dependent(self) -> bool:
        """Whether its cycles depend on the data."""
        return self.compute_set is not None and any(
            batch.codelet.is_data_dependent for batch in self.compute_set.batches
        )


@dataclass
class Node:
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
    children: list[Node] = field(default_factory=list)
    root_kind: str = "control"
    #: What decides for If, Switch and RepeatWhile.
    control: View | None = None
    #: Numbers of a Switch's children; the last child is the default.
    cases: tuple[int, ...] = ()
    #: Whether a RepeatWhile goes on while its control is not zero.
    while_true: bool = True
    #: Root of the function that a Call runs.
    function: Node | None = None
    #: For PrintTensor and ErrorProgram.
    message: str = ""

    @functools.cached_property
    def is_static(self) -> bool:
        """Whether it takes the same cycles whatever the data: no decision, no counted codelet."""
        if self.kind in ("If", "Switch", "RepeatWhile", "ErrorProgram", "PrintTensor"):
            return False
        if self.step is not None:
            return not self.step.is_data_dependent
        if self.function is not None and not self.function.is_static:
            return False
        return all(child.is_static for child in self.children)


@dataclass(frozen=True)
class LiveParts:
    """Parts of variables on tiles, sorted by tile and first step.

    Parameters
    ----------
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First part of each tile.
    variable_id : ndarray of int64
        Variable; message buffers are numbered after the graph's variables.
    n_bytes, offset : ndarray of int64
        Size and address.
    start_step, end_step : ndarray of int64
        Half-open range of steps; always-live parts span all.
    """

    tile_start: NDArray[np.int64]
    variable_id: NDArray[np.int64]
    n_bytes: NDArray[np.int64]
    offset: NDArray[np.int64]
    start_step: NDArray[np.int64]
    end_step: NDArray[np.int64]


@dataclass(frozen=True)
class Memory:
    """Memory of every tile.

    Parameters
    ----------
    categories
        By name: ndarray of int64, shape (3, n_tiles), bytes in the non-interleaved and the
        interleaved region and past the end.
    including_gaps, excluding_gaps, always_live, not_always_live_peak : ndarray of int64, (n_tiles,)
        Totals of every tile, bytes.
    live : ndarray of int64, shape (n_steps, n_tiles)
        Not-always-live bytes at every step.
    code_end : ndarray of int64, shape (n_tiles,)
        One past the last address of code, which must lie in the non-interleaved region.
    unconstrained : ndarray of int64, shape (n_tiles,)
        What `including_gaps` would be if nothing had to be interleaved or kept apart; computed
        when a tile overflows, else the same.
    slow_tiles : dict of (step, batch) to ndarray of bool, shape (n_tiles,)
        Where what a batch with a slow path asks of memory is not met.
    """

    categories: dict[str, NDArray[np.int64]]
    including_gaps: NDArray[np.int64]
    excluding_gaps: NDArray[np.int64]
    always_live: NDArray[np.int64]
    not_always_live_peak: NDArray[np.int64]
    live: NDArray[np.int64]
    parts: LiveParts
    lifetimes: dict[int, tuple[int, int]]
    message_names: dict[int, str]
    code_end: NDArray[np.int64]
    unconstrained: NDArray[np.int64]
    slow_tiles: dict[tuple[int, int], NDArray[np.bool_]]


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


@dataclass(frozen=True)
class CompileRecord:
    """How an executable came to be; nothing in it is about the program.

    Parameters
    ----------
    cache
        ``off``, ``miss`` or ``hit``: whether the executable cache had it.
    wall_start_us, wall_duration_us
        When, since the Unix epoch, and how long it took, microseconds.
    """

    cache: str = "off"
    wall_start_us: int = 0
    wall_duration_us: int = 0


@dataclass(frozen=True)
class Executable:
    """A compiled program with everything a report says about it."""

    graph: Graph
    machine: Machine
    steps: tuple[Step, ...]
    nodes: tuple[Node, ...]
    roots: tuple[Node, ...]
    functions: tuple[Node, ...]
    memory: Memory
    vertex_uses: tuple[VertexUse, ...]
    plans: tuple[Plan, ...] = ()
    record: CompileRecord = CompileRecord()

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
