"""A module as an operator graph: exported, with stages, anchors and loss."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution

from poptorch._logging import logger
from poptorch.enums import OutputMode
from poptorch.errors import createPoptorchError, engine_errors
from poptorch.executor.arguments import Arguments
from poptorch.executor.batches import BatchPlan
from poptorch.executor.buffers import check_buffers, watched_buffers
from poptorch.executor.replica_groups import GroupedWeights
from poptorch.options import Options
from poptorch.running import running_on_ipu
from poptorch.strategies import OUTSIDE, PipelinedExecution, ShardedExecution
from poptorch.strategies.phased import PhasedExecution
from poptorch.trees import register_containers
from tilescope.engine.frontend.torch import TorchProgram, load_torch, markers
from tilescope.engine.ir import Model, Operation, Placement, Value
from tilescope.engine.transform.stages import pipelined

__all__ = ["GRADIENT", "SCALE", "UPDATED", "Exported", "exported"]

#: Before the name of a tensor: its gradient.
GRADIENT = "Gradient___"

#: Before the name of a weight: what a step leaves.
UPDATED = "UpdatedVar___"

#: Name of the scale of the loss that the device has chosen before a step.
SCALE = "finalLossScale"

#: Losses of PyTorch whose names do not have the word.
_LOSSES = (
    "aten.binary_cross_entropy",
    "aten.binary_cross_entropy_with_logits",
    "aten.kl_div",
)


@dataclass(frozen=True)
class Exported:
    """A module as an operator graph.

    Parameters
    ----------
    interface
        What goes in and out.
    model
        The graph, with placements, loss and optimizer.
    loss
        Name of the output that is the loss; empty for inference.
    n_ipus
        IPUs of a replica.
    is_one_run
        Whether a run takes all iterations of a call: a pipeline without accumulation.
    names
        Of all its tensors.
    groups
        The weights that replicas do not all share, by their names in the graph.
    """

    interface: TorchProgram
    model: Model
    loss: str
    n_ipus: int
    is_one_run: bool
    names: tuple[str, ...]
    groups: GroupedWeights


def exported(
    module: torch.nn.Module,
    arguments: Arguments,
    options: Options,
    trained: Sequence[str],
    groups: GroupedWeights,
    *,
    is_training: bool,
) -> Exported:
    """Return the operator graph of a module.

    Parameters
    ----------
    module
        The module, in the mode that it is in.
    arguments
        What it takes: of one micro-batch.
    options
        Of the model: blocks, anchors.
    trained
        Module paths of the parameters that the optimizer changes.
    groups
        The weights that replicas do not all share.
    is_training
        Whether it is trained.

    Raises
    ------
    Error
        When it cannot be exported, or has no loss.
    """
    strategy = options._execution_strategy
    if isinstance(strategy, PhasedExecution):
        raise createPoptorchError(
            f"{type(strategy).__name__} is not supported: phases need memory off the chip; use"
            " PipelinedExecution or ShardedExecution"
        )
    for tensor in arguments.tensors():
        if not tensor.numel():
            raise createPoptorchError(
                f"Zero-sized tensors are unsupported (Got shape {[*tensor.shape]})"
            )
    frozen = {name for name, p in module.named_parameters() if p.requires_grad} - set(trained)
    with ExitStack() as stack:
        stack.enter_context(engine_errors())
        stack.enter_context(running_on_ipu())
        stack.enter_context(groups.on_first(module))
        stack.enter_context(_without_checks_of_distributions())
        places = stack.enter_context(strategy.exporting(markers.placed))

        def ended(_: torch.nn.Module, __: object, output: object) -> None:
            places.close()
            check_names()
            register_containers(output)

        stack.callback(module.register_forward_hook(ended, always_call=True).remove)
        check_names = stack.enter_context(watched_buffers(module))
        register_containers((arguments.args, arguments.kwargs))
        interface = load_torch(
            module,
            tuple(arguments.args),
            arguments.kwargs,
            is_training=is_training and bool(trained),
            frozen=[glob.escape(name) for name in frozen],
            holds_weights=True,
            returns_written=True,
            shared_by={path: g for path, g in groups.groups.items() if g.size < groups.n_replicas},
        )
    check_buffers(module, interface, options)
    model = _with_anchors(interface.model, options)
    model, n_ipus = _placed(model, strategy)
    loss = _loss_of(interface) if is_training else ""
    plan = BatchPlan.of(options)
    is_pipeline = type(strategy) is PipelinedExecution and n_ipus > 1
    logger.debug("enablePipelining set to value %d", is_pipeline)
    for name, _, mode, period in options.anchored_tensors.values():
        kind = OutputMode(mode).name
        logger.debug("Anchor %s %s/%d", name, "Sum" if kind == "Sum" else kind.upper(), period)
    is_one_run = is_pipeline and plan.n_rounds == 1
    if is_pipeline:
        model = pipelined(model, plan.n_iterations if is_one_run else 1)
        _check_depth(model, plan, is_training=is_training)
    names = tuple(_values_by_name(interface.model))
    by_name = {interface.parameters[path]: group for path, group in groups.groups.items()}
    groups = replace(groups, groups=by_name)
    return Exported(interface, model, loss, n_ipus, is_one_run, names, groups)


@contextmanager
def _without_checks_of_distributions() -> Iterator[None]:
    """Let distributions take their numbers as they are: what they check are data of a run."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


def _values_by_name(model: Model) -> dict[str, Any]:
    values = {value.name: value for value in (*model.inputs, *model.parameters, *model.held)}
    values |= {value.name: value for op in model.operations for value in op.results}
    return values | dict(model.outputs)


def _with_anchors(model: Model, options: Options) -> Model:
    """Return a model with the anchored tensors among its outputs; gradients come later.

    Raises
    ------
    Error
        When no tensor has such a name.
    """
    known, outputs = _values_by_name(model), [*model.outputs]
    for long_name, *_ in options.anchored_tensors.values():
        if long_name == SCALE:
            continue
        of = long_name.removeprefix(GRADIENT).removeprefix(UPDATED)
        if of not in known:
            raise createPoptorchError(
                f"Anchor tensor `{long_name}' not found: getTensorNames() lists all tensors"
            )
        if of == long_name and long_name not in dict(outputs):
            outputs.append((long_name, known[long_name]))
    return replace(model, outputs=tuple(outputs))


def _placed(model: Model, strategy: object) -> tuple[Model, int]:
    """Return a model whose stages follow each other from 0, and the number of its IPUs.

    What comes before the first block is in the first stage, on the first IPU.

    Raises
    ------
    Error
        When something follows a block that has ended.
    """
    outside = next((op for op in model.operations if op.placement.phase == OUTSIDE), None)
    if outside is not None:
        raise createPoptorchError(
            f"No active Block: {outside} follows a block that has ended; put it into a block"
        )
    first = next((n for n, op in enumerate(model.operations) if op.placement.is_stated), 0)
    start = Placement(0, 0)
    before = [replace(op, placement=start) for op in model.operations[:first]]
    operations = (*before, *model.operations[first:])
    ipus = {op.placement.ipu for op in operations} - {None}
    n_ipus = 1 + max((ipu for ipu in ipus if ipu is not None), default=0)
    stages = sorted({op.placement.stage for op in operations if op.placement.stage is not None})
    numbers: dict[int | None, int] = {stage: number for number, stage in enumerate(stages)}
    is_sharded = isinstance(strategy, ShardedExecution)

    def of(operation: Operation) -> Operation:
        place = operation.placement
        stage = None if n_ipus == 1 or is_sharded else numbers.get(place.stage)
        ipu = None if n_ipus == 1 else place.ipu
        return replace(operation, placement=Placement(ipu, stage))

    return replace(model, operations=tuple(map(of, operations))), n_ipus


def _check_depth(model: Model, plan: BatchPlan, *, is_training: bool) -> None:
    """Refuse pipelines with fewer micro-batches than stages.

    Raises
    ------
    Error
        With both numbers.
    """
    stages = {op.placement.stage for op in model.operations} - {None}
    n_stages = max(1, len(stages))
    needed = 2 * n_stages - 1 if is_training else n_stages
    depth = plan.n_rounds if is_training else plan.n_iterations
    if depth >= needed:
        return
    option = "Training.gradientAccumulation" if is_training else "deviceIterations"
    more = (
        f" Please note that a model with {n_stages} pipeline stages in PopTorch will have an"
        f" additional {n_stages - 1} stages when training."
    )
    raise createPoptorchError(
        f"poptorch.Options().{option} must be greater than or equal to the number of pipeline"
        f" stages ({needed}) when using poptorch.PipelinedExecution."
        + (more if is_training else "")
    )


def _is_loss(operation: Operation) -> bool:
    """Return whether an operation is one of a loss of PyTorch."""
    return "loss" in operation.source or operation.source in _LOSSES


def _check_independent(interface: TorchProgram) -> None:
    """Refuse several losses of PyTorch of which none is computed from the others.

    Raises
    ------
    Error
        Names them.
    """
    reached: dict[Value, set[str]] = {}
    losses: dict[str, set[str]] = {}  # what a loss is computed from, by its name
    for operation in interface.model.operations:
        before = set().union(*(reached.get(v, set()) for v in operation.inputs if v is not None))
        if _is_loss(operation):
            losses.setdefault(operation.name, set()).update(before - {operation.name})
            before |= {operation.name}
        reached |= dict.fromkeys(operation.results, before)
    followed = set().union(*losses.values()) if losses else set()
    independent = [name for name in losses if name not in followed]
    if len(independent) > 1:
        raise createPoptorchError(
            "Multiple independent losses found in graph. Graph must have one final loss. Wrap final"
            f" graph loss in poptorch.identity_loss. (Losses: {', '.join(independent)})"
        )


def _loss_of(interface: TorchProgram) -> str:
    """Return the name of the output that is the loss.

    It is the last one that is marked, else the last one that a loss of PyTorch computes, else the
    last scalar.

    Raises
    ------
    Error
        When there is none.
    """
    if interface.losses:
        return interface.losses[-1].output
    scalars = [
        name
        for name, value in interface.model.outputs
        if value.dtype.startswith("float")
        and int(np.prod(value.shape)) == 1
        and name not in interface.written.values()
    ]
    computed = {
        value.name
        for operation in interface.model.operations
        if _is_loss(operation)
        for value in operation.results
    }
    _check_independent(interface)
    outputs = dict(interface.model.outputs)
    losses = [name for name in scalars if outputs[name].name in computed]
    if losses:
        return losses[-1]
    if not scalars:
        raise createPoptorchError(
            f"Couldn't find a loss in graph: {interface.model.name} returns"
            f" {', '.join(name for name, _ in interface.model.outputs) or 'nothing'}, of which"
            " none is a floating-point scalar; return the loss, marked by poptorch.identity_loss"
            " if it is not the last scalar"
        )
    return scalars[-1]
