"""Pipelines: what a session with ``enablePipelining`` asks for, and what PopART refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from popart.data_flow import DataFlow
from popart.device import DeviceInfo
from popart.enums import VirtualGraphMode
from popart.errors import popart_exception
from popart.names import reservedRestoredPrefix
from popart.options import SessionOptions
from tilescope.engine.ir import Model, Operation, Value
from tilescope.engine.transform.stages import pipelined

__all__ = ["check_pipelining", "in_pipeline", "is_one_run", "with_anchors"]

_RESTORED = reservedRestoredPrefix()


def is_one_run(options: SessionOptions) -> bool:
    """Return whether a pipeline takes all batches of a step at once.

    With gradient accumulation, it takes the micro-batches of one batch.
    """
    return bool(options.enablePipelining) and not options.enableGradientAccumulation


def check_pipelining(options: SessionOptions, device: DeviceInfo) -> None:
    """Refuse options that do not go together.

    Raises
    ------
    popart_exception
        Names the option.
    """
    if options.createImplicitPipeliningFwdOnlyProgram:
        what = "Implicit pipelining forward-only program is not supported"
        if not options.enablePipelining:
            raise popart_exception(f"{what} without implicit pipelining.")
        if options.enableExplicitMainLoops:
            raise popart_exception(f"{what} with explicit pipelining.")
        if not options.enableGradientAccumulation:
            raise popart_exception(f"{what} without gradient accumulation.")
        raise popart_exception(f"{what} yet: make an InferenceSession for the forward pass")
    mode = options.virtualGraphMode
    if options.enablePipelining and (mode is VirtualGraphMode.Off or device.numIpus < 2):
        raise popart_exception(
            f"Pipelining requires more than 1 IPU (currently {device.numIpus}) and a"
            " 'virtualGraphMode' session option that is not VirtualGraphMode::Off (currently"
            f" VirtualGraphMode::{mode.name})."
        )


def with_anchors(
    model: Model, tensors: Mapping[str, Value], options: SessionOptions, flow: DataFlow
) -> Model:
    """Return a model whose outputs are also the anchors that only a pipeline has.

    What is restored for the backward pass is the value of the forward pass. Where a run takes
    several batches, weights are outputs of each.

    Parameters
    ----------
    model, tensors
        The model, and its values by the names of tensors.
    options, flow
        Of the session.
    """
    if not options.enablePipelining:
        return model
    known = {value.name: value for value in model.parameters}
    outputs = [*model.outputs]
    for name in flow.anchors():
        of = name.removeprefix(_RESTORED)
        if of != name and of in tensors:
            outputs.append((name, tensors[of]))
        elif is_one_run(options) and name in known and known[name].is_trainable:
            outputs.append((name, known[name]))
    return replace(model, outputs=tuple(outputs))


def in_pipeline(
    model: Model, options: SessionOptions, flow: DataFlow, *, is_trained: bool
) -> Model:
    """Return a model that is pipelined, if a session asks for it.

    Parameters
    ----------
    model
        Its operations state IPUs.
    options, flow
        Of the session.
    is_trained
        Whether it gets a backward pass.

    Raises
    ------
    popart_exception
        When stages do not agree with IPUs, or a step has fewer micro-batches than stages.
    """
    if not options.enablePipelining:
        return model
    stages = _stages_of(model)
    _check_stages(model, stages)
    stages = _merged(stages)
    n_forward = 1 + max(stages.values(), default=0)
    n_stages = 2 * n_forward - 1 if is_trained else n_forward
    n_rounds = flow.batchesPerStep() if is_one_run(options) else int(options.accumulationFactor)
    if n_rounds < n_stages:
        depth = "batchesPerStep" if is_one_run(options) else "gradient accumulation factor"
        raise popart_exception(
            f"For pipelining, depth ({depth}) must equal at least the number of pipeline stages"
            f" ({n_stages})"
        )
    operations = tuple(
        replace(op, placement=replace(op.placement, stage=stages.get(op)))
        for op in model.operations
    )
    staged = replace(model, operations=operations)
    return pipelined(staged, n_rounds if is_one_run(options) else 1)


def _merged(stages: dict[Operation, int]) -> dict[Operation, int]:
    """Return stages without gaps; those that follow each other on one IPU are one.

    Source: graphcore/popart, willow/src/transforms/pipeline.cpp, mergeConsecutivePipelineStages.
    """
    ipus = {stage: operation.placement.ipu for operation, stage in stages.items()}
    numbers: dict[int, int] = {}
    before: int | None = None
    for stage in sorted(ipus):
        follows = before is not None and ipus[before] != ipus[stage]
        numbers[stage] = numbers[before] + follows if before is not None else 0
        before = stage
    return {operation: numbers[stage] for operation, stage in stages.items()}


def _stages_of(model: Model) -> dict[Operation, int]:
    """Return the stages of operations: those that they state, or their IPUs.

    Raises
    ------
    popart_exception
        When only some state one.
    """
    stated = [op for op in model.operations if op.placement.stage is not None]
    if stated and len(stated) < len(model.operations):
        without = next(op for op in model.operations if op.placement.stage is None)
        raise popart_exception(
            "Only some ops have had their pipeline stage set. Ops with pipeline stage set:"
            f" {len(stated)}. Ops without: {len(model.operations) - len(stated)}, such as"
            f" {without}"
        )
    places = {op: op.placement.stage if stated else op.placement.ipu for op in model.operations}
    return {op: stage for op, stage in places.items() if stage is not None}


def _check_stages(model: Model, stages: dict[Operation, int]) -> None:
    """Refuse stages on two IPUs, and values that an earlier stage reads.

    Raises
    ------
    popart_exception
        Names the nodes or the tensor.
    """
    first: dict[int, Operation] = {}
    made: dict[Value, int] = {}
    for operation in model.operations:
        if operation not in stages:
            continue
        stage = stages[operation]
        other = first.setdefault(stage, operation)
        if other.placement.ipu != operation.placement.ipu:
            raise popart_exception(
                f"Ops {other} and {operation} have the same pipeline stage {stage}, but different"
                f" virtual graph ids {other.placement.ipu} and {operation.placement.ipu}. All ops"
                " with the same pipeline stage must also have the same virtual graph"
            )
        for value in operation.operands:
            if made.get(value, stage) > stage:
                raise popart_exception(
                    f"Tensor {value.name} is consumed in an earlier pipeline stage than it is"
                    f" produced: stage {made[value]} computes it, and {operation} of stage {stage}"
                    " reads it"
                )
        made |= dict.fromkeys(operation.results, stage)
