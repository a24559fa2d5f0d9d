"""From the author's program tree to steps: exchanges inferred, syncs and stream phases put in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.compiler.cycles import compute_cost
from engine.compiler.exchange import Addresses, Exchange, exchange_of
from engine.compiler.executable import Node, Step, StepCost, StreamAccess, VertexUse
from engine.errors import BadGraph
from engine.graph import ComputeSet, DebugContext, Graph
from engine.machine import Machine
from engine.program import (
    Copy,
    Execute,
    Program,
    Repeat,
    StreamCopyIn,
    StreamCopyOut,
    WriteUndef,
)
from engine.program import Sequence as ProgramSequence

__all__ = ["Lowering"]


class Lowering:
    """Walks program trees and collects nodes, steps and vertex uses.

    Parameters
    ----------
    graph
        Every variable that programs use must be mapped.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.machine: Machine = graph.machine
        self.addresses = Addresses(graph)
        self.nodes: list[Node] = []
        self.steps: list[Step] = []
        self.vertex_uses: dict[int, list[VertexUse]] = {}
        self._phases: dict[int, tuple[Exchange, StepCost, Exchange]] = {}

    def lower(self, programs: Sequence[Program]) -> list[Node]:
        """Lower each program as a control program; return the roots."""
        roots = []
        for index, program in enumerate(programs):
            root = self._node(None, index, "Sequence", f"program {index}", program.debug)
            self._lower(program, root)
            roots.append(root)
        return roots

    def _node(
        self,
        parent: Node | None,
        root_index: int,
        kind: str,
        name: str,
        debug: DebugContext,
        repeat_count: int = 1,
    ) -> Node:
        node = Node(
            program_id=len(self.nodes),
            parent_id=None if parent is None else parent.program_id,
            position=len(parent.children) if parent else root_index,
            root_index=root_index,
            kind=kind,
            name=name,
            debug=debug,
            repeat_count=repeat_count,
        )
        self.nodes.append(node)
        if parent is not None:
            parent.children.append(node)
        return node

    def _lower(self, program: Program, parent: Node) -> None:
        root = parent.root_index
        match program:
            case ProgramSequence():
                node = self._node(parent, root, "Sequence", program.name, program.debug)
                for child in program.children:
                    self._lower(child, node)
            case Repeat():
                node = self._node(
                    parent, root, "Repeat", program.name, program.debug, program.count
                )
                self._lower(program.body, node)
            case Execute():
                self._execute(program.compute_set, parent)
            case Copy():
                self._copy(program, parent)
            case StreamCopyIn():
                self._stream(StreamAccess(program.stream, program.target, True), program, parent)
            case StreamCopyOut():
                self._stream(StreamAccess(program.stream, program.source, False), program, parent)
            case WriteUndef():
                step = self._step(parent, "WriteUndef", program.target.variable.name, program.debug)
                step.writes = (program.target.variable.variable_id,)
            case _:
                raise BadGraph(f"A program of kind {type(program).__name__} cannot be compiled")

    def _step(
        self,
        parent: Node,
        kind: str,
        name: str,
        debug: DebugContext,
        cost: StepCost | None = None,
    ) -> Step:
        node = self._node(parent, parent.root_index, kind, name, debug)
        step = Step(
            step_id=len(self.steps),
            kind=kind,
            name=name,
            debug=debug,
            cost=cost or StepCost.nothing(self.machine),
            program_id=node.program_id,
        )
        node.step = step
        self.steps.append(step)
        return step

    def _phases_of(self, compute_set: ComputeSet) -> tuple[Exchange, StepCost, Exchange]:
        """Return the exchange before a compute set, its cost, and the exchange after it."""
        key = compute_set.compute_set_id
        if key not in self._phases:
            cost, uses = compute_cost(compute_set, self.machine)
            self.vertex_uses[key] = uses
            self._phases[key] = (
                exchange_of([compute_set], self.addresses, is_input=True),
                cost,
                exchange_of([compute_set], self.addresses, is_input=False),
            )
        return self._phases[key]

    def _execute(self, compute_set: ComputeSet, parent: Node) -> None:
        reads, writes = _accesses(compute_set)
        self._check_mapped([*reads, *writes])
        before, cost, after = self._phases_of(compute_set)
        if not before.is_empty:
            step = self._exchange(before, compute_set, parent)
            step.reads = tuple(int(v) for v in np.unique(self.addresses.variable_of(before.start)))
            step.message_bytes = before.received(self.machine.n_tiles)
        step = self._step(parent, "OnTileExecute", compute_set.name, compute_set.debug, cost)
        step.compute_set = compute_set
        step.reads, step.writes = reads, writes
        if not after.is_empty:
            # What goes to other tiles waits on the tile that made it.
            step.message_bytes = after.sent(self.machine.n_tiles)
            step = self._exchange(after, compute_set, parent)
            step.writes = tuple(int(v) for v in np.unique(self.addresses.variable_of(after.start)))

    def _exchange(self, exchange: Exchange, compute_set: ComputeSet, parent: Node) -> Step:
        """Add a sync and the exchange it opens."""
        machine = self.machine
        cost = exchange.cost(machine)
        is_external = cost.sync_zone == "external"
        self._sync(parent, compute_set.name, compute_set.debug, is_external)
        kind = "GlobalExchange" if is_external else "DoExchange"
        step = self._step(parent, kind, compute_set.name, compute_set.debug, cost)
        step.code_bytes = _exchange_code(exchange, machine)
        return step

    def _sync(self, parent: Node, name: str, debug: DebugContext, is_external: bool) -> None:
        machine = self.machine
        cost = StepCost.nothing(machine)
        cycles = machine.external_sync_cycles if is_external else machine.sync_cycles
        cost.cycles[:] = cycles
        cost.sync_zone = "external" if is_external else "internal"
        self._step(parent, "Sync", name, debug, cost)

    def _copy(self, program: Copy, parent: Node) -> None:
        """Lower a copy to vertices on the target's tiles, with the exchange they need."""
        # The library knows how to cut a copy; it is imported here because it builds on programs.
        from engine.library.copy_program import copy_compute_sets

        node = self._node(parent, parent.root_index, "Sequence", program.name, program.debug)
        n_before = len(self.graph.variables)
        for compute_set in copy_compute_sets(self.graph, program):
            if len(self.graph.variables) != n_before:
                self.addresses = Addresses(self.graph)
                n_before = len(self.graph.variables)
            self._execute(compute_set, node)

    def _stream(self, access: StreamAccess, program: Program, parent: Node) -> None:
        """Lower a stream copy to its three phases: begin, data, end."""
        machine = self.machine
        variable = access.tensor.variable
        self._check_mapped([variable.variable_id])
        name = program.debug.join(access.stream) if program.debug.name else access.stream
        begin = StepCost.nothing(machine)
        begin.cycles[:] = machine.external_sync_cycles
        begin.sync_zone = "external"
        self._step(parent, "StreamCopyBegin", name, program.debug, begin)
        step = self._step(parent, "StreamCopyMid", name, program.debug, self._host_copy(access))
        step.access = access
        if access.is_input:
            step.writes = (variable.variable_id,)
        else:
            step.reads = (variable.variable_id,)
        end = StepCost.nothing(machine)
        end.cycles[:] = machine.external_sync_cycles
        end.sync_zone = "external"
        self._step(parent, "StreamCopyEnd", name, program.debug, end)

    def _host_copy(self, access: StreamAccess) -> StepCost:
        machine = self.machine
        variable = access.tensor.variable
        lengths = variable.map_end - variable.map_start
        by_tile = np.bincount(variable.map_tile, lengths, machine.n_tiles).astype(np.int64)
        by_tile *= variable.dtype.n_bytes
        by_ipu = by_tile.reshape(machine.n_ipus, -1).sum(axis=1)
        cost = StepCost.nothing(machine)
        transfer = np.ceil(by_ipu / machine.host_bytes_per_cycle).astype(np.int64)
        cost.tile_cycles = np.ceil(by_tile / machine.exchange_bytes_per_cycle).astype(np.int64)
        slowest = max(int(transfer.max()), int(cost.tile_cycles.max()))
        cost.cycles[:] = slowest + machine.host_copy_cycles
        cost.sync_zone = "external"
        if access.is_input:
            cost.host_in_bytes, cost.received_bytes = by_ipu, by_tile
        else:
            cost.host_out_bytes, cost.sent_bytes = by_ipu, by_tile
        return cost

    def _check_mapped(self, variable_ids: Sequence[int]) -> None:
        for variable_id in variable_ids:
            variable = self.graph.variables[variable_id]
            if not variable.is_mapped:
                raise BadGraph(
                    f"Variable {variable.name!r} is used but has no tile mapping: give it one with"
                    " set_tile_mapping or map_linearly"
                )


def _accesses(compute_set: ComputeSet) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the variables a compute set reads, and those it writes."""
    reads: set[int] = set()
    writes: set[int] = set()
    for batch in compute_set.batches:
        for field in batch.codelet.fields:
            variable = batch.fields[field.name].variable.variable_id
            if field.is_read:
                reads.add(variable)
            if field.is_written:
                writes.add(variable)
    return tuple(sorted(reads)), tuple(sorted(writes))


def _exchange_code(exchange: Exchange, machine: Machine) -> NDArray[np.int64]:
    """Return exchange code per tile: a fixed part on tiles that take part, and per message."""
    n_tiles = machine.n_tiles
    messages = exchange.fragments(n_tiles) + np.bincount(
        _distinct_sends(exchange), minlength=n_tiles
    )
    return np.where(
        messages > 0,
        machine.exchange_code_bytes_per_phase + messages * machine.exchange_code_bytes_per_message,
        0,
    )


def _distinct_sends(exchange: Exchange) -> NDArray[np.int64]:
    """Return the sender of each distinct piece: a multicast is one send."""
    span = int(exchange.start.max(initial=0)) + 1
    senders: NDArray[np.int64] = np.unique(exchange.sender * span + exchange.start) // span
    return senders
