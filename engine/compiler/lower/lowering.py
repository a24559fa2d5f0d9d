"""From the author's program tree to steps: infers exchanges, inserts syncs and stream phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.cycles.host_copy import host_copy_cost
from tilescope.engine.compiler.exchange.code import exchange_code_bytes
from tilescope.engine.compiler.exchange.cross_replica import (
    cross_replica_cost,
    cross_replica_exchange,
)
from tilescope.engine.compiler.exchange.exchange import Exchange
from tilescope.engine.compiler.exchange.exchanges import Around
from tilescope.engine.compiler.exchange.transfer import Transfer
from tilescope.engine.compiler.executable.executable import (
    Node,
    RemoteAccess,
    ReplicaAccess,
    Step,
    StreamAccess,
    VertexUse,
)
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.compiler.lower.accesses import accesses, overwritten, written
from tilescope.engine.compiler.overlap import check_overlap
from tilescope.engine.compiler.phase_costs import PhaseCosts
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import ComputeSet, DebugContext, GraphImage, Tensor
from tilescope.engine.machine import Machine
from tilescope.engine.program import (
    Block,
    Call,
    CrossReplicaCopy,
    ErrorProgram,
    Execute,
    Function,
    If,
    Overlap,
    PrintTensor,
    Program,
    RemoteCopyIn,
    RemoteCopyOut,
    Repeat,
    RepeatWhile,
    ReplicaSources,
    Site,
    StreamCopyIn,
    StreamCopyOut,
    Switch,
    Sync,
    WriteUndef,
)
from tilescope.engine.program import Sequence as ProgramSequence
from tilescope.tracepoints import traced

__all__ = ["Lowering"]


class Lowering:
    """Walks program trees, and collects nodes, steps and vertex uses.

    Parameters
    ----------
    graph
        Every variable that programs use must be mapped.
    costs
        Costs compute sets for the graph's machine.
    is_independent
        Whether replicas copy from and to the host without waiting for each other.
    """

    def __init__(
        self, graph: GraphImage, costs: PhaseCosts, *, is_independent: bool = False
    ) -> None:
        self.graph = graph
        self.machine: Machine = graph.machine
        self._costs = costs
        self._syncs_with_host = self.machine.n_replicas > 1 and not is_independent
        self.nodes: list[Node] = []
        self.steps: list[Step] = []
        self.vertex_uses: dict[int, list[VertexUse]] = {}
        self.functions: list[Node] = []
        self._functions: dict[tuple[Function, str], Node] = {}
        self._lowering_now: list[Function] = []
        #: Side of the Overlap being lowered; empty outside one.
        self._side = ""
        #: Exchanges around compute sets, by id; entries present here are not recomputed.
        self.around: dict[int, Around] = {}
        self._compute: dict[int, StepCost] = {}
        #: Compute sets lowered so far, and whether the one being lowered was among them.
        self._executed: set[int] = set()
        self._is_repeated = False
        self._sync_costs: dict[tuple[str, int, tuple[int, ...] | None], StepCost] = {}

    @traced(POPLAR, "compile.lower")
    def lower(self, programs: Sequence[Program]) -> list[Node]:
        """Lower every program as a control program; return the roots."""
        roots = []
        for index, program in enumerate(programs):
            key = ("control", index)
            root = self._node(None, "Sequence", f"program {index}", program.debug, root=key)
            self._lower(program, root)
            roots.append(root)
        return roots

    def _node(
        self,
        parent: Node | None,
        kind: str,
        name: str,
        debug: DebugContext,
        *,
        repeat_count: int = 1,
        root: tuple[str, int] = ("control", 0),
    ) -> Node:
        root_kind, root_index = root if parent is None else (parent.root_kind, parent.root_index)
        node = Node(
            program_id=len(self.nodes),
            parent_id=None if parent is None else parent.program_id,
            position=root_index if parent is None else len(parent.children),
            root_index=root_index,
            kind=kind,
            name=name,
            debug=debug,
            repeat_count=repeat_count,
            root_kind=root_kind,
        )
        self.nodes.append(node)
        if parent is not None:
            assert isinstance(parent.children, list)
            parent.children.append(node)
        return node

    def _lower(self, program: Program, parent: Node) -> None:
        match program:
            case ProgramSequence():
                node = self._node(parent, "Sequence", program.name, program.debug)
                for child in program.children:
                    self._lower(child, node)
            case Block():
                node = self._node(parent, "Block", program.name, program.debug)
                self._lower(program.body, node)
            case Repeat():
                node = self._node(
                    parent, "Repeat", program.name, program.debug, repeat_count=program.count
                )
                self._lower(program.body, node)
            case Execute():
                compute_set = program.compute_set
                site = program.site or Site(
                    compute_set.name, compute_set.debug, compute_set.plan_stage
                )
                self._execute(compute_set, site, parent)
            case StreamCopyIn():
                self._stream(StreamAccess(program.stream, program.target, True), program, parent)
            case StreamCopyOut():
                self._stream(StreamAccess(program.stream, program.source, False), program, parent)
            case RemoteCopyIn():
                access = RemoteAccess(program.buffer, program.target, program.row, True)
                self._stream(access, program, parent)
            case RemoteCopyOut():
                access = RemoteAccess(program.buffer, program.source, program.row, False)
                self._stream(access, program, parent)
            case CrossReplicaCopy():
                self._between_replicas(program, parent)
            case WriteUndef():
                step = self._step(parent, "WriteUndef", program.target.name, program.debug)
                step.writes, step.overwrites = written(program.target)
            case Sync():
                self._sync(parent, program.name, program.debug, program.external)
            case _:
                self._decide(program, parent)

    def _decide(self, program: Program, parent: Node) -> None:
        """Lower data-dependent control flow and calls."""
        match program:
            case If():
                self._broadcast(program.predicate, program.name, program.debug, parent)
                node = self._node(parent, "If", program.name, program.debug)
                node.control = program.predicate
                self._branches(node, {"then": program.then, "else": program.otherwise})
            case Switch():
                self._broadcast(program.control, program.name, program.debug, parent)
                node = self._node(parent, "Switch", program.name, program.debug)
                node.control, node.cases = program.control, tuple(program.cases)
                named = {f"case {number}": case for number, case in program.cases.items()}
                self._branches(node, {**named, "default": program.default})
            case RepeatWhile():
                node = self._node(parent, "RepeatWhile", program.name, program.debug)
                node.control, node.while_true = program.predicate, program.while_true
                self._branches(node, {"condition": program.condition, "body": program.body})
                condition = node.children[0]
                self._broadcast(program.predicate, program.name, program.debug, condition)
            case Overlap():
                self._overlap(program, parent)
            case Call():
                node = self._node(parent, "Call", program.function.name, program.debug)
                node.function = self._function(program.function)
            case PrintTensor():
                node = self._node(parent, "PrintTensor", program.title, program.debug)
                node.control, node.message = program.tensor, program.title
                node.print_format = program.form
            case ErrorProgram():
                node = self._node(parent, "ErrorProgram", program.message, program.debug)
                node.control, node.message = program.tensor, program.message
            case _:
                raise BadGraph(f"Expected a program, got {type(program).__name__}")

    def _branches(self, parent: Node, branches: Mapping[str, Program]) -> None:
        for name, program in branches.items():
            branch = self._node(parent, "Sequence", name, program.debug)
            self._lower(program, branch)

    def _function(self, function: Function) -> Node:
        """Return the root of a function, which is lowered on its first call.

        Raises
        ------
        BadGraph
            When it calls itself.
        """
        key = (function, self._side)
        if function in self._lowering_now:
            raise BadGraph(f"Function {function.name!r} calls itself: recursion is not supported")
        if key not in self._functions:
            self._lowering_now.append(function)
            position = ("function", len(self.functions))
            root = self._node(None, "Sequence", function.name, function.body.debug, root=position)
            root.role = function.role
            self.functions.append(root)
            self._functions[key] = root
            self._lower(function.body, root)
            self._lowering_now.remove(function)
        return self._functions[key]

    def _overlap(self, program: Overlap, parent: Node) -> None:
        """Lower both sides, each with the sync that joins it to the other.

        Raises
        ------
        BadGraph
            When there are no I/O tiles, or the sides conflict.
        """
        where = f"Overlap {program.name!r}"
        if self._side:
            raise BadGraph(f"{where} is nested in another Overlap: an IPU has only two tracks")
        if not self.graph.n_io_tiles:
            raise BadGraph(
                f"{where} needs I/O tiles: create the graph with Graph(machine, n_io_tiles=32)"
            )
        node = self._node(parent, "Overlap", program.name, program.debug)
        for side, body in (("io", program.io), ("compute", program.compute)):
            branch = self._node(node, "Sequence", side, program.debug)
            self._side = side
            self._lower(body, branch)
            # Both sides meet in the sync of the exchange that follows; this one only waits. Source:
            # graphcore/tutorials, lightweight profiling, example 3: 151 cycles from the end of a
            # copy to the start of the next, with the sync of both sides and the transfer of a word.
            join = f"{program.name or 'overlap'}/join"
            self._step(branch, "Sync", join, program.debug, self._sync_cost("internal", 0))
            self._side = ""
        check_overlap(node, self.graph)

    def _broadcast(self, tensor: Tensor, name: str, debug: DebugContext, parent: Node) -> None:
        """Add the exchange that broadcasts a decision from its tile to all others."""
        machine, variable = self.machine, tensor.variable
        self._check_mapped([variable.variable_id])
        self._sync(parent, f"{name}/decision", debug, machine.n_ipus > 1)
        owner = int(variable.tile_of(np.array([tensor.offset]))[0])
        sides = {"io": self.graph.io_tiles, "compute": self.graph.compute_tiles}
        every = sides.get(self._side, np.arange(machine.n_tiles))
        receivers = np.setdiff1d(every, [owner])
        ones_ = np.ones_like(receivers)
        addresses = Addresses([variable])
        exchange = Exchange(
            sender=owner * ones_,
            receiver=receivers,
            start=tensor.offset * ones_,
            length=ones_,
            n_bytes=max(variable.dtype.n_bytes, 4) * ones_,
            addresses=addresses,
        )
        schedule = exchange.schedule(machine)
        cost = StepCost.nothing(machine) if exchange.is_empty else exchange.cost(machine, schedule)
        kind = "GlobalExchange" if cost.sync_zone == "external" else "DoExchange"
        step = self._step(parent, kind, f"{name}/decision", debug, cost)
        step.reads = (variable.variable_id,)
        if not exchange.is_empty:
            step.code_bytes = Column.of(exchange_code_bytes(exchange, schedule, machine))

    def _step(
        self,
        parent: Node,
        kind: str,
        name: str,
        debug: DebugContext,
        cost: StepCost | None = None,
    ) -> Step:
        node = self._node(parent, kind, name, debug)
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

    def compute_cost(self, compute_set: ComputeSet) -> StepCost:
        """Return the cost of a compute set's compute phase, by the cycle laws of its codelets.

        Raises
        ------
        BadGraph
            When a law does not return valid cycle counts.
        """
        key = compute_set.compute_set_id
        if key not in self._compute:
            self._compute[key], self.vertex_uses[key] = self._costs.compute(compute_set)
        return self._compute[key]

    def _execute(self, compute_set: ComputeSet, site: Site, parent: Node) -> None:
        reads, writes = accesses(compute_set)
        self._check_mapped([*reads, *writes])
        cost, key = self.compute_cost(compute_set), compute_set.compute_set_id
        if key not in self.around:
            self.around[key] = self._costs.around(compute_set)
        arrival = None
        before, after = self.around[key].before, self.around[key].after
        self._is_repeated = key in self._executed
        self._executed.add(key)
        if before is not None:
            step = self._exchange(before, compute_set, site, parent)
            step.reads = before.variables
            step.messages = before.messages
            arrival = step.step_id
        step = self._step(parent, "OnTileExecute", site.name, site.debug, cost)
        step.plan_stage = site.plan_stage
        step.arrival = arrival
        step.compute_set = compute_set
        step.reads, step.writes = reads, writes
        step.overwrites = overwritten(compute_set, writes)
        if after is not None:
            # What goes to other tiles is buffered on the tile that produced it.
            step.messages = after.messages
            step = self._exchange(after, compute_set, site, parent)
            step.writes = after.variables

    def _exchange(
        self, transfer: Transfer, compute_set: ComputeSet, site: Site, parent: Node
    ) -> Step:
        """Add an exchange and the sync before it."""
        cost = transfer.cost
        is_external = cost.sync_zone == "external"
        # Within an IPU only the tiles of the IPUs that exchange data have to sync.
        taking_part = None if is_external else tuple(cost.cycles.ids.tolist())
        sync = self._sync(parent, site.name, site.debug, is_external, taking_part)
        kind = "GlobalExchange" if is_external else "DoExchange"
        step = self._step(parent, kind, site.name, site.debug, cost)
        # A compute set that runs at several places has one exchange: its data is where it was.
        step.code_bytes = None if self._is_repeated else transfer.code_bytes
        sync.serves = step.serves = compute_set
        sync.plan_stage = step.plan_stage = site.plan_stage
        return step

    def _sync(
        self,
        parent: Node,
        name: str,
        debug: DebugContext,
        is_external: bool,
        taking_part: tuple[int, ...] | None = None,
    ) -> Step:
        """Add a sync of all IPUs, or of those that take part."""
        machine = self.machine
        cycles = machine.external_sync_cycles if is_external else machine.sync_cycles
        zone = "external" if is_external else "internal"
        sync_cost = self._sync_cost(zone, cycles, taking_part)
        return self._step(parent, "Sync", name, debug, sync_cost)

    def _sync_cost(
        self, zone: str, cycles: int, taking_part: tuple[int, ...] | None = None
    ) -> StepCost:
        """Return the cost of a wait on all IPUs, or on some; equal costs share one object."""
        key = zone, cycles, taking_part
        if key not in self._sync_costs:
            by_ipu = np.zeros(self.machine.n_ipus, np.int64)
            by_ipu[slice(None) if taking_part is None else list(taking_part)] = cycles
            self._sync_costs[key] = StepCost.of(self.machine, zone, cycles=by_ipu)
        return self._sync_costs[key]

    def _stream(self, access: StreamAccess | RemoteAccess, program: Program, parent: Node) -> None:
        """Lower a copy from or to the host or streaming memory to begin, data and end phases."""
        machine = self.machine
        touched, covered = written(access.tensor)
        self._check_mapped(touched)
        rows: tuple[int, ...] = ()
        if isinstance(access, StreamAccess):
            name = program.debug.join(access.stream)
        else:
            name = program.debug.join(access.buffer.name)
            self._check_remote(access)
            if not isinstance(access.row, int):
                rows = tuple(variable.variable_id for variable in access.row.variables)
                self._check_mapped(rows)
        # Streaming memory responds on its own; the host may delay its copies.
        wait_cycles = machine.host_wait_cycles if isinstance(access, StreamAccess) else 0
        meeting = self._sync_cost("external", machine.external_sync_cycles + wait_cycles)
        begin = self._step(parent, "StreamCopyBegin", name, program.debug, meeting)
        begin.meets_replicas = self._syncs_with_host and isinstance(access, StreamAccess)
        step = self._step(
            parent, "StreamCopyMid", name, program.debug, host_copy_cost(access, machine)
        )
        step.access = access
        step.reads = rows
        if access.is_input:
            step.writes, step.overwrites = touched, covered
        else:
            step.reads = tuple(sorted({*touched, *rows}))
        self._step(parent, "StreamCopyEnd", name, program.debug, meeting)

    def _between_replicas(self, program: CrossReplicaCopy, parent: Node) -> None:
        """Lower a copy between replicas to a sync of all of them, and an exchange.

        Raises
        ------
        BadGraph
            When the replicas are not those of the machine, or it is in an Overlap.
        """
        name, machine = program.debug.join(program.name), self.machine
        assert isinstance(program.sources, ReplicaSources), "the program checks it"
        sources = program.sources.of
        for part in sources:
            if len(part) != machine.n_replicas or max(part) >= machine.n_replicas:
                raise BadGraph(
                    f"CrossReplicaCopy {name!r} names {len(part)} replicas and receives from"
                    f" replica {max(part, default=0)}: the machine has {machine.n_replicas}; load"
                    " it with n_replicas"
                )
        if self._side:
            raise BadGraph(
                f"CrossReplicaCopy {name!r} is in an Overlap, where replicas cannot wait for each"
                " other: put it before or after"
            )
        access = ReplicaAccess(program.source, program.target, sources)
        reads, _ = written(access.source)
        writes, covered = written(access.target)
        self._check_mapped([*reads, *writes])
        exchange = cross_replica_exchange(access)
        meeting = self._sync_cost("external", machine.replica_sync_cycles)
        self._step(parent, "Sync", name, program.debug, meeting).meets_replicas = True
        schedule = exchange.schedule(machine)
        cost = cross_replica_cost(exchange, schedule, access, machine)
        step = self._step(parent, "GlobalExchange", name, program.debug, cost)
        step.access, step.reads, step.writes, step.overwrites = access, reads, writes, covered
        step.code_bytes = Column.of(exchange_code_bytes(exchange, schedule, machine))

    def _check_remote(self, access: RemoteAccess) -> None:
        buffers, i = self.graph.remote_buffers, access.buffer.buffer_id
        if i >= len(buffers) or buffers[i] is not access.buffer:
            raise BadGraph(f"Remote buffer {access.buffer.name!r} belongs to another graph")

    def _check_mapped(self, variable_ids: Sequence[int]) -> None:
        for variable_id in variable_ids:
            self.graph.variables[variable_id].check_mapped()
