"""The program of a module: exported, with loss and optimizer, compiled, on an engine."""

from __future__ import annotations

import glob
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from poptorch._logging import logger
from poptorch.enums import OutputMode, ReductionType
from poptorch.errors import createPoptorchError, engine_errors
from poptorch.executor.arguments import Arguments
from poptorch.executor.batches import BatchPlan, by_name
from poptorch.executor.machine import engine_options_of, machine_of
from poptorch.options import Options
from poptorch.running import running_on_ipu
from poptorch.strategies import OUTSIDE, PipelinedExecution, ShardedExecution
from poptorch.strategies.phased import PhasedExecution
from poptorch.trees import register_containers
from tilescope.engine.compiler.cache.programs import ProgramFolder
from tilescope.engine.frontend.torch import TorchProgram, load_torch, markers
from tilescope.engine.ir import Model, Operation, Placement, Recomputation
from tilescope.engine.options import EngineOptions
from tilescope.engine.session.capacity import REPORTED
from tilescope.engine.session.compilation import compile_with
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.program_file import ProgramQuestion, load_program, save_program
from tilescope.engine.session.settings import CompileSettings
from tilescope.engine.session.source_compilation import programs_of
from tilescope.engine.session.synthetic_data import with_synthetic_data
from tilescope.engine.training import Descent, Loss, for_training
from tilescope.engine.training.modes import SEED, drawing, in_training_mode
from tilescope.engine.transform.stages import pipelined

__all__ = ["DeviceProgram", "exported"]

Array = NDArray[Any]

_GRADIENT = "Gradient___"

#: Before the name of a weight: what a step leaves.
_UPDATED = "UpdatedVar___"

#: Name of the scale of the loss that the device has chosen before a step, and where it is held.
_SCALE, _HELD_SCALE = "finalLossScale", "lossScaling"

#: Kinds of recomputation by PopART's numbers.
_RECOMPUTATIONS = ("none", "standard", "norm", "pipeline", "all")

#: Losses of PyTorch whose names do not end with "loss".
_LOSSES = (
    "aten.binary_cross_entropy",
    "aten.binary_cross_entropy_with_logits",
    "aten.kl_div",
)

_SYNTHETIC = ("", "zeros", "random_normal", "random_uniform")


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
    """

    interface: TorchProgram
    model: Model
    loss: str
    n_ipus: int
    is_one_run: bool
    names: tuple[str, ...]


def exported(
    module: torch.nn.Module,
    arguments: Arguments,
    options: Options,
    trained: Sequence[str],
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
    frozen = {name for name, p in module.named_parameters() if p.requires_grad} - set(trained)
    with ExitStack() as stack:
        stack.enter_context(engine_errors())
        stack.enter_context(running_on_ipu())
        places = stack.enter_context(strategy.exporting(markers.placed))

        def ended(_: torch.nn.Module, __: object, output: object) -> None:
            places.close()
            register_containers(output)

        hook = module.register_forward_hook(ended, always_call=True)
        stack.callback(hook.remove)
        register_containers((arguments.args, arguments.kwargs))
        interface = load_torch(
            module,
            tuple(arguments.args),
            arguments.kwargs,
            is_training=is_training and bool(trained),
            frozen=[glob.escape(name) for name in frozen],
            holds_weights=True,
        )
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
    return Exported(interface, model, loss, n_ipus, is_one_run, names)


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
        if long_name == _SCALE:
            continue
        of = long_name.removeprefix(_GRADIENT).removeprefix(_UPDATED)
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
        if value.dtype.startswith("float") and int(np.prod(value.shape)) == 1
    ]
    computed = {
        value.name
        for operation in interface.model.operations
        if operation.source.endswith("loss") or operation.source in _LOSSES
        for value in operation.results
    }
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


def _trained(graph: Exported, options: Options, optimizer: Descent) -> Model:
    """Return the model that trains another one."""
    model, plan = graph.model, BatchPlan.of(options)
    seed = options.random_seed if options.exists("random_seed") else 0
    anchors = [
        name.removeprefix(_GRADIENT)
        for name, *_ in options.anchored_tensors.values()
        if name.startswith(_GRADIENT)
    ]
    if not anchors and not any(parameter.is_trainable for parameter in model.parameters):
        return in_training_mode(model, seed, plan.n_replicas)
    value = dict(model.outputs)[graph.loss]
    reduction = options.Training.accumulation_and_replication_reduction_type
    number = int(options._Popart.options.get("autoRecomputation", -1))
    default = "pipeline" if model.is_pipelined else "none"
    kind = default if number < 0 else _RECOMPUTATIONS[number]
    return for_training(
        model,
        Loss(kind="identity", output=graph.loss, reduction="none"),
        optimizer,
        plan.n_rounds,
        n_replicas=plan.n_replicas,
        is_averaged=reduction is ReductionType.Mean,
        anchors=anchors,
        seed=seed,
        recomputation=Recomputation(kind if model.is_pipelined or kind != "pipeline" else "none"),
        name=graph.loss if not value.shape else f"{graph.loss}/scalar",
    )


class DeviceProgram:
    """The program of a model, on an engine.

    Parameters
    ----------
    graph
        The module's.
    options
        Of the model.
    optimizer
        Trains it; None for inference.
    label
        Name of the engine in reports.
    file
        Has the program already; None to compile it.
    scratch
        Directory for the parts of a program of a file.

    Attributes
    ----------
    cycles
        Of the last call, on the slowest IPU.

    Raises
    ------
    Error
        When the program cannot be compiled, or does not fit.
    """

    def __init__(
        self,
        graph: Exported,
        options: Options,
        optimizer: Descent | None,
        label: str,
        file: Path | None = None,
        scratch: Path | None = None,
    ) -> None:
        self.graph, self.plan = graph, BatchPlan.of(options)
        self._popart = options._Popart.options
        self._watched = [
            name
            for name, *_ in options.anchored_tensors.values()
            if name == _SCALE or name.startswith(_UPDATED)
        ]
        self.cycles = 0
        with engine_errors():
            seed = options.random_seed if options.exists("random_seed") else 0
            model = (
                drawing(graph.model, seed, self.plan.n_replicas)
                if optimizer is None
                else _trained(graph, options, optimizer)
            )
            engine_options = engine_options_of(options)
            self.question = self._question(model, options, engine_options)
            if file is not None and scratch is not None:
                self.compiled = load_program(self.question, file, scratch)
            else:
                self.compiled = self._compiled(engine_options)
            facts = {"model_name": graph.model.name}
            if model.training is not None:
                facts |= model.training.facts
            executable = self.compiled.executable
            self.engine = Engine(executable, engine_options, name=label, provenance=facts)
            self.engine.print_line = _to_standard_error
            self.engine.load()

    def _question(
        self, model: Model, options: Options, engine_options: EngineOptions
    ) -> ProgramQuestion:
        kind = _SYNTHETIC[int(self._popart.get("syntheticDataMode", 0))]
        if kind:
            model = with_synthetic_data(model, kind, 0)
        excess = None if engine_options.allow_out_of_memory else REPORTED
        settings = CompileSettings.of(engine_options, excess)
        outlines = bool(self._popart.get("enableOutlining", True)) and settings.outlines
        settings = replace(settings, outlines=outlines)
        machine = machine_of(options, self.graph.n_ipus)
        return ProgramQuestion(model, machine, settings, has_weights=False)

    def _compiled(self, options: EngineOptions) -> CompiledModel:
        question, programs = self.question, programs_of(options)
        folder = self._popart.get("cachePath", "")
        if folder and self._popart.get("enableEngineCaching", False):
            programs = ProgramFolder(folder)
        return compile_with(
            question.model, question.machine, question.settings, options.cache_directory, programs
        )

    def save(self, file: Path) -> None:
        """Write the program into a file.

        Raises
        ------
        Error
            When no other process could take it, or it cannot be written.
        """
        with engine_errors():
            reason = save_program(self.question, self.compiled, file)
        if reason:
            raise createPoptorchError(f"The program cannot be saved: {reason}")

    def run(self, inputs: Mapping[str, Array], label: str) -> dict[str, Array]:
        """Run a call, and return all values of the outputs.

        Parameters
        ----------
        inputs
            Arrays of a call, by the names of the model's inputs.
        label
            Name of the runs in the report.

        Returns
        -------
        dict
            Arrays of shape (n_iterations, n_rounds, n_replicas, …) by the names of outputs; zeros
            where data are synthetic.
        """
        plan, model = self.plan, self.compiled.model
        cut = {value.name: plan.cut(inputs[value.name]) for value in model.inputs}
        n_rounds, n_runs = model.n_rounds, plan.n_iterations * plan.n_rounds // model.n_rounds
        shape = (n_runs, n_rounds, plan.n_replicas)
        cut = {name: array.reshape(*shape, *array.shape[3:]) for name, array in cut.items()}
        runs, cycles = [], np.zeros(self.graph.n_ipus, np.int64)
        with engine_errors():
            for number in range(n_runs):
                taken = {name: self._squeezed(array[number]) for name, array in cut.items()}
                given = {} if model.data is not None else taken
                before = self._held_before()
                runs.append({**self.compiled.run(self.engine, given, label), **before})
                runs[-1] |= self._held_after()
                if self._popart.get("instrumentWithHardwareCycleCounter"):
                    cycles = cycles + self.engine.n_cycles()
        self.cycles = int(cycles.max())
        front = (plan.n_iterations, plan.n_rounds, plan.n_replicas)
        if model.data is not None:
            return {
                name: np.zeros((*front, *value.shape), value.dtype) for name, value in model.outputs
            }
        joined = by_name(runs)
        outputs = {
            name: joined[name].reshape(*front, *value.shape) for name, value in model.outputs
        }
        for name in self._watched:  # of a run, the same for its micro-batches and replicas
            own = joined[name].shape[1:]
            array = joined[name].reshape(n_runs, 1, 1, *own)
            outputs[name] = np.broadcast_to(array, (*shape, *own)).reshape(*front, *own)
        return outputs

    def _held_before(self) -> dict[str, Array]:
        """Return what a step begins with, where it is anchored."""
        if _SCALE not in self._watched:
            return {}
        return {_SCALE: self.held().get(_HELD_SCALE, np.ones((), np.float32))}

    def _held_after(self) -> dict[str, Array]:
        """Return what a step leaves, where it is anchored."""
        names = [name for name in self._watched if name != _SCALE]
        if not names:
            return {}
        held, weights = self.held(), self.graph.interface.parameters
        return {
            name: held[weights.get(of, of)]
            for name in names
            for of in [name.removeprefix(_UPDATED)]
        }

    def _squeezed(self, array: Array) -> Array:
        """Return an array of a run without the dimensions of one round or one replica."""
        if self.plan.n_replicas == 1:
            array = array[:, 0]
        return array[0] if self.compiled.model.n_rounds == 1 else array

    def held(self) -> dict[str, Array]:
        """Return all that the device holds, by name."""
        with engine_errors(), self.engine.recording(False):
            return self.compiled.read_held(self.engine)

    def hold(self, arrays: Mapping[str, Array]) -> None:
        """Set what the device holds; values that are not given stay as they are."""
        known = {value.name: value for value in self.compiled.held}
        fitting = {
            name: np.asarray(array).astype(known[name].dtype).reshape(known[name].shape)
            for name, array in arrays.items()
            if name in known
        }
        if fitting:
            with engine_errors(), self.engine.recording(False):
                self.compiled.write_held(self.engine, fitting)

    def set_optimizer(self, optimizer: Descent) -> None:
        """Change the numbers of the optimizer.

        Raises
        ------
        Error
            When it computes otherwise than the one that the program is compiled for.
        """
        if self.compiled.training is None:
            return
        with engine_errors(), self.engine.recording(False):
            known = self.compiled.training.optimiser
            scaling = getattr(known, "scaling", None)
            optimizer = optimizer if scaling is None else replace(optimizer, scaling=scaling)
            self.compiled.write_optimiser(self.engine, optimizer)

    def seed(self) -> list[int]:
        """Return the words of the seed that random numbers are drawn from."""
        return [int(word) for word in self.held().get(SEED, ())]

    def set_seed(self, words: Sequence[int]) -> None:
        """Set the words of the seed."""
        if words:
            self.hold({SEED: np.asarray(words, np.int64)})

    def close(self) -> None:
        """Seal the report."""
        self.engine.close()


def _to_standard_error(line: str) -> None:
    """Write what a program prints where Poplar does."""
    sys.stderr.write(f"{line}\n")
