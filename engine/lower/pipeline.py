"""Lowers the rounds of a pipelined model: cycles, in which stages work on different rounds.

In a cycle, all inputs of its stages are loaded, its stages work, their outputs are stored, and one
copy step of all IPUs passes values on to the next stages. Stage s does round c - s in cycle c: more
stages begin from cycle to cycle (fill), all work (main), and fewer are left (drain).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from itertools import groupby

from tilescope.engine.graph import Tensor, Variable
from tilescope.engine.ir import Model, Operation, Update, Value, read_from_outside
from tilescope.engine.library.popops.elementwise.fill import fill_together
from tilescope.engine.library.popops.elementwise.operations import copy_together
from tilescope.engine.lower.lowering import Lowering
from tilescope.engine.program import (
    Block,
    Call,
    Function,
    PipelineRole,
    Program,
    Repeat,
    Sequence,
    StreamCopyOut,
    WriteUndef,
)

__all__ = ["Cycles", "crosses_ipus", "cycles_of", "lower_pipeline"]


def crosses_ipus(operation: Operation) -> bool:
    """Return whether an operation reads on one IPU what it writes on another one."""
    return operation.operator.is_primitive and operation.operator.name == "ipu_copy"


@dataclass(frozen=True)
class Cycles:
    """Cycles that follow each other, in which the same stages work.

    Parameters
    ----------
    phase
        ``fill``, ``main`` or ``drain``.
    n_cycles
        Their number.
    stages
        The stages, ascending.
    """

    phase: str
    n_cycles: int
    stages: tuple[int, ...]


def cycles_of(n_stages: int, n_rounds: int) -> list[Cycles]:
    """Return the cycles of a pipeline, ``n_rounds + n_stages - 1`` of them."""

    def of(cycle: int) -> tuple[str, tuple[int, ...]]:
        stages = tuple(s for s in range(n_stages) if 0 <= cycle - s < n_rounds)
        if cycle < n_stages - 1:
            return "fill", stages
        return "main" if cycle < n_rounds else "drain", stages

    each = groupby(map(of, range(n_rounds + n_stages - 1)))
    return [Cycles(phase, len(list(cycles)), stages) for (phase, stages), cycles in each]


@dataclass
class _Stage:
    """A stage of a model.

    Parameters
    ----------
    number
        Its number.
    operations
        What it runs, and what crosses from it to the next stage.
    arrivals
        What crosses from the stage before.
    inputs, outputs, updates
        What it loads, stores and replaces.
    """

    number: int
    operations: list[Operation] = field(default_factory=list)
    crossing: list[Operation] = field(default_factory=list)
    arrivals: set[Value] = field(default_factory=set)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[tuple[str, Value]] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)


@dataclass
class _Steps:
    """The programs of a stage.

    Parameters
    ----------
    load, work, store
        Called in every cycle of the stage; None where there is nothing to do.
    sent
        What the copy step reads of it.
    """

    load: Function | None
    work: Function | None
    store: Function | None
    sent: list[Tensor]


def lower_pipeline(lowering: Lowering, model: Model, ipus: Mapping[Value, int]) -> None:
    """Lower the rounds of a model, with its inputs and outputs.

    Parameters
    ----------
    lowering
        Where they go; held values are there.
    model
        Its operations state stages, ascending.
    ipus
        IPU of inputs and held values.
    """
    stages = _stages_of(model)
    pairs: list[tuple[Tensor, Tensor]] = []
    steps = [_Lowered(lowering, model, ipus, stage).steps(pairs) for stage in stages]
    copies: Function | None = None
    if pairs:
        passed = Sequence("copies")
        builder = replace(lowering.builder, sequence=passed)
        copy_together(builder.inside("ipuCopies", "IpuCopy", flops=0), pairs, "ipuCopy")
        copies = Function(passed, "copies", PipelineRole("copies"))
    root = lowering.builder.sequence
    slots = [op.output for op in model.operations if op.operator.name == "stash_slot"]
    if slots:
        tensors = [lowering.tensors[value] for value in slots]
        begin = lowering.builder.inside("begin", "popops.fill", flops=0)
        fill_together(begin, [(tensor, 0.0) for tensor in tensors], "slots")
    phases = groupby(cycles_of(len(stages), model.n_rounds), key=lambda cycles: cycles.phase)
    for phase, all_cycles in phases:
        body = Sequence()
        for cycles in all_cycles:
            cycle = Sequence("cycle", [*_cycle(steps, cycles, copies)])
            body.add(Repeat(cycles.n_cycles, cycle, "cycles") if cycles.n_cycles > 1 else cycle)
        root.add(Block(phase, body))


def _cycle(steps: Items[_Steps], cycles: Cycles, copies: Function | None) -> Iterator[Program]:
    """Yield the programs of a cycle."""
    active = [steps[stage] for stage in cycles.stages]
    for kind in ("load", "work", "store"):
        functions = (getattr(of_stage, kind) for of_stage in active)
        yield from (Call(function) for function in functions if function is not None)
    if copies is not None:
        for number, of_stage in enumerate(steps):
            if number not in cycles.stages:  # what it sends is of no round
                yield from (WriteUndef(tensor) for tensor in of_stage.sent)
        yield Call(copies)


def _stages_of(model: Model) -> list[_Stage]:
    """Return the stages of a model."""
    n_stages = 1 + max((op.placement.stage or 0 for op in model.operations), default=0)
    stages = [_Stage(number) for number in range(n_stages)]
    home: dict[Value, int] = {}
    for operation in model.operations:
        number = operation.placement.stage or 0
        stage = stages[number]
        (stage.crossing if crosses_ipus(operation) else stage.operations).append(operation)
        if crosses_ipus(operation):
            stages[number + 1].arrivals.update(operation.results)
        home |= dict.fromkeys(operation.results, number)
        for value in read_from_outside(operation):
            home.setdefault(value, number)
    for value in model.inputs:
        if value.known is None:
            stages[home.get(value, 0)].inputs.append(value)
    for name, value in model.outputs:
        if value.known is None:
            stages[home.get(value, 0)].outputs.append((name, value))
    for update in model.updates:
        number = home.get(update.value, home.get(update.held, 0))
        stages[number].updates.append(update)
    return stages


class _Lowered:
    """Lowers a stage.

    Parameters
    ----------
    lowering
        Of the model.
    """

    def __init__(
        self, lowering: Lowering, model: Model, ipus: Mapping[Value, int], stage: _Stage
    ) -> None:
        self._lowering, self._model, self._ipus, self._stage = lowering, model, ipus, stage

    def _in(self, sequence: Sequence) -> Lowering:
        builder = replace(self._lowering.builder, sequence=sequence)
        return replace(self._lowering, builder=builder)

    def steps(self, pairs: list[tuple[Tensor, Tensor]]) -> _Steps:
        """Return the programs; `pairs` takes what the copy step copies, and where to."""
        stage, model = self._stage, self._model
        is_trained = any(op.training_pass is not None for op in model.operations)
        load, work, store = (Sequence(kind) for kind in ("load", "work", "store"))
        loading, working = self._in(load), self._in(work)
        for value in stage.inputs:
            content = None if model.data is None else model.data[value.name]
            loading.on_ipu(self._ipus.get(value)).add_input(value, content)
        leaving = [value for _, value in stage.outputs]
        leaving += [operation.operand(0) for operation in stage.crossing]
        working.add(stage.operations, leaving, stage.updates, stage.arrivals)
        # What an update or the copy step writes is copied before.
        written = {v for up in stage.updates for v in working.tensors[up.held].variables}
        written |= {variable for _, target in pairs for variable in target.variables}
        apart: dict[Value, Tensor] = {}
        for name, value in stage.outputs:
            if model.data is None:
                tensor = self._apart(working, value, written, apart)
                store.add(StreamCopyOut(tensor, name))
        sent = []
        for operation in stage.crossing:
            source = self._apart(working, operation.operand(0), written, apart)
            pairs.append((source, self._target(working, operation, source)))
            sent.append(source)
        working.update(stage.updates, is_training=is_trained)
        return _Steps(
            self._function(load, "load"),
            self._function(work, ""),
            self._function(store, "store"),
            sent,
        )

    def _apart(
        self, working: Lowering, value: Value, written: set[Variable], apart: dict[Value, Tensor]
    ) -> Tensor:
        """Return a value on variables that nothing writes before it has left its stage."""
        tensor = working.tensor(value)
        if written.isdisjoint(tensor.variables):
            return tensor
        if value not in apart:
            apart[value] = working.copied(value)
        return apart[value]

    def _target(self, working: Lowering, operation: Operation, source: Tensor) -> Tensor:
        """Add the variable of a value on another IPU."""
        builder = working.builder
        debug = builder.debug.child(operation.name, working.front_end, operation.source)
        ipu, name = operation.attributes["ipu"], operation.output.name
        target = builder.graph.clone(source, name, debug=debug, ipu=ipu)
        working.keep(operation, target)
        return target

    def _function(self, body: Sequence, kind: str) -> Function | None:
        """Return a function of the stage; None where it does nothing."""
        if not body.children:
            return None
        role = PipelineRole(kind or "work", _names_of(self._stage.number, self._model))
        name = ", ".join(role.stages)
        return Function(body, f"{name}: {kind}" if kind else name, role)


def _names_of(stage: int, model: Model) -> tuple[str, ...]:
    """Return what a stage is: ``forward`` or ``backward``, and the number of its author."""
    last = max(op.placement.stage or 0 for op in model.operations)
    is_trained = any(op.training_pass is not None for op in model.operations)
    if not is_trained:
        return (f"forward {stage}",)
    if 2 * stage == last:
        return f"forward {stage}", f"backward {stage}"
    return (f"forward {stage}",) if 2 * stage < last else (f"backward {last - stage}",)
