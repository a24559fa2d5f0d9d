"""Gives every node of a pipelined model its stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Model, Operation, Value, read_from_outside, walk

__all__ = ["check_order", "give_stages", "pipelined", "spread_stages", "stage_ipus"]


def pipelined(model: Model, n_rounds: int = 1) -> Model:
    """Return a model whose stages run at a time, each on another micro-batch.

    Parameters
    ----------
    model
        As a front end loads it; its nodes state stages (`tilescope.engine.transform.split`), or
        IPUs, which are the stages then.
    n_rounds
        Micro-batches of a run. Training states its own; if it states one, each of these changes the
        weights. A stage then reads weights that lack the gradients of the micro-batches that have
        not come back yet.
    """
    return replace(model, is_pipelined=True, n_rounds=n_rounds)


def give_stages(model: Model) -> Model:
    """Return a pipelined model whose nodes all have a stage and an IPU; others stay as they are.

    Where no node states a stage, IPUs are stages. A node that states none is in the latest stage
    of its operands, or in that of its first reader. A stage is on the IPU that its nodes state,
    or on that of its number.

    Raises
    ------
    BadModel
        When stages do not follow each other from 0, one is on two IPUs, or a node reads what a
        later stage computes.
    """
    if not model.is_pipelined:
        return model
    operations = model.operations
    if all(op.placement.stage is None for op in operations):
        operations = tuple(_staged(op, op.placement.ipu, op.placement.ipu) for op in operations)
    stated = {op.placement.stage for op in operations if op.placement.stage is not None} or {0}
    missing = next((s for s in range(max(stated)) if s not in stated), None)
    if missing is not None:
        raise BadModel(
            f"{model.name!r} has nodes in stages {', '.join(map(str, sorted(stated)))}, and none in"
            f" stage {missing}: stages of a pipeline follow each other from 0"
        )
    stages = spread_stages(operations, [op.placement.stage for op in operations])
    check_order(operations, stages)
    ipus = stage_ipus(operations, stages)
    return replace(
        model,
        operations=tuple(
            _staged(op, stage, ipus[stage]) for op, stage in zip(operations, stages, strict=True)
        ),
    )


def spread_stages(operations: Sequence[Operation], stated: Sequence[int | None]) -> list[int]:
    """Return the stage of every operation; those that state none are near what they depend on.

    Parameters
    ----------
    operations
        In their order.
    stated
        Their stages; None for those that state none, which take the latest stage of their
        operands, or else the first of their readers, or of those that read the same held values.
    """
    stages = list(stated)
    made: dict[Value, int] = {}
    for i, operation in enumerate(operations):
        if stages[i] is None:
            of_operands = [made[v] for v in read_from_outside(operation) if v in made]
            stages[i] = max(of_operands, default=None)
        if (stage := stages[i]) is not None:
            made |= dict.fromkeys(operation.results, stage)
    first: dict[Value, int] = {}
    for operation, stage in zip(operations, stages, strict=True):
        if stage is not None:
            for value in read_from_outside(operation):
                first[value] = min(stage, first.get(value, stage))
    settled: list[int] = []
    for operation, number in zip(reversed(operations), reversed(stages), strict=True):
        stage = number
        if stage is None:
            held = [v for v in read_from_outside(operation) if v.is_held]
            near = [first[v] for v in operation.results if v in first]
            near = near or [first[v] for v in held if v in first]
            stage = min(near, default=0)
            for value in read_from_outside(operation):
                first[value] = min(stage, first.get(value, stage))
        settled.append(stage)
    return settled[::-1]


def stage_ipus(operations: Sequence[Operation], stages: Sequence[int]) -> dict[int, int]:
    """Return the IPU of every stage: that which its operations state, or that of its number.

    Raises
    ------
    BadModel
        When operations of a stage state different IPUs.
    """
    ipus: dict[int, Operation] = {}
    for operation, stage in zip(operations, stages, strict=True):
        if operation.placement.ipu is None:
            continue
        other = ipus.setdefault(stage, operation)
        if other.placement.ipu != operation.placement.ipu:
            raise BadModel(
                f"Stage {stage} is on two IPUs: {other} on IPU {other.placement.ipu}, and"
                f" {operation} on IPU {operation.placement.ipu}"
            )
    numbers = {stage: op.placement.ipu for stage, op in ipus.items()}
    return {stage: _or(numbers.get(stage), stage) for stage in dict.fromkeys(stages)}


def check_order(operations: Sequence[Operation], stages: Sequence[int]) -> None:
    """Refuse an operation that reads what a later stage computes.

    Raises
    ------
    BadModel
        Names both operations.
    """
    made: dict[Value, tuple[Operation, int]] = {}
    for operation, stage in zip(operations, stages, strict=True):
        for value in read_from_outside(operation):
            maker, of_maker = made.get(value, (operation, stage))
            if of_maker > stage:
                raise BadModel(
                    f"{operation} of stage {stage} reads {value.name!r}, which {maker} of stage"
                    f" {of_maker} computes: a stage reads what it computes itself, or stages"
                    " before it"
                )
        made |= dict.fromkeys(operation.results, (operation, stage))


def _or(number: int | None, default: int) -> int:
    return default if number is None else number


def _staged(operation: Operation, stage: int | None, ipu: int | None) -> Operation:
    """Return an operation in a stage, with what is inside it.

    Raises
    ------
    BadModel
        When something inside it states another stage.
    """
    for inner in walk(tuple(op for r in operation.regions.values() for op in r.operations)):
        if inner.placement.stage not in (None, stage):
            raise BadModel(
                f"{inner} is in stage {inner.placement.stage}, inside {operation} in stage {stage}:"
                " an operation and what is inside it are in one stage"
            )
    placement = replace(operation.placement, stage=stage, ipu=ipu)
    return replace(operation, placement=placement)
