"""The program of a module: with its loss and optimizer, compiled, on an engine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poptorch.enums import ReductionType
from poptorch.errors import createPoptorchError, engine_errors
from poptorch.executor.batches import BatchPlan, by_name
from poptorch.executor.export import GRADIENT, SCALE, UPDATED, Exported
from poptorch.executor.locations import located
from poptorch.executor.machine import engine_options_of, machine_of
from poptorch.options import Options
from tilescope.engine.compiler.cache.programs import ProgramFolder
from tilescope.engine.ir import Model, Recomputation
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

__all__ = ["DeviceProgram"]

Array = NDArray[Any]

#: Name of what holds the scale of the loss.
_HELD_SCALE = "lossScaling"

#: Kinds of recomputation by PopART's numbers.
_RECOMPUTATIONS = ("none", "standard", "norm", "pipeline", "all")

_SYNTHETIC = ("", "zeros", "random_normal", "random_uniform")


def _trained(graph: Exported, options: Options, optimizer: Descent) -> Model:
    """Return the model that trains another one."""
    model, plan = graph.model, BatchPlan.of(options)
    seed = options.random_seed if options.exists("random_seed") else 0
    anchors = [
        name.removeprefix(GRADIENT)
        for name, *_ in options.anchored_tensors.values()
        if name.startswith(GRADIENT)
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
            if name == SCALE or name.startswith(UPDATED)
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
            model = located(model, options, optimizer)
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
        if SCALE not in self._watched:
            return {}
        return {SCALE: self.held().get(_HELD_SCALE, np.ones((), np.float32))}

    def _held_after(self) -> dict[str, Array]:
        """Return what a step leaves, where it is anchored."""
        names = [name for name in self._watched if name != SCALE]
        if not names:
            return {}
        held, weights = self.held(), self.graph.interface.parameters
        return {
            name: held[weights.get(of, of)] for name in names for of in [name.removeprefix(UPDATED)]
        }

    def _squeezed(self, array: Array) -> Array:
        """Return an array of a run without the dimensions of one round or one replica."""
        if self.plan.n_replicas == 1:
            array = array[:, 0]
        return array[0] if self.compiled.model.n_rounds == 1 else array

    def held(self) -> dict[str, Array]:
        """Return all that the device holds, by name.

        Of what groups of replicas have of their own, it is an array with a dimension for groups.
        """
        groups = self.graph.groups
        with engine_errors(), self.engine.recording(False):
            if not groups.groups:
                return self.compiled.read_held(self.engine)
            replicas = self.compiled.read_replicas(self.engine)
        held = dict(replicas[0])
        for name in held:
            if group := groups.find(name):
                held[name] = groups.of_groups(group, [own[name] for own in replicas])
        return held

    def hold(self, arrays: Mapping[str, Array]) -> None:
        """Set what the device holds; values that are not given stay as they are."""
        known = {value.name: value for value in self.compiled.held}
        groups = self.graph.groups
        shared: dict[str, Array] = {}
        apart: dict[str, list[Array]] = {}
        for name, array in arrays.items():
            if name not in known:
                continue
            fitting, shape = np.asarray(array).astype(known[name].dtype), known[name].shape
            if group := groups.find(name):
                apart[name] = groups.of_replicas(group, fitting.reshape(-1, *shape))
            else:
                shared[name] = fitting.reshape(shape)
        if shared or apart:
            with engine_errors(), self.engine.recording(False):
                self.compiled.write_held(self.engine, shared, apart)

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
