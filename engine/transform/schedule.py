"""Makes a pipeline of a model with stages: what crosses from a stage to a later one.

A value that a later stage of its IPU reads is stashed and restored; to another IPU it is copied,
from stage to stage, so that every stage has what belongs to its own micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import (
    IrBuilder,
    Model,
    Operation,
    Operator,
    Parameter,
    Placement,
    TrainingPass,
    Value,
    read_from_outside,
)
from tilescope.engine.operators.movement.ipu_copy import IPU_COPY
from tilescope.engine.operators.movement.stash import RESTORE, SLOT, STASH
from tilescope.engine.transform.stages import check_order, spread_stages, stage_ipus

__all__ = ["schedule"]

#: What runs in the stage that is the mirror image of the forward pass's.
_BACKWARD = frozenset(
    {TrainingPass.DATA_GRADIENT, TrainingPass.WEIGHT_GRADIENT, TrainingPass.RECOMPUTATION}
)


@dataclass
class _Route:
    """Where a value is, by stage.

    Parameters
    ----------
    home
        The stage that computes it, or reads it first.
    values
        What it is in a stage.
    rings
        By stage that stashes it: the last stage that restores it from there.
    restored
        By stage that restores it: the stage of the stash.
    copied
        Stages that have it from the stage before, on another IPU.
    """

    home: int
    values: dict[int, Value]
    rings: dict[int, int] = field(default_factory=dict)
    restored: dict[int, int] = field(default_factory=dict)
    copied: list[int] = field(default_factory=list)
    stashes: dict[int, Value] = field(default_factory=dict)


def schedule(model: Model) -> Model:
    """Return a pipelined model with its operations by stage, and what crosses between stages.

    The forward pass has stages 0 to P-1, and the backward pass of stage s is stage 2P-2-s: the last
    forward stage and the first backward one are one. A single micro-batch has nothing to run
    beside: it runs as without a pipeline. Other models stay as they are.

    Raises
    ------
    BadModel
        When a parameter is read on two IPUs, or a stage replaces what an earlier one reads in every
        micro-batch.
    """
    if not model.is_pipelined:
        return model
    if model.n_rounds == 1:
        return replace(model, is_pipelined=False)
    pipeline = _Pipeline(model)
    pipeline.find_routes()
    replaced: dict[Value, Value] = {
        update.held: update.value for update in model.updates if isinstance(update.held, Parameter)
    }
    return replace(
        model,
        operations=tuple(pipeline.scheduled()),
        # Weights that every micro-batch changes are returned as they are afterwards.
        outputs=tuple((name, replaced.get(value, value)) for name, value in model.outputs),
    )


class _Pipeline:
    """A model's operations by stage, and what crosses between stages.

    Attributes
    ----------
    operations, stages
        By stage, otherwise in their order.
    ipus
        By stage.
    """

    def __init__(self, model: Model) -> None:
        stages, self.ipus = _stages_of(model)
        check_order(model.operations, stages)
        order = sorted(range(len(stages)), key=stages.__getitem__)
        self.operations = [model.operations[i] for i in order]
        self.stages = [stages[i] for i in order]
        self._maker: dict[Value, Operation] = {}
        self._home: dict[Value, int] = {}
        self._readers: dict[Value, set[int]] = {}
        for operation, stage in zip(self.operations, self.stages, strict=True):
            self._maker |= dict.fromkeys(operation.results, operation)
            self._home |= dict.fromkeys(operation.results, stage)
            for value in _read_by(operation):
                self._readers.setdefault(value, set()).add(stage)
        #: Stages that replace held values.
        self._replaced: dict[Value, int] = {}
        for update in model.updates:
            readers = self._readers.get(update.held, {0})
            self._replaced[update.held] = self._home.get(update.value, min(readers))
        self._invariants = self._find_invariants()
        self._routes: dict[Value, _Route] = {}
        self._again: dict[tuple[Value, int], Value] = {}
        self._slots: dict[tuple[int, int], Value] = {}

    def find_routes(self) -> None:
        """Find the way of every value to its readers.

        Raises
        ------
        BadModel
            As for `schedule`.
        """
        for value, stage in self._replaced.items():
            first = min(self._readers.get(value, {stage}))
            if first < stage and not isinstance(value, Parameter):
                raise BadModel(
                    f"{value.name!r} is read in stage {first} and replaced in stage {stage} in"
                    " every micro-batch: in a pipeline, the stage that reads it first replaces it"
                )
        for value, readers in self._readers.items():
            for stage in sorted(readers):
                if not self._is_there(value, stage) and not self._is_invariant(value, stage):
                    self._check_parameter(value, stage)
                    home = self._home_of(value)
                    route = self._routes.setdefault(value, _Route(home, {home: value}))
                    self._bring(route, stage)

    def _home_of(self, value: Value) -> int:
        """Return the stage that computes a value, or is the first to read or replace it."""
        if value in self._home:
            return self._home[value]
        stages = [*self._readers[value]]
        return min([*stages, *([self._replaced[value]] if value in self._replaced else [])])

    def _is_there(self, value: Value, stage: int) -> bool:
        """Return whether a stage reads a value where it is."""
        home = self._home_of(value)
        if stage == home or not value.is_held:
            return stage == home
        if self.ipus[stage] == self.ipus[home]:
            # Weights that every micro-batch changes are read as they are.
            return value not in self._replaced or isinstance(value, Parameter)
        return False

    def _check_parameter(self, value: Value, stage: int) -> None:
        """Refuse a parameter that is read on two IPUs.

        Raises
        ------
        BadModel
            Names the stages.
        """
        home = self._home_of(value)
        if isinstance(value, Parameter) and self.ipus[stage] != self.ipus[home]:
            raise BadModel(
                f"Parameter {value.name!r} is read in stage {home} on IPU {self.ipus[home]} and in"
                f" stage {stage} on IPU {self.ipus[stage]}: a pipeline does not copy parameters"
                " between IPUs; put both stages on one IPU"
            )

    def _find_invariants(self) -> dict[Value, frozenset[Value]]:
        """Return the results that no micro-batch changes, with the held values they depend on."""
        found: dict[Value, frozenset[Value]] = {}
        for operation in self.operations:
            read = _read_by(operation)
            if operation.operator.is_kept or not all(v in found or v.is_held for v in read):
                continue
            held = frozenset[Value]().union(*(found.get(value, {value}) for value in read))
            if held.isdisjoint(self._replaced):
                found |= dict.fromkeys(operation.results, held)
        return found

    def _is_invariant(self, value: Value, stage: int) -> bool:
        """Return whether a stage can compute a value again from what no micro-batch changes."""
        held = self._invariants.get(value)
        return held is not None and all(self._is_there(v, stage) for v in held)

    def _bring(self, route: _Route, stage: int) -> None:
        """Let a stage have a value: from a stash on its IPU, or from the stage before."""
        if stage in route.values:
            return
        value = route.values[route.home]
        first = next(
            (s for s in sorted(route.values) if s < stage and self.ipus[s] == self.ipus[stage]),
            None,
        )
        if first is None:
            self._bring(route, stage - 1)
            route.copied.append(stage)
        else:
            route.rings[first] = max(stage, route.rings.get(first, 0))
            route.restored[stage] = first
        route.values[stage] = Value(value.name, value.shape, value.dtype)

    def scheduled(self) -> list[Operation]:
        """Return the operations, by stage, with those that bring values to other stages."""
        groups: dict[int, list[list[Operation]]] = {stage: [] for stage in self.ipus}
        pairs = zip(self.operations, self.stages, strict=True)
        for (_, stage), members in groupby(pairs, key=lambda pair: (pair[0].name, pair[1])):
            groups[stage].append([operation for operation, _ in members])
        operations: list[Operation] = []
        for stage, of_stage in groups.items():
            work: list[Operation] = []
            missing = {v: r for v, r in self._routes.items() if stage in r.restored}
            for group in of_stage:
                made = {value for operation in group for value in operation.results}
                read = dict.fromkeys(v for operation in group for v in _read_by(operation))
                there: dict[Value, Value] = {}
                for value in read:
                    if value not in made:
                        if value in missing:
                            work.append(self._restore(missing.pop(value), stage))
                        there[value] = self._there(value, stage, work)
                work += [self._in_stage(operation, stage, there) for operation in group]
            work += [self._restore(route, stage) for route in missing.values()]
            for route in self._routes.values():
                if stage in route.rings:
                    work.append(self._stash(route, stage))
            operations += self._counters(stage)
            operations += work
            for route in self._routes.values():
                if stage + 1 in route.copied:
                    operations.append(self._copy(route, stage))
        return operations

    def _there(self, value: Value, stage: int, before: list[Operation]) -> Value:
        """Return what a value is in a stage; `before` takes what computes it again there."""
        if self._is_there(value, stage):
            return value
        route = self._routes.get(value)
        if route is not None and stage in route.values:
            return route.values[stage]
        if (value, stage) not in self._again:
            operation = self._maker[value]
            there = {v: self._there(v, stage, before) for v in _read_by(operation)}
            copy = self._in_stage(operation, stage, there)
            results = {v: Value(v.name, v.shape, v.dtype) for v in operation.results}
            outputs = tuple(None if v is None else results[v] for v in operation.outputs)
            kind = operation.training_pass and TrainingPass.RECOMPUTATION
            before.append(replace(copy, outputs=outputs, training_pass=kind))
            self._again |= {(v, stage): new for v, new in results.items()}
        return self._again[value, stage]

    def _in_stage(
        self, operation: Operation, stage: int, there: Mapping[Value, Value]
    ) -> Operation:
        """Return an operation in a stage, on what it reads there."""
        placement = replace(operation.placement, stage=stage, ipu=self.ipus[stage])
        here = {v: new for v in _read_by(operation) if (new := there.get(v, v)) is not v}
        placed = replace(operation, placement=placement)
        return IrBuilder(operation.name).reading(placed, here)

    def _counters(self, stage: int) -> list[Operation]:
        """Return what counts the slots of a stage."""
        return [
            self._moved(SLOT, (), slot, stage, "Slot", n_slots=n_slots)
            for (of_stage, n_slots), slot in self._slots.items()
            if of_stage == stage
        ]

    def _slot(self, stage: int, n_slots: int) -> Value:
        name = f"Slot/stage{stage}of{n_slots}"
        return self._slots.setdefault((stage, n_slots), Value(name, (1,), "int32"))

    def _stash(self, route: _Route, stage: int) -> Operation:
        n_slots = route.rings[stage] - stage + 1
        value = route.values[stage]
        name = f"Stash/{value.name}"
        route.stashes[stage] = Value(name, (n_slots, *value.shape), value.dtype)
        operands = value, self._slot(stage, n_slots)
        return self._moved(STASH, operands, route.stashes[stage], stage, "Stash", n_slots=n_slots)

    def _restore(self, route: _Route, stage: int) -> Operation:
        stash, value = route.stashes[route.restored[stage]], route.values[stage]
        operands = stash, self._slot(stage, stash.shape[0])
        return self._moved(RESTORE, operands, value, stage, "Restore")

    def _copy(self, route: _Route, stage: int) -> Operation:
        value, copy, ipu = route.values[stage], route.values[stage + 1], self.ipus[stage + 1]
        copied = self._moved(IPU_COPY, (value,), copy, stage, "IpuCopy", ipu=ipu)
        name, placement = f"{value.name}/toStage{stage + 1}", replace(copied.placement, ipu=ipu)
        return replace(copied, name=name, placement=placement)

    def _moved(
        self,
        operator: Operator,
        operands: tuple[Value, ...],
        result: Value,
        stage: int,
        source: str,
        **attributes: int,
    ) -> Operation:
        """Return an operation of a stage that brings a value to another one."""
        name = result.name if operator is not RESTORE else f"Restore/{result.name}"
        return Operation(
            operator=operator,
            name=name,
            source=source,
            inputs=operands,
            outputs=(result,),
            attributes=attributes,
            placement=Placement(self.ipus[stage], stage),
        )


def _stages_of(model: Model) -> tuple[list[int], dict[int, int]]:
    """Return the stages of a model's operations, and the IPU of every stage."""
    last = 2 * max((op.placement.stage or 0 for op in model.operations), default=0)
    is_trained = any(op.training_pass in _BACKWARD for op in model.operations)

    def stated(operation: Operation) -> int | None:
        stage = operation.placement.stage
        is_backward = operation.training_pass in _BACKWARD
        return last - stage if is_backward and stage is not None else stage

    stages = spread_stages(model.operations, [stated(op) for op in model.operations])
    ipus = stage_ipus(model.operations, [min(stage, last - stage) for stage in stages])
    n_stages = last + 1 if is_trained else last // 2 + 1
    forward = [min(stage, last - stage) for stage in range(n_stages)]
    return stages, {stage: ipus.get(of, of) for stage, of in enumerate(forward)}


def _read_by(operation: Operation) -> list[Value]:
    """Return what an operation and its regions read; what is known left out."""
    return [value for value in read_from_outside(operation) if value.known is None]
