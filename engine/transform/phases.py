"""Phases: parts of a model that run one after the other, each with its weights on the tiles."""

from __future__ import annotations

from dataclasses import replace

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Model, Operation, TrainingPass, Value, read_from_outside

__all__ = ["UPDATE", "in_phases", "pass_of"]

#: The three parts of a training step, by pass; without training, all is of the first.
FORWARD, BACKWARD, UPDATE = range(3)
_PARTS = {
    None: FORWARD,
    TrainingPass.FORWARD: FORWARD,
    TrainingPass.RECOMPUTATION: BACKWARD,
    TrainingPass.DATA_GRADIENT: BACKWARD,
    TrainingPass.WEIGHT_GRADIENT: BACKWARD,
    TrainingPass.UPDATE: UPDATE,
}


def pass_of(operation: Operation) -> int:
    """Return the part of a step that an operation is of: forward 0, backward 1, update 2."""
    return _PARTS[operation.training_pass]


def in_phases(model: Model) -> Model:
    """Return a model whose operations are sorted by phase; itself where none states one.

    An operation that states no phase is in the latest of what it reads. The phases of the backward
    pass run in the opposite order, and updates after all of them.

    Raises
    ------
    BadModel
        When an operation reads what a later phase computes, or the model is a pipeline.
    """
    if all(operation.placement.phase is None for operation in model.operations):
        return model
    if model.is_pipelined:
        raise BadModel(
            f"{model.name!r} has the stages of a pipeline, and phases: leave out one of them"
        )
    by_part: dict[int, list[Operation]] = {part: [] for part in range(3)}
    phases: dict[Value, tuple[int, Operation]] = {}
    for operation in model.operations:
        part = pass_of(operation)
        if part != UPDATE:
            operation = _phased(operation, part, phases)  # noqa: PLW2901 # the same operation
            number = operation.placement.phase or 0
            phases |= dict.fromkeys(operation.results, (number, operation))
        by_part[part].append(operation)
    forward = sorted(by_part[FORWARD], key=_phase)
    backward = sorted(by_part[BACKWARD], key=_phase, reverse=True)
    return replace(model, operations=(*forward, *backward, *by_part[UPDATE]))


def _phase(operation: Operation) -> int:
    return operation.placement.phase or 0


def _phased(
    operation: Operation, part: int, phases: dict[Value, tuple[int, Operation]]
) -> Operation:
    """Return an operation with its phase.

    Raises
    ------
    BadModel
        When it is in the forward pass and reads what a later phase computes.
    """
    read = [phases[value] for value in read_from_outside(operation) if value in phases]
    stated = operation.placement.phase
    if part == FORWARD:
        latest, maker = max(read, key=lambda pair: pair[0], default=(0, None))
        if stated is not None and stated < latest and maker is not None:
            raise BadModel(
                f"{operation} is in phase {stated} and reads what {maker} computes in phase"
                f" {latest}: phases run in ascending order, so state {latest} or a later one for"
                f" {operation.name!r}"
            )
        number = latest if stated is None else stated
    else:
        same = [phase for phase, maker in read if pass_of(maker) == BACKWARD]
        number = min([*same, *([] if stated is None else [stated])], default=_last(phases))
    return replace(operation, placement=replace(operation.placement, phase=number))


def _last(phases: dict[Value, tuple[int, Operation]]) -> int:
    return max((phase for phase, _ in phases.values()), default=0)
